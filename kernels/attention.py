"""Attention as one pair, k_attn_fwd and k_attn_bwd, written to be read; and the pairs of the attention block.

The training path is in attention_flash.py, the fine pairs in attention_steps.py and heads.py, the projections in
projection.py and qkv.py.
"""

import math

import numpy as np
from numba import cuda, float32

from kernels import attention_flash, attention_steps
from kernels.attention_flash import head_size
from kernels.heads import HEADS
from kernels.projection import ATTN_OUT, PROJ
from kernels.qkv import ATTN_QKV
from kernels.registry import ANY_BLOCK, Pair, cdiv, register, wave
from kernels.target import device, kernel

NT = 64


@device
def dot(x, i, y, j, c0, HS):
    """The product of row i of x and row j of y over columns c0 to c0 + HS."""
    total = float32(0.0)
    for d in range(HS):
        total += x[i, c0 + d] * y[j, c0 + d]
    return total


def _example_fwd(block):
    B, T, NH, HS = 2, 20, 2, 6
    q, k, v = (wave(B * T, NH * HS, seed=s) for s in (1, 2, 3))
    out, lse = np.zeros_like(q), np.zeros((B, NH, T), np.float32)
    return cdiv(B * NH * T, _threads(block)), (q, k, v, out, lse, NH, T, B * NH * T, HS, np.float32(HS**-0.5))


def _example_bwd(block):
    B, T, NH, HS = 2, 20, 2, 6
    q, k, v, out, dout = (wave(B * T, NH * HS, seed=s) for s in (1, 2, 3, 4, 5))
    grads = [wave(B * T, NH * HS, seed=s) for s in (6, 7, 8)]
    lse = np.full((B, NH, T), 2.5, np.float32)
    rows = B * NH * T
    args = (q, k, v, out, lse, dout, *grads, NH, T, rows, HS, np.float32(HS**-0.5))
    return cdiv(2 * rows, _threads(block)), args


def _threads(block):
    return math.prod(block) if isinstance(block, tuple) else block


@register(ANY_BLOCK, _example_fwd)
@kernel
def k_attn_fwd(q, k, v, out, lse, NH, T, rows, HS, scale):
    """Causal attention of every head: each query looks at itself and the past.

    Maths: s_ij = scale q_i . k_j for j <= i; lse_i = log sum_j exp(s_ij); out_i = sum_j exp(s_ij - lse_i) v_j.
    Shapes: q, k, v, out (N, C) = (B * T, NH * HS), head h in columns h * HS on; lse (B, NH, T); rows = B * NH * T.
    Threads: one thread a query of a head; thread r is position r mod T.
    Shared memory: none.
    Reads + writes: reads q and k 2 pairs HS each, v and out pairs HS each; writes out rows HS + pairs HS, lse rows;
    where pairs = rows (T + 1) / 2. Every score is made twice, out is added up in place: about 3 T reads per element of
    out.
    Saves: lse (and q, k, v, out); the (T, T) scores are never stored.
    """
    r = cuda.grid(1)
    if r < rows:
        t = r % T
        h = r // T % NH
        b = r // (T * NH)
        r0 = b * T
        c0 = h * HS
        i = r0 + t
        top = float32(-1e30)
        total = float32(0.0)
        for j in range(t + 1):
            s = scale * dot(q, i, k, r0 + j, c0, HS)
            new = max(top, s)
            total = total * math.exp(top - new) + math.exp(s - new)
            top = new
        L = top + math.log(total)
        lse[b, h, t] = L
        for d in range(HS):
            out[i, c0 + d] = float32(0.0)
        for j in range(t + 1):
            p = math.exp(scale * dot(q, i, k, r0 + j, c0, HS) - L)
            for d in range(HS):
                out[i, c0 + d] += p * v[r0 + j, c0 + d]


@register(ANY_BLOCK, _example_bwd)
@kernel
def k_attn_bwd(q, k, v, out, lse, dout, dq, dk, dv, NH, T, rows, HS, scale):
    """Gradients of causal attention for queries, keys and values, all in one launch.

    Maths: p_ij = exp(scale q_i . k_j - lse_i) for j <= i; delta_i = dout_i . out_i;
    ds_ij = scale p_ij (dout_i . v_j - delta_i);
    dq_i += sum_j ds_ij k_j; dk_j += sum_i ds_ij q_i; dv_j += sum_i p_ij dout_i.
    Shapes: q, k, v, out, dout, dq, dk, dv (N, C) = (B * T, NH * HS); lse (B, NH, T); rows = B * NH * T.
    Threads: the first `rows` threads own a query of a head each and write its dq; the next `rows` own a key and write
    its dk and dv. Both make the scores they need again, so nobody adds to another's row: no atomics.
    Shared memory: none.
    Reads + writes: reads q and k 3 pairs HS each, v 2 pairs HS, dout rows HS + 4 pairs HS, out rows HS + pairs HS,
    lse rows + pairs, dq, dk and dv pairs HS each; writes dq, dk and dv pairs HS each; where pairs = rows (T + 1) / 2.
    About 8 T reads per element of q.
    Saves: nothing; uses q, k, v, out, lse.
    """
    r = cuda.grid(1)
    own = r % rows
    t = own % T
    h = own // T % NH
    b = own // (T * NH)
    r0 = b * T
    c0 = h * HS
    if r < rows:
        i = r0 + t
        L = lse[b, h, t]
        delta = dot(dout, i, out, i, c0, HS)
        for j in range(t + 1):
            p = math.exp(scale * dot(q, i, k, r0 + j, c0, HS) - L)
            ds = scale * p * (dot(dout, i, v, r0 + j, c0, HS) - delta)
            for d in range(HS):
                dq[i, c0 + d] += ds * k[r0 + j, c0 + d]
    elif r < 2 * rows:
        row = r0 + t
        for u in range(t, T):
            i2 = r0 + u
            p2 = math.exp(scale * dot(q, i2, k, row, c0, HS) - lse[b, h, u])
            ds2 = scale * p2 * (dot(dout, i2, v, row, c0, HS) - dot(dout, i2, out, i2, c0, HS))
            for d in range(HS):
                dk[row, c0 + d] += ds2 * q[i2, c0 + d]
                dv[row, c0 + d] += p2 * dout[i2, c0 + d]


def named_forward(q, k, v, out, lse):
    """One launch of k_attn_fwd: q, k, v, out (N, C), lse (B, NH, T)."""
    (B, NH, T), HS = lse.shape, head_size(q, lse)
    rows = B * NH * T
    return [k_attn_fwd[cdiv(rows, NT), NT].bind(q, k, v, out, lse, NH, T, rows, HS, np.float32(HS**-0.5))]


def named_backward(q, k, v, out, lse, dout, dq, dk, dv):
    """One launch of k_attn_bwd, which adds to dq, dk, dv (N, C)."""
    (B, NH, T), HS = lse.shape, head_size(q, lse)
    rows = B * NH * T
    launch = k_attn_bwd[cdiv(2 * rows, NT), NT]
    return [launch.bind(q, k, v, out, lse, dout, dq, dk, dv, NH, T, rows, HS, np.float32(HS**-0.5))]


ATTN = Pair(
    *("attn", k_attn_fwd, k_attn_bwd, attention_flash.forward, attention_flash.backward),
    *(named_forward, named_backward),
    saved=("q", "k", "v", "out", "lse"),
    folds=("scores", "mask", "softmax", "weighted_sum", "heads"),
)
PAIRS = (ATTN_QKV, ATTN, ATTN_OUT)
FINE = (
    *(PROJ.fine(name) for name in ("q_proj", "k_proj", "v_proj", "o_proj", "w1", "w2")),
    *attention_steps.FINE,
    HEADS,
)
