"""Cases of the MLP, GELU and the residual connection.

GELU is met where it bends and where it is flat: a deviation of 1 and one of 60. k_mlp_bwd walks its rows 32 at a time,
so there are cases of 33 rows and of 32.
"""

from __future__ import annotations

from andrea_lab.lesson.cases.case import Draw, Setup, narrow, poison, recipe, wide
from kernels import reference
from kernels.mlp import CHUNK
from kernels.registry import cdiv

BLOCK = 32
FLAT = ({"one": {"N": 1, "F": 1}, "odd": {"N": 3, "F": 5}}, {"strong": {"N": 3, "F": 70}, "large": {"N": 2, "F": 40}})


def weights(draw: Draw, C: int, F: int):
    """w1 (C, F) and w2 (F, C), so that what goes through them keeps its size."""
    return draw.normal(C, F, scale=C**-0.5), draw.normal(F, C, scale=F**-0.5)


@recipe(
    "k_mlp_fwd",
    {"one": {"N": 1, "C": 1, "F": 4}, "odd": {"N": 2, "C": 3, "F": 7}},
    {"strong": {"N": 2, "C": 35, "F": 70}, "large": {"N": 3, "C": 5, "F": 33, "scale": 60.0}},
)
def mlp_forward(draw: Draw, N: int, C: int, F: int, scale: float = 1.0) -> Setup:
    inp, (w1, w2) = draw.normal(N, C, scale=scale), weights(draw, C, F)
    pre, act, out = reference.mlp_forward(*wide(inp, w1, w2))
    results = {"pre": poison(N, F), "act": poison(N, F), "out": poison(N, C)}
    arguments = {"inp": inp, "w1": w1, "w2": w2, **results, "C": C, "F": F}
    return Setup(N, BLOCK, arguments, {"pre": pre, "act": act, "out": out})


@recipe(
    "k_mlp_bwd",
    {"one": {"N": 1, "C": 1, "F": 4}, "odd": {"N": 2, "C": 3, "F": 7}},
    {
        "strong": {"N": 2, "C": 35, "F": 37},
        "large": {"N": 33, "C": 3, "F": 5, "scale": 60.0},
        "whole chunk": {"N": 32, "C": 3, "F": 5},
    },
)
def mlp_backward(draw: Draw, N: int, C: int, F: int, scale: float = 1.0) -> Setup:
    inp, (w1, w2), dout = draw.normal(N, C, scale=scale), weights(draw, C, F), draw.normal(N, C)
    pre, act, _ = (narrow(a) for a in reference.mlp_forward(*wide(inp, w1, w2)))
    dpre, *found = reference.mlp_backward(*wide(inp, w1, w2, pre, act, dout))
    noise = {"dinp": draw.normal(N, C), "dw1": draw.normal(C, F), "dw2": draw.normal(F, C)}
    arguments = {"inp": inp, "w1": w1, "w2": w2, "pre": pre, "act": act, "dout": dout, "dpre": poison(N, F)}
    expected = {"dpre": dpre} | {n: noise[n] + g for n, g in zip(noise, found, strict=True)}
    # dpre and dinp are written once, dw1 and dw2 once for each chunk of rows.
    traffic = {"global writes": N * F + N * C + 2 * C * F * cdiv(N, CHUNK)}
    return Setup(N + F, BLOCK, arguments | noise | {"N": N, "C": C, "F": F}, expected, traffic=traffic)


def before_gelu(draw: Draw, N: int, F: int):
    """(N, F) values about the bend, or far from it where there are just two rows."""
    return draw.normal(N, F, scale=60.0 if N == 2 else 1.5)


@recipe("k_gelu_fwd", *FLAT)
def gelu_forward(draw: Draw, N: int, F: int) -> Setup:
    pre = before_gelu(draw, N, F)
    return Setup(N, BLOCK, {"pre": pre, "act": poison(N, F), "F": F}, {"act": reference.gelu_forward(*wide(pre))})


@recipe("k_gelu_bwd", *FLAT)
def gelu_backward(draw: Draw, N: int, F: int) -> Setup:
    pre, dact, dpre = before_gelu(draw, N, F), draw.normal(N, F), draw.normal(N, F)
    expected = {"dpre": dpre + reference.gelu_backward(*wide(pre, dact))}
    return Setup(N, BLOCK, {"pre": pre, "dact": dact, "dpre": dpre, "F": F}, expected)


@recipe("k_gelu_bwd_inplace", *FLAT)
def gelu_backward_inplace(draw: Draw, N: int, F: int) -> Setup:
    pre, dpre = before_gelu(draw, N, F), draw.normal(N, F)
    return Setup(N, BLOCK, {"pre": pre, "dpre": dpre, "F": F}, {"dpre": reference.gelu_backward(*wide(pre, dpre))})


# ---------------------------------------------------------------- residual

VECTOR = ({"one": {"N": 1}, "odd": {"N": 7}}, {"strong": {"N": 70}})


@recipe("k_residual_add", *VECTOR)
def residual_forward(draw: Draw, N: int) -> Setup:
    a, b = draw.normal(N), draw.normal(N)
    arguments = {"a": a, "b": b, "out": poison(N), "n": N}
    return Setup(cdiv(N, BLOCK), BLOCK, arguments, {"out": reference.residual_forward(*wide(a, b))})


@recipe("k_residual_add_bwd", *VECTOR)
def residual_backward(draw: Draw, N: int) -> Setup:
    dout, da, db = draw.normal(N), draw.normal(N), draw.normal(N)
    more_a, more_b = reference.residual_backward(*wide(dout))
    arguments = {"dout": dout, "da": da, "db": db, "n": N}
    return Setup(cdiv(N, BLOCK), BLOCK, arguments, {"da": da + more_a, "db": db + more_b})
