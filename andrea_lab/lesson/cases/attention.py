"""Cases of attention in one pair, k_attn_fwd and k_attn_bwd, and the data that its tiled form takes too.

"negative": every score is far below zero, so a maximum that starts at 0 leaves only zeros to divide by. "large":
scores of hundreds, whose exponential overflows unless the maximum is taken out; queries and keys are whole numbers and
the head size is a square, so that float32 makes the very scores that float64 makes. The first key is 32 throughout, too
much for the exponential of a query that was never set to 0. "spike": as "large", and the eighth key, the last of a tile
of 8, is larger still.
"""

from __future__ import annotations

import numpy as np

from andrea_lab.lesson.cases.case import TOLERANCE, Draw, Setup, narrow, poison, recipe, wide
from kernels import reference
from kernels.registry import cdiv

BLOCK = 32
# A large score leaves one probability near 1, whose slope is a difference of two nearly equal numbers times a key.
LOOSE = 5e-5
PLAIN = {
    "one": {"B": 1, "T": 1, "NH": 1, "HS": 1},
    "odd": {"B": 2, "T": 3, "NH": 3, "HS": 2},
    "dead": {"B": 1, "T": 4, "NH": 1, "HS": 3, "kind": "dead"},
}
STRONG = {
    "large": {"B": 2, "T": 9, "NH": 2, "HS": 4, "kind": "large"},
    "negative": {"B": 1, "T": 7, "NH": 1, "HS": 4, "kind": "negative"},
}


def queries_and_keys(draw: Draw, B: int, T: int, C: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """q and k (B * T, C): as they come, "dead" (some zero), "large", "spike", "negative"."""
    if kind == "negative":
        return np.abs(draw.whole(B * T, C, scale=5.0)) + np.float32(8.0), -np.float32(8.0) - np.abs(
            draw.whole(B * T, C)
        )
    large = kind in ("large", "spike")
    q, k = (draw.whole(B * T, C, scale=12.0) if large else draw.normal(B * T, C) for _ in range(2))
    if large:
        k[0] = 32.0
    if kind == "spike":
        k[7] = 40.0
    if kind == "dead":
        q[::2] = 0.0
        k[::3] = 0.0
    return q, k


def forward_data(draw: Draw, B: int, T: int, NH: int, HS: int, kind: str) -> tuple[dict, dict]:
    """(arguments q, k, v, out, lse; what out and lse must become)."""
    q, k = queries_and_keys(draw, B, T, NH * HS, kind)
    v = draw.normal(B * T, NH * HS)
    out, lse = reference.attention_forward(*wide(q, k, v), B, NH)
    arguments = {"q": q, "k": k, "v": v, "out": poison(B * T, NH * HS), "lse": poison(B, NH, T)}
    return arguments, {"out": out, "lse": lse}


def saved(q: np.ndarray, k: np.ndarray, v: np.ndarray, B: int, NH: int) -> tuple[np.ndarray, np.ndarray]:
    """out and lse as float32; out is made with the rounded lse, as backward will make its probabilities."""
    lse = narrow(reference.attention_forward(*wide(q, k, v), B, NH)[1])
    q, k, v = (reference.split_heads(x, B, NH) for x in wide(q, k, v))
    p = np.exp(reference.mask_forward(reference.scores_forward(q, k)) - lse[..., None])
    return narrow(reference.merge_heads(reference.weighted_sum_forward(p, v))), lse


def backward_data(draw: Draw, B: int, T: int, NH: int, HS: int, kind: str) -> tuple[dict, dict]:
    """(arguments q, k, v, out, lse, dout, dq, dk, dv; what the last three must become)."""
    q, k = queries_and_keys(draw, B, T, NH * HS, kind)
    v, dout = draw.normal(B * T, NH * HS), draw.normal(B * T, NH * HS)
    out, lse = saved(q, k, v, B, NH)
    found = reference.attention_backward(*wide(q, k, v, lse, dout))
    noise = {n: draw.normal(B * T, NH * HS) for n in ("dq", "dk", "dv")}
    expected = {n: noise[n] + g for n, g in zip(noise, found, strict=True)}
    return {"q": q, "k": k, "v": v, "out": out, "lse": lse, "dout": dout, **noise}, expected


@recipe("k_attn_fwd", PLAIN, STRONG)
def forward(draw: Draw, B: int, T: int, NH: int, HS: int, kind: str = "") -> Setup:
    arguments, expected = forward_data(draw, B, T, NH, HS, kind)
    rows = B * NH * T
    scalars = {"NH": NH, "T": T, "rows": rows, "HS": HS, "scale": np.float32(HS**-0.5)}
    return Setup(cdiv(rows, BLOCK), BLOCK, arguments | scalars, expected)


@recipe("k_attn_bwd", PLAIN, STRONG)
def backward(draw: Draw, B: int, T: int, NH: int, HS: int, kind: str = "") -> Setup:
    arguments, expected = backward_data(draw, B, T, NH, HS, kind)
    rows = B * NH * T
    scalars = {"NH": NH, "T": T, "rows": rows, "HS": HS, "scale": np.float32(HS**-0.5)}
    return Setup(cdiv(2 * rows, BLOCK), BLOCK, arguments | scalars, expected, LOOSE if kind else TOLERANCE)
