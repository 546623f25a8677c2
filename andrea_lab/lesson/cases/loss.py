"""Cases of the loss as one pair, and of the output head alone.

Logits are made to measure through the head: row r of inp is large in column r only, and so is row SPIKES[r] of head.
k_loss_bwd holds 128 gradients at a time, so there are cases with one token or row more than that, and with as many.
"""

from __future__ import annotations

import numpy as np

from andrea_lab.lesson.cases.case import Draw, Setup, narrow, poison, recipe, wide
from andrea_lab.lesson.cases.xent import BLOCK, SPIKES
from kernels import reference
from kernels.loss import CHUNK, NT
from kernels.registry import cdiv

PLAIN = {
    "one": {"B": 1, "T": 1, "C": 1, "V": 1},
    "odd": {"B": 2, "T": 3, "C": 5, "V": 7},
    "ignored": {"B": 1, "T": 3, "C": 2, "V": 4, "ignore": True},
}


def inp_and_head(draw: Draw, N: int, C: int, V: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """inp (N, C) and head (V, C) whose product has spikes of 300, is near -200 throughout, or neither."""
    inp, head = draw.normal(N, C), draw.normal(V, C)
    if kind == "spikes":
        inp, head = inp * np.float32(0.1), head * np.float32(0.1)
        inp[np.arange(N), np.arange(N)] = 100.0
        head[SPIKES[:N], np.arange(N)] = 3.0
    if kind == "negative":
        inp[:, 0], head[:, 0] = -200.0, 1.0
    return inp, head


@recipe(
    "k_loss_fwd",
    PLAIN,
    {
        "spikes": {"B": 2, "T": 4, "C": 8, "V": 150, "kind": "spikes"},
        "negative": {"B": 1, "T": 3, "C": 3, "V": 131, "kind": "negative"},
    },
)
def forward(draw: Draw, B: int, T: int, C: int, V: int, kind: str = "", ignore: bool = False) -> Setup:
    (inp, head), targets = inp_and_head(draw, B * T, C, V, kind), draw.targets(B, T, V, ignore)
    logits, lse, losses = reference.loss_forward(*wide(inp, head), targets)
    results = {"logits": poison(B * T, V), "lse": poison(B * T), "losses": poison(B * T)}
    arguments = {"inp": inp, "head": head, "targets": targets, **results, "T": T, "C": C, "V": V}
    return Setup(B * T, NT, arguments, {"logits": logits, "lse": lse, "losses": losses})


@recipe(
    "k_loss_bwd",
    PLAIN,
    {
        "columns": {"B": 2, "T": 2, "C": 70, "V": 3},
        "tokens": {"B": 1, "T": 2, "C": 3, "V": 129},
        "rows": {"B": 43, "T": 3, "C": 2, "V": 2},
        "whole tokens": {"B": 1, "T": 2, "C": 2, "V": 128},
        "whole rows": {"B": 32, "T": 4, "C": 2, "V": 2},
    },
)
def backward(draw: Draw, B: int, T: int, C: int, V: int, ignore: bool = False) -> Setup:
    N = B * T
    (inp, head), targets = inp_and_head(draw, N, C, V, ""), draw.targets(B, T, V, ignore)
    logits, lse, _ = (narrow(a) for a in reference.loss_forward(*wide(inp, head), targets))
    dlosses = draw.normal(N, mean=1.0)
    _, *found = reference.loss_backward(*wide(inp, head), targets, *wide(logits, lse, dlosses))
    noise = {"dinp": draw.normal(N, C), "dhead": draw.normal(V, C)}
    x = {"inp": inp, "head": head, "targets": targets, "logits": logits, "lse": lse, "dlosses": dlosses}
    expected = {n: noise[n] + g for n, g in zip(noise, found, strict=True)}
    # An element is added to once for each CHUNK of the sum, so a chunk of nothing shows.
    traffic = {"global writes": N * C * cdiv(V, CHUNK) + V * C * cdiv(N, CHUNK)}
    return Setup(N + V, BLOCK, x | noise | {"N": N, "T": T, "C": C, "V": V}, expected, traffic=traffic)


SIZES = ({"one": {"N": 1, "C": 1, "V": 1}, "odd": {"N": 3, "C": 5, "V": 7}},)


@recipe("k_head_fwd", *SIZES, {"strong": {"N": 3, "C": 4, "V": 70, "scale": 60.0}})
def head_forward(draw: Draw, N: int, C: int, V: int, scale: float = 1.0) -> Setup:
    inp, head = draw.normal(N, C, scale=scale), draw.normal(V, C)
    arguments = {"inp": inp, "head": head, "logits": poison(N, V), "C": C, "V": V}
    return Setup(N, BLOCK, arguments, {"logits": reference.head_forward(*wide(inp, head))})


@recipe("k_head_bwd", *SIZES, {"strong": {"N": 3, "C": 70, "V": 4, "scale": 60.0}})
def head_backward(draw: Draw, N: int, C: int, V: int, scale: float = 1.0) -> Setup:
    inp, head, dlogits = draw.normal(N, C, scale=scale), draw.normal(V, C), draw.normal(N, V)
    dinp, dhead = reference.head_backward(*wide(inp, head, dlogits))
    noise = {"dinp": draw.normal(N, C), "dhead": draw.normal(V, C)}
    arguments = {"inp": inp, "head": head, "dlogits": dlogits, **noise, "N": N, "C": C, "V": V}
    return Setup(N + V, BLOCK, arguments, {"dinp": noise["dinp"] + dinp, "dhead": noise["dhead"] + dhead})
