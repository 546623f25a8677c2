"""Cases of the layer norm kernels.

Strong rows are longer than two rounds of 32 threads, stand far from zero, and one is constant: its variance is 0, so
that only eps keeps rstd finite.
"""

from __future__ import annotations

import numpy as np

from andrea_lab.lesson.cases.case import Draw, Setup, narrow, poison, recipe, wide
from kernels import reference
from kernels.layernorm import COLS, EPS, NT, SLICES
from kernels.registry import cdiv

PLAIN = {"one": {"N": 1, "C": 1}, "odd": {"N": 3, "C": 5}, "wide": {"N": 2, "C": 33}}
STRONG = {"strong": {"N": 5, "C": 103, "scale": 60.0, "mean": 200.0}, "columns": {"N": 9, "C": 70}}


def rows(draw: Draw, N: int, C: int, scale: float, mean: float) -> np.ndarray:
    """N rows, one of them (if there are more than two) constant."""
    inp = draw.normal(N, C, scale=scale, mean=mean)
    if N > 2:
        inp[1] = 3.0
    return inp


@recipe("k_layernorm_fwd", PLAIN, STRONG)
def forward(draw: Draw, N: int, C: int, scale: float = 1.0, mean: float = 0.5) -> Setup:
    inp, gamma, beta = rows(draw, N, C, scale, mean), draw.normal(C, mean=1.0), draw.normal(C)
    eps = np.float32(EPS)
    out, mu, rstd = reference.layernorm_forward(*wide(inp, gamma, beta), float(eps))
    results = {"out": poison(N, C), "mean": poison(N), "rstd": poison(N)}
    arguments = {"inp": inp, "gamma": gamma, "beta": beta, **results, "C": C, "eps": eps}
    return Setup(N, NT, arguments, {"out": out, "mean": mu, "rstd": rstd})


def saved(draw: Draw, N: int, C: int, scale: float, mean: float) -> dict[str, np.ndarray]:
    """What forward read and saved, and the incoming gradient, in the order of the backward kernels' parameters."""
    inp, gamma, dout = rows(draw, N, C, scale, mean), draw.normal(C, mean=1.0), draw.normal(N, C)
    _, mu, rstd = reference.layernorm_forward(*wide(inp, gamma, np.zeros(C)))
    # A constant row has an rstd of 316, which would dwarf every other gradient.
    rstd = np.minimum(rstd, 2.0)
    return {"inp": inp, "gamma": gamma, "mean": narrow(mu), "rstd": narrow(rstd), "dout": dout}


def gradients(draw: Draw, x: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(noise that the gradients are added to, noise plus gradients)."""
    found = reference.layernorm_backward(*wide(*x.values()))
    noise = {n: draw.normal(*g.shape) for n, g in zip(("dinp", "dgamma", "dbeta"), found, strict=True)}
    return noise, {n: noise[n] + g for n, g in zip(noise, found, strict=True)}


@recipe("k_layernorm_bwd", PLAIN, STRONG)
def backward(draw: Draw, N: int, C: int, scale: float = 1.0, mean: float = 0.5) -> Setup:
    x = saved(draw, N, C, scale, mean)
    noise, expected = gradients(draw, x)
    return Setup(N + cdiv(C, NT), NT, {**x, **noise, "N": N, "C": C}, expected)


@recipe("k_layernorm_bwd_atomic", PLAIN, STRONG)
def atomic(draw: Draw, N: int, C: int, scale: float = 1.0, mean: float = 0.5) -> Setup:
    x = saved(draw, N, C, scale, mean)
    noise, expected = gradients(draw, x)
    return Setup(N, NT, {**x, **noise, "C": C}, expected)


@recipe("k_layernorm_dinp", PLAIN, STRONG)
def dinp(draw: Draw, N: int, C: int, scale: float = 1.0, mean: float = 0.5) -> Setup:
    x = saved(draw, N, C, scale, mean)
    noise, expected = gradients(draw, x)
    return Setup(N, NT, {**x, "dinp": noise["dinp"], "C": C}, {"dinp": expected["dinp"]})


def sums_of(draw: Draw, N: int, C: int, scale: float, mean: float) -> tuple[dict, dict]:
    """Arguments and expected results of the kernels that add up columns."""
    x = saved(draw, N, C, scale, mean)
    noise, expected = gradients(draw, x)
    x.pop("gamma")
    names = ("dgamma", "dbeta")
    return {**x, **{n: noise[n] for n in names}, "N": N, "C": C}, {n: expected[n] for n in names}


@recipe("k_layernorm_columns", PLAIN, STRONG)
def columns(draw: Draw, N: int, C: int, scale: float = 1.0, mean: float = 0.5) -> Setup:
    return Setup(cdiv(C, 64), 64, *sums_of(draw, N, C, scale, mean))


@recipe("k_layernorm_dparam", PLAIN, {"strong": {"N": 19, "C": 70, "scale": 60.0, "mean": 200.0}})
def dparam(draw: Draw, N: int, C: int, scale: float = 1.0, mean: float = 0.5) -> Setup:
    return Setup(cdiv(C, COLS), (COLS, SLICES), *sums_of(draw, N, C, scale, mean))
