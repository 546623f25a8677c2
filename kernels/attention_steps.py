"""Attention in steps, each a pair of its own: scores, mask, softmax, weighted_sum. (heads.py cuts and joins heads.)

q, k, v are cut into heads (B, NH, T, HS); scores and probabilities are (B, NH, T, T), rows are queries. Backward
kernels add. In a kernel G = B * NH counts the heads of all sequences, and the arrays are seen as (G, T, HS), (G, T, T).
"""

import math

import numpy as np
from numba import cuda, float32

from kernels.registry import ANY_BLOCK, Pair, cdiv, register, wave
from kernels.target import kernel

NT = 128
G_, T_, HS_ = 3, 12, 5  # sizes of the examples


def _blocks(n, block):
    return cdiv(n, math.prod(block) if isinstance(block, tuple) else block)


def _zeros(*shape):
    return np.zeros(shape, np.float32)


# ---------------------------------------------------------------- scores


def _example_scores_fwd(block):
    q, k = wave(G_, T_, HS_), wave(G_, T_, HS_, seed=2)
    return _blocks(G_ * T_ * T_, block), (q, k, _zeros(G_, T_, T_), T_, HS_, np.float32(0.5), G_ * T_ * T_)


def _example_scores_bwd(block):
    q, k, ds, dq, dk = (wave(G_, T_, c, seed=c) for c in (HS_, HS_, T_, HS_, HS_))
    n = G_ * T_ * HS_
    return _blocks(2 * n, block), (q, k, ds, dq, dk, T_, HS_, np.float32(0.5), n)


@register(ANY_BLOCK, _example_scores_fwd)
@kernel
def k_scores_fwd(q, k, out, T, HS, scale, n):
    """How well query i and key j agree.

    Maths: out_ij = scale q_i . k_j.
    Shapes: q, k (G, T, HS); out (G, T, T); n = G * T * T.
    Threads: one element of out a thread.
    Shared memory: none.
    Reads + writes: reads q and k n HS each; writes out n.
    Saves: q, k.
    """
    e = cuda.grid(1)
    if e < n:
        j = e % T
        i = e // T % T
        g = e // (T * T)
        acc = float32(0.0)
        for d in range(HS):
            acc += q[g, i, d] * k[g, j, d]
        out[g, i, j] = acc * scale


@register(ANY_BLOCK, _example_scores_bwd)
@kernel
def k_scores_bwd(q, k, dout, dq, dk, T, HS, scale, n):
    """The gradients of queries and keys.

    Maths: dq_i += scale sum_j dout_ij k_j; dk_j += scale sum_i dout_ij q_i.
    Shapes: q, k, dq, dk (G, T, HS); dout (G, T, T); n = G * T * HS.
    Threads: the first n threads own an element of dq each, the next n an element of dk.
    Shared memory: none.
    Reads + writes: reads dout 2 n T, q and k n T each, dq and dk n each; writes dq and dk n each.
    Saves: nothing; uses q, k.
    """
    e = cuda.grid(1)
    own = e % n
    d = own % HS
    t = own // HS % T
    g = own // (HS * T)
    acc = float32(0.0)
    if e < n:
        for j in range(T):
            acc += dout[g, t, j] * k[g, j, d]
        dq[g, t, d] += acc * scale
    elif e < 2 * n:
        for i in range(T):
            acc += dout[g, i, t] * q[g, i, d]
        dk[g, t, d] += acc * scale


def scores_forward(q, k, out):
    """One launch: q, k (B, NH, T, HS) to out (B, NH, T, T), scaled by 1 / sqrt(HS)."""
    T, HS = q.shape[2:]
    args = (_flat(q), _flat(k), _flat(out), T, HS, np.float32(HS**-0.5), out.size)
    return [k_scores_fwd[cdiv(out.size, NT), NT].bind(*args)]


def scores_backward(q, k, dout, dq, dk):
    """One launch that adds to dq and dk (B, NH, T, HS)."""
    T, HS = q.shape[2:]
    args = (*map(_flat, (q, k, dout, dq, dk)), T, HS, np.float32(HS**-0.5), q.size)
    return [k_scores_bwd[cdiv(2 * q.size, NT), NT].bind(*args)]


def _flat(x):
    """(B, NH, ...) seen as (G, ...)."""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


# ---------------------------------------------------------------- mask


def _example_square(block):
    x = wave(G_, T_, T_)
    return _blocks(x.size, block), (x, wave(G_, T_, T_, seed=2), T_, x.size)


@register(ANY_BLOCK, _example_square)
@kernel
def k_mask_fwd(inp, out, T, n):
    """A query sees itself and the past.

    Maths: out_ij = inp_ij where j <= i, else minus infinity.
    Shapes: inp, out (G, T, T), possibly the same array; n = G * T * T.
    Threads: one element a thread.
    Shared memory: none.
    Reads + writes: reads inp seen; writes out n; where seen = G T (T + 1) / 2.
    Saves: nothing; the mask is known from i and j.
    """
    e = cuda.grid(1)
    if e < n:
        j = e % T
        i = e // T % T
        g = e // (T * T)
        x = float32(-np.inf)
        if j <= i:
            x = inp[g, i, j]
        out[g, i, j] = x


@register(ANY_BLOCK, _example_square)
@kernel
def k_mask_bwd(dout, dinp, T, n):
    """A masked score is a constant and gets no gradient.

    Maths: dinp_ij += dout_ij where j <= i.
    Shapes: dout, dinp (G, T, T); n = G * T * T.
    Threads: one element a thread.
    Shared memory: none.
    Reads + writes: reads dout and dinp seen each; writes dinp seen; where seen = G T (T + 1) / 2.
    Saves: nothing.
    """
    e = cuda.grid(1)
    if e < n:
        j = e % T
        i = e // T % T
        g = e // (T * T)
        if j <= i:
            dinp[g, i, j] += dout[g, i, j]


def mask_forward(inp, out):
    """One launch: inp to out, both (B, NH, T, T)."""
    return [k_mask_fwd[cdiv(inp.size, NT), NT].bind(_flat(inp), _flat(out), inp.shape[3], inp.size)]


def mask_backward(dout, dinp):
    """One launch that adds to dinp (B, NH, T, T)."""
    return [k_mask_bwd[cdiv(dout.size, NT), NT].bind(_flat(dout), _flat(dinp), dout.shape[3], dout.size)]


# ---------------------------------------------------------------- softmax


def _example_softmax_fwd(block):
    return _blocks(40, block), (wave(40, 30, scale=5.0), _zeros(40, 30), 30, 40)


def _example_softmax_bwd(block):
    return _blocks(40, block), (wave(40, 30), wave(40, 30, seed=2), wave(40, 30, seed=3), 30, 40)


@register(ANY_BLOCK, _example_softmax_fwd)
@kernel
def k_softmax_fwd(inp, out, cols, rows):
    """A row becomes positive numbers that sum to 1.

    Maths: out_j = exp(inp_j - max) / sum of exp(inp_i - max) over the row. A row that is minus infinity throughout,
    with nothing to see, becomes 0.
    Shapes: inp, out (rows, cols).
    Threads: one row a thread.
    Shared memory: none.
    Reads + writes: reads inp 2 rows cols, out rows cols; writes out 2 rows cols.
    Saves: out.
    """
    r = cuda.grid(1)
    if r < rows:
        top = float32(-3e38)
        for j in range(cols):
            top = max(top, inp[r, j])
        total = float32(0.0)
        for j in range(cols):
            e = math.exp(inp[r, j] - top)
            out[r, j] = e
            total += e
        inv = float32(0.0)
        if total > float32(0.0):
            inv = float32(1.0) / total
        for j in range(cols):
            out[r, j] *= inv


@register(ANY_BLOCK, _example_softmax_bwd)
@kernel
def k_softmax_bwd(p, dout, dinp, cols, rows):
    """What raises one probability lowers the others.

    Maths: dinp_j += p_j (dout_j - sum_i p_i dout_i).
    Shapes: p, dout, dinp (rows, cols), p as forward left it.
    Threads: one row a thread.
    Shared memory: none.
    Reads + writes: reads p and dout 2 rows cols each, dinp rows cols; writes dinp rows cols.
    Saves: nothing; uses p.
    """
    r = cuda.grid(1)
    if r < rows:
        along = float32(0.0)
        for j in range(cols):
            along += p[r, j] * dout[r, j]
        for j in range(cols):
            dinp[r, j] += p[r, j] * (dout[r, j] - along)


def _rows(x):
    return x.reshape(-1, x.shape[-1])


def softmax_forward(inp, out):
    """One launch: inp to out, both (B, NH, T, T)."""
    rows = inp.size // inp.shape[3]
    return [k_softmax_fwd[cdiv(rows, NT), NT].bind(_rows(inp), _rows(out), inp.shape[3], rows)]


def softmax_backward(p, dout, dinp):
    """One launch that adds to dinp; p is what forward wrote; all (B, NH, T, T)."""
    rows = p.size // p.shape[3]
    return [k_softmax_bwd[cdiv(rows, NT), NT].bind(_rows(p), _rows(dout), _rows(dinp), p.shape[3], rows)]


# ---------------------------------------------------------------- weighted sum


def _example_sum_fwd(block):
    n = G_ * T_ * HS_
    return _blocks(n, block), (wave(G_, T_, T_), wave(G_, T_, HS_, seed=2), _zeros(G_, T_, HS_), T_, HS_, n)


def _example_sum_bwd(block):
    p, v, dout, dp, dv = (wave(G_, T_, c, seed=c) for c in (T_, HS_, HS_, T_, HS_))
    n, m = G_ * T_ * T_, G_ * T_ * HS_
    return _blocks(n + m, block), (p, v, dout, dp, dv, T_, HS_, n, m)


@register(ANY_BLOCK, _example_sum_fwd)
@kernel
def k_weighted_sum_fwd(p, v, out, T, HS, n):
    """A row of the result is a mixture of values.

    Maths: out_i = sum_j p_ij v_j.
    Shapes: p (G, T, T); v, out (G, T, HS); n = G * T * HS.
    Threads: one element of out a thread.
    Shared memory: none.
    Reads + writes: reads p and v n T each; writes out n.
    Saves: p, v.
    """
    e = cuda.grid(1)
    if e < n:
        d = e % HS
        i = e // HS % T
        g = e // (HS * T)
        acc = float32(0.0)
        for j in range(T):
            acc += p[g, i, j] * v[g, j, d]
        out[g, i, d] = acc


@register(ANY_BLOCK, _example_sum_bwd)
@kernel
def k_weighted_sum_bwd(p, v, dout, dp, dv, T, HS, n, m):
    """The gradients of probabilities and values.

    Maths: dp_ij += dout_i . v_j; dv_j += sum_i p_ij dout_i.
    Shapes: p, dp (G, T, T); v, dout, dv (G, T, HS); n = G * T * T, m = G * T * HS.
    Threads: the first n threads own an element of dp each, the next m an element of dv.
    Shared memory: none.
    Reads + writes: reads dout n HS + m T, v n HS, p m T, dp n, dv m; writes dp n, dv m.
    Saves: nothing; uses p, v.
    """
    e = cuda.grid(1)
    acc = float32(0.0)
    if e < n:
        j = e % T
        i = e // T % T
        g = e // (T * T)
        for d in range(HS):
            acc += dout[g, i, d] * v[g, j, d]
        dp[g, i, j] += acc
    elif e < n + m:
        own = e - n
        c = own % HS
        t = own // HS % T
        w = own // (HS * T)
        for r in range(T):
            acc += p[w, r, t] * dout[w, r, c]
        dv[w, t, c] += acc


def weighted_sum_forward(p, v, out):
    """One launch: p (B, NH, T, T), v (B, NH, T, HS) to out (B, NH, T, HS)."""
    T, HS = v.shape[2:]
    return [k_weighted_sum_fwd[cdiv(out.size, NT), NT].bind(*map(_flat, (p, v, out)), T, HS, out.size)]


def weighted_sum_backward(p, v, dout, dp, dv):
    """One launch that adds to dp (B, NH, T, T) and dv (B, NH, T, HS)."""
    T, HS = v.shape[2:]
    args = (*map(_flat, (p, v, dout, dp, dv)), T, HS, p.size, v.size)
    return [k_weighted_sum_bwd[cdiv(p.size + v.size, NT), NT].bind(*args)]


def _pair(name, fwd, bwd, forward, backward, saved=()):
    return Pair(name, fwd, bwd, forward, backward, forward, backward, saved=saved)


FINE = (
    _pair("scores", k_scores_fwd, k_scores_bwd, scores_forward, scores_backward, ("q", "k")),
    _pair("mask", k_mask_fwd, k_mask_bwd, mask_forward, mask_backward),
    _pair("softmax", k_softmax_fwd, k_softmax_bwd, softmax_forward, softmax_backward, ("out",)),
    _pair(
        "weighted_sum",
        *(k_weighted_sum_fwd, k_weighted_sum_bwd, weighted_sum_forward, weighted_sum_backward),
        ("p", "v"),
    ),
)
