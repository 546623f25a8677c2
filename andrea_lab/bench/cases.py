"""The cases of `bench kernels`: one piece of work, done by our production path, in NumPy and by a hand-written loop.

A case holds the float64 result of `kernels.reference` and, for each side, a function that takes fresh outputs and
returns the work as a callable. Ours is the list of launches that the engine runs, bound once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from andrea_lab.bench import hand, plain
from andrea_lab.rng import rng
from kernels import adamw as our_adamw
from kernels import clip, loss, matmul, reference
from kernels.pairs import FINE, PAIRS
from kernels.target import run

F = np.float32
EPS = F(1e-5)
STEP = {"lr": 3e-4, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decay": 0.1}
FACTOR = 0.75  # of the gradients: one over the tokens, times the clip


@dataclass(frozen=True)
class Shape:
    """Sizes of the arrays; N = B * T rows, F = 4 C, `params` numbers in the optimiser's vectors."""

    B: int = 4
    T: int = 256
    C: int = 384
    NH: int = 12
    V: int = 2305
    context: int = 1024
    params: int = 12_790_272

    @property
    def N(self) -> int:
        return self.B * self.T

    @property
    def F(self) -> int:
        return 4 * self.C


FULL = Shape()
SMALL = Shape(B=2, T=32, C=64, NH=2, V=101, context=64, params=40_000)


@dataclass
class Case:
    """expected: float64 results. outs: makes the outputs, as the work finds them. The sides: outputs -> work."""

    expected: list[np.ndarray]
    outs: Callable[[], list[np.ndarray]]
    ours: Callable
    numpy: Callable
    hand: Callable


CASES: dict[str, Callable[[Shape], Case]] = {}


def case(build: Callable[[Shape], Case]) -> Callable[[Shape], Case]:
    CASES[build.__name__] = build
    return build


def draw(name: str, *shape: int) -> np.ndarray:
    """Normal float32 numbers; beyond a million they repeat."""
    size = int(np.prod(shape))
    return np.resize(rng(1, "bench", name).normal(min(size, 1 << 20)).astype(F), shape)


def ids(name: str, size: int, *shape: int) -> np.ndarray:
    return rng(1, "bench", name).integers(int(np.prod(shape)), size).astype(np.int32).reshape(shape)


def wide(*arrays: np.ndarray) -> list[np.ndarray]:
    return [a.astype(np.float64) for a in arrays]


def zeros(*shapes: tuple[int, ...]) -> Callable[[], list[np.ndarray]]:
    return lambda: [np.zeros(shape, F) for shape in shapes]


def launches(made: list) -> Callable[[], None]:
    return partial(run, made)


@case
def embed_fwd(s: Shape) -> Case:
    args = (ids("tokens", s.V, s.B, s.T), draw("wte", s.V, s.C), draw("wpe", s.context, s.C))
    return Case(
        [reference.embed_forward(args[0], *wide(*args[1:]))],
        zeros((s.N, s.C)),
        ours=lambda o: launches(PAIRS["embed"].forward(*args, *o)),
        numpy=lambda o: plain.embed_fwd(*args, *o),
        hand=lambda o: partial(hand.embed_fwd, *args, *o),
    )


@case
def embed_bwd(s: Shape) -> Case:
    args = (ids("tokens", s.V, s.B, s.T), draw("dout", s.N, s.C))
    return Case(
        list(reference.embed_backward(args[0], *wide(args[1]), s.V, s.context)),
        zeros((s.V, s.C), (s.context, s.C)),
        ours=lambda o: launches(PAIRS["embed"].backward(*args, *o)),
        numpy=lambda o: plain.embed_bwd(*args, *o),
        hand=lambda o: partial(hand.embed_bwd, *args, *o, 8),
    )


@case
def layernorm_fwd(s: Shape) -> Case:
    args = (draw("inp", s.N, s.C), draw("gamma", s.C), draw("beta", s.C))
    return Case(
        list(reference.layernorm_forward(*wide(*args))),
        zeros((s.N, s.C), (s.N,), (s.N,)),
        ours=lambda o: launches(PAIRS["layernorm"].forward(*args, *o)),
        numpy=lambda o: plain.layernorm_fwd(*args, *o, EPS),
        hand=lambda o: partial(hand.layernorm_fwd, *args, *o, EPS),
    )


@case
def layernorm_bwd(s: Shape) -> Case:
    inp, gamma, beta, dout = draw("inp", s.N, s.C), draw("gamma", s.C), draw("beta", s.C), draw("dout", s.N, s.C)
    _, mean, rstd = (x.astype(F) for x in reference.layernorm_forward(*wide(inp, gamma, beta)))
    args = (inp, gamma, mean, rstd, dout)
    part = np.zeros((16, 2, s.C), F)
    return Case(
        list(reference.layernorm_backward(*wide(*args))),
        zeros((s.N, s.C), (s.C,), (s.C,)),
        ours=lambda o: launches(PAIRS["layernorm"].backward(*args, *o)),
        numpy=lambda o: plain.layernorm_bwd(*args, *o),
        hand=lambda o: partial(hand.layernorm_bwd, *args, *o, part),
    )


def _attention(s: Shape):
    q, k, v = (draw(name, s.N, s.C) for name in "qkv")
    out, lse = reference.attention_forward(*wide(q, k, v), s.B, s.NH)
    return (q, k, v), out, lse


@case
def attn_fwd(s: Shape) -> Case:
    args, out, lse = _attention(s)
    return Case(
        [out, lse],
        zeros((s.N, s.C), (s.B, s.NH, s.T)),
        ours=lambda o: launches(PAIRS["attn"].forward(*args, *o)),
        numpy=lambda o: plain.attn_fwd(*args, *o),
        hand=lambda o: partial(hand.attn_fwd, *args, *o),
    )


@case
def attn_bwd(s: Shape) -> Case:
    qkv, out, lse = _attention(s)
    dout = draw("dout", s.N, s.C)
    args = (*qkv, out.astype(F), lse.astype(F), dout)
    return Case(
        list(reference.attention_backward(*wide(*qkv), lse, *wide(dout))),
        zeros(*[(s.N, s.C)] * 3),
        ours=lambda o: launches(PAIRS["attn"].backward(*args, *o)),
        numpy=lambda o: plain.attn_bwd(*args, *o),
        hand=lambda o: partial(hand.attn_bwd, *args, *o),
    )


@case
def gelu_fwd(s: Shape) -> Case:
    pre = draw("pre", s.N, s.F)
    return Case(
        [reference.gelu_forward(*wide(pre))],
        zeros((s.N, s.F)),
        ours=lambda o: launches(FINE["gelu"].forward(pre, *o)),
        numpy=lambda o: plain.gelu_fwd(pre, *o),
        hand=lambda o: partial(hand.gelu_fwd, pre, *o),
    )


@case
def gelu_bwd(s: Shape) -> Case:
    args = (draw("pre", s.N, s.F), draw("dact", s.N, s.F))
    return Case(
        [reference.gelu_backward(*wide(*args))],
        zeros((s.N, s.F)),
        ours=lambda o: launches(FINE["gelu"].backward(*args, *o)),
        numpy=lambda o: plain.gelu_bwd(*args, *o),
        hand=lambda o: partial(hand.gelu_bwd, *args, *o),
    )


@case
def residual_fwd(s: Shape) -> Case:
    args = (draw("a", s.N, s.C), draw("b", s.N, s.C))
    return Case(
        [reference.residual_forward(*wide(*args))],
        zeros((s.N, s.C)),
        ours=lambda o: launches(PAIRS["residual"].forward(*args, *o)),
        numpy=lambda o: plain.residual_fwd(*args, *o),
        hand=lambda o: partial(hand.residual_fwd, *args, *o),
    )


@case
def residual_bwd(s: Shape) -> Case:
    dout = draw("dout", s.N, s.C)
    return Case(
        list(reference.residual_backward(*wide(dout))),
        zeros((s.N, s.C), (s.N, s.C)),
        ours=lambda o: launches(PAIRS["residual"].backward(dout, *o)),
        numpy=lambda o: plain.residual_bwd(dout, *o),
        hand=lambda o: partial(hand.residual_bwd, dout, *o),
    )


def _scores(s: Shape):
    """Logits, and targets of which every 64th is ignored."""
    targets = ids("targets", s.V, s.B, s.T)
    targets.reshape(-1)[::64] = -1
    return draw("logits", s.N, s.V), targets


@case
def xent_fwd(s: Shape) -> Case:
    logits, targets = _scores(s)
    return Case(
        list(reference.xent_forward(*wide(logits), targets)),
        zeros((s.N,), (s.N,)),
        ours=lambda o: launches(FINE["xent"].forward(logits, targets, *o)),
        numpy=lambda o: plain.xent_fwd(logits, targets.ravel(), *o),
        hand=lambda o: partial(hand.xent_fwd, logits, targets.ravel(), *o),
    )


@case
def xent_bwd(s: Shape) -> Case:
    logits, targets = _scores(s)
    lse = reference.logsumexp(*wide(logits)).astype(F)
    dlosses = draw("dlosses", s.N)
    kernel = loss.k_xent_dlogits[s.N, loss.NT]  # the one of the production path, which overwrites
    return Case(
        [reference.xent_backward(*wide(logits), targets, *wide(lse, dlosses))],
        zeros((s.N, s.V)),
        ours=lambda o: launches([kernel.bind(logits, targets, lse, dlosses, *o, s.T, s.V)]),
        numpy=lambda o: plain.xent_bwd(logits, targets.ravel(), lse, dlosses, *o),
        hand=lambda o: partial(hand.xent_bwd, logits, targets.ravel(), lse, dlosses, *o),
    )


def _hyper(t: int = 3) -> np.ndarray:
    """The hyper-parameter array of step t, with FACTOR already in its slot."""
    hp = np.zeros(16, F)
    values = {"LR": "lr", "BETA1": "beta1", "BETA2": "beta2", "EPS": "eps", "DECAY": "decay"}
    for slot, name in values.items():
        hp[getattr(our_adamw, slot)] = STEP[name]
    hp[our_adamw.CORR1] = our_adamw.correction(STEP["beta1"], t)
    hp[our_adamw.CORR2] = our_adamw.correction(STEP["beta2"], t)
    hp[our_adamw.INV_COUNT], hp[our_adamw.FACTOR] = 1.0, FACTOR
    return hp


def _adamw_reference(s: Shape, w, g, m, v, regions, piece: int = 1 << 18) -> list[np.ndarray]:
    """(w, m, v) after the step, in pieces: float64 temporaries of the whole would take longer than everything else."""
    expected = [np.empty(s.params) for _ in range(3)]
    numbers = {name: STEP[name] for name in ("lr", "beta1", "beta2", "eps")}
    for start, stop, decay in regions:
        for a in range(start, stop, piece):
            cut = slice(a, min(a + piece, stop))
            after = reference.adamw(*wide(w[cut], g[cut], m[cut], v[cut]), 3, **numbers, decay=STEP["decay"] * decay)
            for whole, part in zip(expected, after, strict=True):
                whole[cut] = part
    return expected


@case
def adamw(s: Shape) -> Case:
    w, g, m, v = (draw(name, s.params) for name in "wgmv")
    v *= v
    cut = s.params // 8
    regions = [(0, cut, False), (cut, s.params, True)]
    hp = _hyper()
    lr, beta1, beta2, eps, factor = (F(x) for x in (*(STEP[n] for n in ("lr", "beta1", "beta2", "eps")), FACTOR))
    corr1, corr2 = hp[our_adamw.CORR1], hp[our_adamw.CORR2]
    cuts = [(start, stop, F(STEP["decay"] if decay else 0.0)) for start, stop, decay in regions]
    expected = _adamw_reference(s, w, g * F(FACTOR), m, v, regions)

    def by_hand(o):
        def work():
            for a, b, decay in cuts:
                hand.adamw(o[0][a:b], g[a:b], o[1][a:b], o[2][a:b], factor, lr, beta1, beta2, eps, decay, corr1, corr2)

        return work

    return Case(
        expected,
        lambda: [w.copy(), m.copy(), v.copy()],
        ours=lambda o: launches(our_adamw.update(o[0], g, o[1], o[2], hp, regions)),
        numpy=lambda o: plain.adamw(o[0], g, o[1], o[2], factor, lr, beta1, beta2, eps, corr1, corr2, cuts),
        hand=by_hand,
    )


@case
def grad_norm(s: Shape) -> Case:
    g = draw("g", s.params)
    part = np.zeros(-(-s.params // hand.CHUNK), F)
    partial_sums = np.zeros(clip.partials(s.params), F)

    def ours(o):
        hp = _hyper()
        work = launches(clip.norm(g, partial_sums, hp))

        def run_and_keep():
            work()
            o[0][0] = hp[our_adamw.NORM]

        return run_and_keep

    return Case(
        [np.array([reference.global_norm({"g": g.astype(np.float64)})])],
        zeros((1,)),
        ours=ours,
        numpy=lambda o: plain.grad_norm(g, *o),
        hand=lambda o: partial(hand.grad_norm, g, part, *o),
    )


@case
def zero(s: Shape) -> Case:
    return Case(
        [np.zeros(s.params)],
        lambda: [np.ones(s.params, F)],
        ours=lambda o: launches(clip.zero(*o)),
        numpy=lambda o: plain.zero(*o),
        hand=lambda o: partial(hand.zero, *o),
    )


@case
def scale(s: Shape) -> Case:
    g, factor = draw("g", s.params), F(1.0 - 2.0**-12)  # close to one: hundreds of turns leave ordinary numbers
    hp = _hyper()
    hp[our_adamw.INV_COUNT] = factor
    return Case(
        [g.astype(np.float64) * float(factor)],
        lambda: [g.copy()],
        ours=lambda o: launches(clip.scale_by_count(*o, hp)),
        numpy=lambda o: plain.scale(*o, factor),
        hand=lambda o: partial(hand.scale, *o, factor),
    )


def _matmul(s: Shape, ours: Callable, by_hand: Callable) -> Case:
    a, b = draw("a", s.N, s.C), draw("b", s.C, s.F)
    return Case(
        [reference.linear_forward(*wide(a, b))],
        zeros((s.N, s.F)),
        ours=lambda o: launches(ours(a, b, *o)),
        numpy=lambda o: plain.matmul(a, b, *o),
        hand=lambda o: partial(by_hand, a, b, *o),
    )


@case
def matmul_tiled(s: Shape) -> Case:
    """Against the loop of the same idea: rows are shared through the cache, sums go through memory."""
    tile = matmul.TILE
    grid = (-(-s.F // tile), -(-s.N // tile))
    return _matmul(
        s,
        lambda a, b, out: [matmul.k_matmul_tiled[grid, (tile, tile)].bind(a, b, out, s.N, s.F, s.C)],
        hand.matmul_rows,
    )


@case
def matmul_blocked(s: Shape) -> Case:
    """Against the loop of the same idea: several products for each number that is read."""

    def ours(a, b, out):
        with matmul.gemm_with("kernels"):
            return matmul.gemm(a, b, out)

    return _matmul(s, ours, hand.matmul_unrolled)
