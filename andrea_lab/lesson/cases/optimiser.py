"""Cases of the sums, the gradient norm, clipping and AdamW.

Sums have more terms than a block has threads. hp holds NaN in every slot that a kernel has no business with. A region
of AdamW begins and ends inside its vectors, and some weights have no gradient at all: without eps they would be 0/0.
"""

from __future__ import annotations

import numpy as np

from andrea_lab.lesson.cases.case import Draw, Setup, poison, recipe, wide
from kernels import adamw, clip, reduce, reference
from kernels.registry import cdiv

BLOCK = 32
VECTOR = ({"one": {"N": 1}, "odd": {"N": 7}}, {"strong": {"N": 70}})
LARGEST = float(np.finfo(np.float32).max)


def hyper(**slots: float) -> np.ndarray:
    """hp (16,) with these slots filled, by their names in kernels.adamw, and NaN elsewhere."""
    hp = np.full(adamw.SLOTS, np.nan, np.float32)
    for name, value in slots.items():
        hp[getattr(adamw, name)] = value
    return hp


# ---------------------------------------------------------------- sums


@recipe("k_sum", {"one": {"N": 1}, "odd": {"N": 77}}, {"strong": {"N": 700}})
def total(draw: Draw, N: int) -> Setup:
    inp = draw.normal(N, mean=1.0)
    return Setup(1, reduce.NT, {"inp": inp, "out": poison(2), "n": N}, {"out": first_of(inp.astype(np.float64).sum())})


def first_of(value: float) -> np.ndarray:
    """What an `out` of two elements must hold: the value, and what it held before."""
    return np.array([value, np.nan])


@recipe(
    "k_mean_loss",
    {"one": {"B": 1, "T": 1}, "odd": {"B": 2, "T": 7}, "ignored": {"B": 1, "T": 5, "ignore": True}},
    {"strong": {"B": 100, "T": 7}},
)
def mean_loss(draw: Draw, B: int, T: int, ignore: bool = False) -> Setup:
    targets, losses = draw.targets(B, T, 9, ignore), draw.normal(B * T, mean=2.0)
    losses[targets.ravel() < 0] = 0.0
    mean = losses.astype(np.float64).sum() / max(1, reference.count(targets))
    arguments = {"losses": losses, "targets": targets, "out": poison(2), "T": T, "n": B * T}
    return Setup(1, reduce.NT, arguments, {"out": first_of(mean)})


# ---------------------------------------------------------------- norm and clipping


@recipe(
    "k_grad_norm_partial",
    {"one": {"N": 1, "block": 256}, "odd": {"N": 300, "block": 96}},
    {"strong": {"N": clip.CHUNK + 300, "block": 128}},
)
def norm_partial(draw: Draw, N: int, block: int) -> Setup:
    g, blocks = draw.normal(N), clip.partials(N)
    padded = np.zeros(blocks * clip.CHUNK)
    padded[:N] = g
    expected = (padded.reshape(blocks, -1) ** 2).sum(axis=1)
    return Setup(blocks, block, {"g": g, "partial": poison(blocks), "n": N}, {"partial": expected})


@recipe(
    "k_grad_norm_final",
    {
        "one": {"N": 1, "max_norm": 1e9},
        "odd": {"N": 7, "max_norm": 0.0},
        "huge": {"N": 2, "max_norm": 1.0, "big": True},
    },
    {"strong": {"N": 600, "max_norm": 1.5}, "clipped": {"N": 40, "max_norm": 0.25}},
)
def norm_final(draw: Draw, N: int, max_norm: float, big: bool = False) -> Setup:
    """ "huge": the sum of squares overflows, so the norm is infinite and the factor NaN."""
    partial, hp = np.abs(draw.normal(N, mean=1.0)), hyper(MAX_NORM=max_norm, INV_COUNT=0.125)
    if big:
        partial[:] = 3e38
    after = hp.astype(np.float64)
    norm = np.sqrt(partial.astype(np.float64).sum()) * 0.125
    after[adamw.NORM], after[adamw.FACTOR] = norm, 0.125 * reference.clip_factor(norm, max_norm)
    if big:
        after[adamw.NORM], after[adamw.FACTOR] = np.inf, np.nan
    return Setup(1, 96, {"partial": partial, "hp": hp, "blocks": N}, {"hp": after})


@recipe("k_scale_grads", *VECTOR)
def scale_grads(draw: Draw, N: int) -> Setup:
    g = draw.normal(N)
    arguments = {"g": g, "hp": hyper(INV_COUNT=0.125), "n": N}
    return Setup(cdiv(N, BLOCK), BLOCK, arguments, {"g": g.astype(np.float64) * 0.125})


@recipe(
    "k_grad_scale",
    {
        "one": {"N": 1, "norm": 4.0},
        "small": {"N": 5, "norm": 0.5},
        "never": {"N": 5, "norm": 4.0, "max_norm": 0.0},
        "equal": {"N": 5, "norm": 1.0},
    },
    {
        "strong": {"N": 70, "norm": 7.0},
        "largest": {"N": 40, "norm": LARGEST, "max_norm": 1e38},
        "infinite": {"N": 3, "norm": np.inf},
    },
)
def grad_scale(draw: Draw, N: int, norm: float, max_norm: float = 1.0) -> Setup:
    g, factor = draw.normal(N), reference.clip_factor(norm, max_norm) if np.isfinite(norm) else np.nan
    arguments = {"g": g, "hp": hyper(NORM=norm, MAX_NORM=max_norm), "n": N}
    return Setup(cdiv(N, BLOCK), BLOCK, arguments, {"g": g.astype(np.float64) * factor})


@recipe("k_zero_grads", *VECTOR)
def zero_grads(draw: Draw, N: int) -> Setup:
    g = draw.normal(N)
    g[N // 2] = np.nan
    return Setup(cdiv(N, BLOCK), BLOCK, {"g": g, "n": N}, {"g": np.zeros(N)})


# ---------------------------------------------------------------- AdamW


@recipe(
    "k_adamw",
    {"one": {"N": 3, "t": 1, "decays": 1.0}, "no decay": {"N": 9, "t": 2, "decays": 0.0}},
    {"strong": {"N": 75, "t": 3, "decays": 1.0, "eps": 0.25}},
)
def step(draw: Draw, N: int, t: int, decays: float, eps: float = 1e-8) -> Setup:
    """Elements 1 to N - 1 of vectors of N; every third weight has no gradient and never had one."""
    w, g, m = (draw.normal(N) for _ in range(3))
    v = draw.normal(N) ** 2
    for x in (g, m, v):
        x[::3] = 0.0
    corrections = {"CORR1": adamw.correction(0.9, t), "CORR2": adamw.correction(0.999, t)}
    hp = hyper(LR=0.5, BETA1=0.9, BETA2=0.999, EPS=eps, DECAY=0.25, FACTOR=0.125, **corrections)
    beta1, beta2, small = wide(hp[[adamw.BETA1, adamw.BETA2, adamw.EPS]])[0]
    rates = {"lr": 0.5, "beta1": beta1, "beta2": beta2, "eps": small, "decay": 0.25 * decays}
    after = reference.adamw(*wide(w, g * np.float32(0.125), m, v), t, **rates)
    expected = {n: x.astype(np.float64) for n, x in (("w", w), ("m", m), ("v", v))}
    for x, y in zip(expected.values(), after, strict=True):
        x[1 : N - 1] = y[1 : N - 1]
    scalars = {"start": 1, "stop": N - 1, "decays": np.float32(decays)}
    return Setup(cdiv(N - 2, BLOCK), BLOCK, {"w": w, "g": g, "m": m, "v": v, "hp": hp, **scalars}, expected)
