"""Cases of attention in steps: scores, mask, softmax, weighted sum. G heads of all sequences, T tokens, HS columns.

Blocks are smaller than the work and the last one is not full, so every guard is met from both sides.
"""

from __future__ import annotations

import numpy as np

from andrea_lab.lesson.cases.case import Draw, Setup, poison, recipe, wide
from kernels import reference
from kernels.registry import cdiv

BLOCK = 32
PLAIN = {"one": {"G": 1, "T": 1, "HS": 1}, "odd": {"G": 2, "T": 3, "HS": 5}}
STRONG = {"strong": {"G": 3, "T": 7, "HS": 4, "scale": 20.0}}
SQUARE = ({"one": {"G": 1, "T": 1}, "odd": {"G": 2, "T": 3}}, {"strong": {"G": 3, "T": 7, "scale": 20.0}})


@recipe("k_scores_fwd", PLAIN, STRONG)
def scores_forward(draw: Draw, G: int, T: int, HS: int, scale: float = 1.0) -> Setup:
    q, k = draw.normal(G, T, HS, scale=scale), draw.normal(G, T, HS)
    n = G * T * T
    arguments = {"q": q, "k": k, "out": poison(G, T, T), "T": T, "HS": HS, "scale": np.float32(HS**-0.5), "n": n}
    return Setup(cdiv(n, BLOCK), BLOCK, arguments, {"out": reference.scores_forward(*wide(q, k))})


@recipe("k_scores_bwd", PLAIN, STRONG)
def scores_backward(draw: Draw, G: int, T: int, HS: int, scale: float = 1.0) -> Setup:
    q, k, dout = draw.normal(G, T, HS, scale=scale), draw.normal(G, T, HS, scale=scale), draw.normal(G, T, T)
    dq, dk = reference.scores_backward(*wide(q, k, dout))
    noise = {"dq": draw.normal(G, T, HS), "dk": draw.normal(G, T, HS)}
    n = G * T * HS
    arguments = {"q": q, "k": k, "dout": dout, **noise, "T": T, "HS": HS, "scale": np.float32(HS**-0.5), "n": n}
    return Setup(cdiv(2 * n, BLOCK), BLOCK, arguments, {"dq": noise["dq"] + dq, "dk": noise["dk"] + dk})


@recipe("k_mask_fwd", *SQUARE)
def mask_forward(draw: Draw, G: int, T: int, scale: float = 1.0) -> Setup:
    inp, n = draw.normal(G, T, T, scale=scale), G * T * T
    arguments = {"inp": inp, "out": poison(G, T, T), "T": T, "n": n}
    return Setup(cdiv(n, BLOCK), BLOCK, arguments, {"out": reference.mask_forward(*wide(inp))})


@recipe("k_mask_bwd", *SQUARE)
def mask_backward(draw: Draw, G: int, T: int, scale: float = 1.0) -> Setup:
    dout, dinp, n = draw.normal(G, T, T, scale=scale), draw.normal(G, T, T), G * T * T
    expected = {"dinp": dinp + reference.mask_backward(*wide(dout))}
    return Setup(cdiv(n, BLOCK), BLOCK, {"dout": dout, "dinp": dinp, "T": T, "n": n}, expected)


@recipe(
    "k_softmax_fwd",
    {"one": {"R": 1, "C": 1}, "odd": {"R": 3, "C": 5}, "masked": {"R": 6, "C": 6, "kind": "masked"}},
    {
        "strong": {"R": 35, "C": 7, "scale": 200.0},
        "negative": {"R": 33, "C": 9, "scale": 3.0, "kind": "negative"},
    },
)
def softmax_forward(draw: Draw, R: int, C: int, scale: float = 1.0, kind: str = "") -> Setup:
    """ "masked": minus infinity above the diagonal, and one row of nothing else, whose probabilities are 0."""
    inp = draw.normal(R, C, scale=scale, mean=-300.0 if kind == "negative" else 0.0)
    if kind == "masked":
        inp[~np.tri(R, C, dtype=bool)] = -np.inf
    expected = reference.softmax_forward(*wide(inp))
    if kind == "masked":
        inp[2], expected[2] = -np.inf, 0.0
    arguments = {"inp": inp, "out": poison(R, C), "cols": C, "rows": R}
    return Setup(cdiv(R, BLOCK), BLOCK, arguments, {"out": expected})


@recipe("k_softmax_bwd", {"one": {"R": 1, "C": 1}, "odd": {"R": 3, "C": 5}}, {"strong": {"R": 35, "C": 7}})
def softmax_backward(draw: Draw, R: int, C: int) -> Setup:
    p = reference.softmax_forward(*wide(draw.normal(R, C, scale=2.0))).astype(np.float32)
    dout, dinp = draw.normal(R, C, mean=1.0), draw.normal(R, C)
    expected = {"dinp": dinp + reference.softmax_backward(*wide(p, dout))}
    return Setup(cdiv(R, BLOCK), BLOCK, {"p": p, "dout": dout, "dinp": dinp, "cols": C, "rows": R}, expected)


@recipe("k_weighted_sum_fwd", PLAIN, STRONG)
def weighted_sum_forward(draw: Draw, G: int, T: int, HS: int, scale: float = 1.0) -> Setup:
    p, v, n = draw.normal(G, T, T, scale=scale), draw.normal(G, T, HS), G * T * HS
    arguments = {"p": p, "v": v, "out": poison(G, T, HS), "T": T, "HS": HS, "n": n}
    return Setup(cdiv(n, BLOCK), BLOCK, arguments, {"out": reference.weighted_sum_forward(*wide(p, v))})


@recipe("k_weighted_sum_bwd", PLAIN, STRONG)
def weighted_sum_backward(draw: Draw, G: int, T: int, HS: int, scale: float = 1.0) -> Setup:
    p, v, dout = draw.normal(G, T, T, scale=scale), draw.normal(G, T, HS, scale=scale), draw.normal(G, T, HS)
    dp, dv = reference.weighted_sum_backward(*wide(p, v, dout))
    noise = {"dp": draw.normal(G, T, T), "dv": draw.normal(G, T, HS)}
    n, m = G * T * T, G * T * HS
    arguments = {"p": p, "v": v, "dout": dout, **noise, "T": T, "HS": HS, "n": n, "m": m}
    return Setup(cdiv(n + m, BLOCK), BLOCK, arguments, {"dp": noise["dp"] + dp, "dv": noise["dv"] + dv})
