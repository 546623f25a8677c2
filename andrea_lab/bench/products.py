"""The matrix products of one training step, alone: what the step would take if everything else were free."""

from __future__ import annotations

from statistics import median

import numpy as np

from andrea_lab.bench.timing import seconds
from andrea_lab.model.config import ModelConfig
from kernels.matmul import gemm
from kernels.target import run


def shapes(model: ModelConfig, rows: int) -> dict[tuple[int, int], int]:
    """(K, M) of every out (N, M) = inp (N, K) @ w of a forward pass, and how often it occurs."""
    c, f = model.width, model.hidden
    return {(c, c): 4 * model.layers, (c, f): model.layers, (f, c): model.layers, (c, model.vocab): 1}


def flops(model: ModelConfig, rows: int) -> int:
    """Of a step: 2 N K M forward, as many for dinp and for dw."""
    return sum(6 * rows * k * m * count for (k, m), count in shapes(model, rows).items())


def alone(model: ModelConfig, rows: int, rounds: int) -> dict:
    """Time the three products of each shape by turns. Returns gemm_ms of a step and the rate in GFLOP/s.

    Operands are warm, sums go where the engine puts them: out is written, dinp and dw are added to.
    """
    work = {}
    for k, m in shapes(model, rows):
        inp, out, w = np.ones((rows, k), np.float32), np.zeros((rows, m), np.float32), np.ones((k, m), np.float32)
        dinp, dw = np.zeros_like(inp), np.zeros_like(w)
        forward, backward = gemm(inp, w, out), gemm(out, w, dinp, tb=True, add=True)
        work[k, m] = [*forward, *backward, *gemm(inp, out, dw, ta=True, add=True)]
    times: dict[tuple[int, int], list[float]] = {shape: [] for shape in work}
    for _ in range(rounds):
        for shape, launches in work.items():
            run(launches)
            times[shape].append(seconds(lambda made=launches: run(made)))
    total = sum(median(times[shape]) * count for shape, count in shapes(model, rows).items())
    return {"gemm_ms": total * 1e3, "gemm_gflops": flops(model, rows) / total / 1e9}
