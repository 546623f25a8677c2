"""`andrea bench check`: how long the check target takes for a launch, beside Numba's simulator, which finds little.

Three launches as a lesson has them. Each must come out right and without a fault before it is timed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numba import cuda, float32

import kernels
from andrea_lab.bench import machine, tables, timing
from andrea_lab.bench.server import BenchError
from andrea_lab.rng import rng
from kernels import matmul, reference
from kernels.target import kernel, ptx

NT = 128
EDGE, HS = 16, 32
ROUNDS = 5
ORDERS = 2
MOST = 1e-5  # relative error


@kernel
def k_rows(inp, gamma, beta, out, C, eps):
    """Layer norm, a block of 128 threads for each row and two trees."""
    row, tx = cuda.blockIdx.x, cuda.threadIdx.x
    sums = cuda.shared.array(NT, float32)
    acc = float32(0.0)
    for j in range(tx, C, NT):
        acc += inp[row, j]
    sums[tx] = acc
    cuda.syncthreads()
    s = NT // 2
    while s > 0:
        if tx < s:
            sums[tx] += sums[tx + s]
        cuda.syncthreads()
        s //= 2
    mu = sums[0] / float32(C)
    cuda.syncthreads()
    acc = float32(0.0)
    for j in range(tx, C, NT):
        acc += (inp[row, j] - mu) * (inp[row, j] - mu)
    sums[tx] = acc
    cuda.syncthreads()
    s = NT // 2
    while s > 0:
        if tx < s:
            sums[tx] += sums[tx + s]
        cuda.syncthreads()
        s //= 2
    rs = float32(1.0) / math.sqrt(sums[0] / float32(C) + eps)
    for j in range(tx, C, NT):
        out[row, j] = (inp[row, j] - mu) * rs * gamma[j] + beta[j]


@kernel
def k_attention(q, k, v, out, scale):
    """Causal attention of one head, tiles of 16 keys, 256 threads: two columns of the result for each."""
    keys = cuda.shared.array((EDGE, HS), float32)
    values = cuda.shared.array((EDGE, HS), float32)
    scores = cuda.shared.array((EDGE, EDGE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    i = cuda.blockIdx.x * EDGE + y
    m, norm = float32(-1e30), float32(0.0)
    left, right = float32(0.0), float32(0.0)
    for tile in range(cuda.blockIdx.x + 1):
        for d in range(x, HS, EDGE):
            keys[y, d] = k[tile * EDGE + y, d]
            values[y, d] = v[tile * EDGE + y, d]
        cuda.syncthreads()
        total = float32(0.0)
        for d in range(HS):
            total += q[i, d] * keys[x, d]
        scores[y, x] = total * scale if tile * EDGE + x <= i else float32(-1e30)
        cuda.syncthreads()
        top = m
        for j in range(EDGE):
            top = max(top, scores[y, j])
        shrink = math.exp(m - top)
        m, norm, left, right = top, norm * shrink, left * shrink, right * shrink
        for j in range(EDGE):
            share = math.exp(scores[y, j] - m)
            norm += share
            left += share * values[j, x]
            right += share * values[j, x + EDGE]
        cuda.syncthreads()
    out[i, x] = left / norm
    out[i, x + EDGE] = right / norm


def _draw(name: str, *shape: int) -> np.ndarray:
    return rng(1, "bench check", name).normal(int(np.prod(shape))).astype(np.float32).reshape(shape)


def _rows_case() -> tuple:
    C, eps = 768, np.float32(1e-5)
    inp, gamma, beta = _draw("inp", 4, C), _draw("gamma", C), _draw("beta", C)
    expected = reference.layernorm_forward(*(a.astype(np.float64) for a in (inp, gamma, beta)))[0]
    return k_rows, (4, NT), (inp, gamma, beta, np.zeros_like(inp), C, eps), 3, expected


def _tiles_case() -> tuple:
    n, tile = 64, matmul.TILE
    a, b = _draw("a", n, n), _draw("b", n, n)
    config = (n // tile, n // tile), (tile, tile)
    return matmul.k_matmul_tiled, config, (a, b, np.zeros_like(a), n, n, n), 2, a.astype(np.float64) @ b


def _attention_case() -> tuple:
    q, k, v = (_draw(name, 2 * EDGE, HS) for name in "qkv")
    expected = reference.attention_forward(*(a.astype(np.float64) for a in (q, k, v)), 1, 1)[0]
    return k_attention, (2, (EDGE, EDGE)), (q, k, v, np.zeros_like(q), np.float32(HS**-0.5)), 3, expected


CASES: dict[str, Callable[[], tuple]] = {
    "layer norm, 4 x 128 threads, C = 768": _rows_case,
    "tiled product, 64 x 64 x 64": _tiles_case,
    "attention, 2 x 256 threads": _attention_case,
}


def run(*, quick: bool = False, progress: Callable[[str], None] | None = None) -> dict:
    """Measure the launches of CASES in this process and return the figures, in seconds.

    quick: the time of the one run that proves the result. Raises BenchError when a launch is wrong on a side, or the
    check target finds a fault in it.
    """
    found = []
    for name, build in CASES.items():
        (progress or str)(name)
        found.append(_measure(name, *build(), rounds=0 if quick else ROUNDS))
    return {"bench": "check", "machine": machine.describe(1), "quick": quick, "orders": ORDERS, "launches": found}


def _measure(name: str, k, config: tuple, args: tuple, out: int, expected: np.ndarray, rounds: int) -> dict:
    sides = {
        "check": partial(kernels.check(k, orders=0)[config], *args),
        "orders": partial(kernels.check(k, orders=ORDERS)[config], *args),
        "simulator": partial(ptx.simulate, k, *config, args),
    }
    ms = {}
    for side, work in sides.items():
        args[out].fill(np.nan)
        start = time.perf_counter()
        report = work()
        ms[side] = 1e3 * (time.perf_counter() - start)
        if report is not None and not report.ok:
            raise BenchError(f"{name}: found {report.first()}, expected no fault")
        error = timing.relative_error([args[out]], [expected])
        if not error <= MOST:
            raise BenchError(f"{name}: {side} has a relative error of {error:.1e}, expected at most {MOST:.0e}")
    if rounds:
        ms = timing.interleave(sides, rounds, pause=0.0)
    return {
        "name": name,
        **{f"{side}_s": t / 1e3 for side, t in ms.items()},
        "vs_simulator": ms["simulator"] / ms["check"],
    }


HEAD = ("launch", "check s", f"with {ORDERS} more orders s", "simulator s", "over simulator")


def _rows(result: dict) -> list[tuple[str, ...]]:
    return [
        (
            x["name"],
            *(f"{x[side]:.3f}" for side in ("check_s", "orders_s", "simulator_s")),
            f"{x['vs_simulator']:.1f}",
        )
        for x in result["launches"]
    ]


SUMMARY = "the simulator runs the launch once and looks for nothing; what each finds is in the table of detectors"


def figures(result: dict) -> tables.Figures:
    """The figures as a table."""
    return tables.Figures(HEAD, _rows(result), tables.machine_line(result), SUMMARY)
