"""Queries, keys and values, three projections of one input: k_attn_qkv_fwd, k_attn_qkv_bwd.

The training path takes gemm(), three products forward and six backward.
"""

import numpy as np
from numba import cuda, float32

from kernels.matmul import at, gemm, together
from kernels.projection import TILE, tiles
from kernels.registry import Pair, cdiv, register, wave
from kernels.target import kernel


def _example_fwd(block):
    N, C = 18, 20
    weights = [wave(C, C, seed=s) for s in (2, 3, 4)]
    outs = [np.zeros((N, C), np.float32) for _ in range(3)]
    return (cdiv(C, TILE), cdiv(N, TILE), 3), (wave(N, C), *weights, *outs, N, C)


def _example_bwd(block):
    N, C = 18, 20
    weights = [wave(C, C, seed=s) for s in (2, 3, 4)]
    douts = [wave(N, C, seed=s) for s in (5, 6, 7)]
    dweights = [wave(C, C, seed=s) for s in (8, 9, 10)]
    args = (wave(N, C), *weights, *douts, wave(N, C, seed=11), *dweights, N, C)
    return tiles(N, C) + 3 * tiles(C, C), args


@register(((TILE, TILE),), _example_fwd)
@kernel
def k_attn_qkv_fwd(inp, wq, wk, wv, q, k, v, N, C):
    """q = inp @ wq, k = inp @ wk, v = inp @ wv.

    Maths: q[n, j] = sum over i of inp[n, i] wq[i, j]; the same for k and v.
    Shapes: inp, q, k, v (N, C); wq, wk, wv (C, C).
    Threads: blockIdx.z picks q, k or v; a block owns one TILE x TILE tile of it, thread (x, y) one element.
    Shared memory: a tile of inp and one of the weight, 2 KiB.
    Reads + writes: reads inp 3 N C ceil(C / TILE), wq, wk and wv C C ceil(N / TILE) each; writes q, k and v N C each.
    About 2 C / TILE + 1 per element of q, k, v.
    Saves: inp; q, k, v are saved by attention.
    Changed: against three runs of k_attn_out_fwd, one launch.
    """
    a = cuda.shared.array((TILE, TILE), float32)
    b = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    which = cuda.blockIdx.z
    row0 = cuda.blockIdx.y * TILE
    col0 = cuda.blockIdx.x * TILE
    acc = float32(0.0)
    for t in range((C + TILE - 1) // TILE):
        i0 = t * TILE
        a[ty, tx] = at(inp, row0 + ty, i0 + tx, N, C)
        if which == 0:
            b[ty, tx] = at(wq, i0 + ty, col0 + tx, C, C)
        elif which == 1:
            b[ty, tx] = at(wk, i0 + ty, col0 + tx, C, C)
        else:
            b[ty, tx] = at(wv, i0 + ty, col0 + tx, C, C)
        cuda.syncthreads()
        for i in range(TILE):
            acc += a[ty, i] * b[i, tx]
        cuda.syncthreads()
    if row0 + ty < N and col0 + tx < C:
        if which == 0:
            q[row0 + ty, col0 + tx] = acc
        elif which == 1:
            k[row0 + ty, col0 + tx] = acc
        else:
            v[row0 + ty, col0 + tx] = acc


@register(((TILE, TILE),), _example_bwd)
@kernel
def k_attn_qkv_bwd(inp, wq, wk, wv, dq, dk, dv, dinp, dwq, dwk, dwv, N, C):
    """dinp += dq @ wq.T + dk @ wk.T + dv @ wv.T; dwq += inp.T @ dq, dwk += inp.T @ dk, dwv += inp.T @ dv.

    Maths: the input was read three times, so its gradient is a sum of three; each weight was read once.
    Shapes: inp, dq, dk, dv, dinp (N, C); wq, wk, wv, dwq, dwk, dwv (C, C).
    Threads: both jobs in one launch, by the block's role: the first blocks own a tile of dinp each, then come the tiles
    of dwq, of dwk, of dwv; thread (x, y) owns one element. Every sum belongs to one thread, so no atomics.
    Shared memory: two tiles, 2 KiB; the transposed operand is turned on its way in.
    Reads + writes: reads dq, dk and dv 2 N C ceil(C / TILE) each, inp 3 N C ceil(C / TILE), wq,
    wk and wv C C ceil(N / TILE) each, dinp N C, dwq, dwk and dwv C C each; writes dinp N C, dwq, dwk and dwv C C each.
    Saves: nothing; uses inp.
    Changed: against three runs of k_attn_out_bwd, dinp is read and written once.
    """
    a = cuda.shared.array((TILE, TILE), float32)
    b = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    across = (C + TILE - 1) // TILE
    first = (N + TILE - 1) // TILE * across
    acc = float32(0.0)
    if cuda.blockIdx.x < first:
        row0 = cuda.blockIdx.x // across * TILE
        col0 = cuda.blockIdx.x % across * TILE
        for t in range(3 * across):
            j0 = t % across * TILE
            if t < across:
                a[ty, tx] = at(dq, row0 + ty, j0 + tx, N, C)
                b[tx, ty] = at(wq, col0 + ty, j0 + tx, C, C)
            elif t < 2 * across:
                a[ty, tx] = at(dk, row0 + ty, j0 + tx, N, C)
                b[tx, ty] = at(wk, col0 + ty, j0 + tx, C, C)
            else:
                a[ty, tx] = at(dv, row0 + ty, j0 + tx, N, C)
                b[tx, ty] = at(wv, col0 + ty, j0 + tx, C, C)
            cuda.syncthreads()
            for j in range(TILE):
                acc += a[ty, j] * b[j, tx]
            cuda.syncthreads()
        if row0 + ty < N and col0 + tx < C:
            dinp[row0 + ty, col0 + tx] += acc
    else:
        which = (cuda.blockIdx.x - first) // (across * across)
        tile = (cuda.blockIdx.x - first) % (across * across)
        top = tile // across * TILE
        left = tile % across * TILE
        for t in range((N + TILE - 1) // TILE):
            n0 = t * TILE
            a[tx, ty] = at(inp, n0 + ty, top + tx, N, C)
            if which == 0:
                b[ty, tx] = at(dq, n0 + ty, left + tx, N, C)
            elif which == 1:
                b[ty, tx] = at(dk, n0 + ty, left + tx, N, C)
            else:
                b[ty, tx] = at(dv, n0 + ty, left + tx, N, C)
            cuda.syncthreads()
            for n in range(TILE):
                acc += a[ty, n] * b[n, tx]
            cuda.syncthreads()
        if top + ty < C and left + tx < C:
            if which == 0:
                dwq[top + ty, left + tx] += acc
            elif which == 1:
                dwk[top + ty, left + tx] += acc
            else:
                dwv[top + ty, left + tx] += acc


def forward(inp, wq, wk, wv, q, k, v):
    """Launches: q, k, v (N, C) = inp (N, C) times wq, wk, wv (C, C)."""
    return together(gemm(inp, wq, q), gemm(inp, wk, k), gemm(inp, wv, v))


def backward(inp, wq, wk, wv, dq, dk, dv, dinp, dwq, dwk, dwv):
    """Launches that add to dinp (N, C) and to dwq, dwk, dwv (C, C)."""
    weights = [gemm(inp, d, dw, ta=True, add=True) for d, dw in ((dq, dwq), (dk, dwk), (dv, dwv))]
    return [
        *together(*weights, gemm(dq, wq, dinp, tb=True, add=True)),
        *gemm(dk, wk, dinp, tb=True, add=True),
        *gemm(dv, wv, dinp, tb=True, add=True),
    ]


def named_forward(inp, wq, wk, wv, q, k, v):
    """One launch of k_attn_qkv_fwd."""
    N, C = inp.shape
    grid = (cdiv(C, TILE), cdiv(N, TILE), 3)
    return [k_attn_qkv_fwd[grid, (TILE, TILE)].bind(inp, wq, wk, wv, q, k, v, N, C)]


def named_backward(inp, wq, wk, wv, dq, dk, dv, dinp, dwq, dwk, dwv):
    """One launch of k_attn_qkv_bwd."""
    N, C = inp.shape
    grid = tiles(N, C) + 3 * tiles(C, C)
    return [k_attn_qkv_bwd[grid, (TILE, TILE)].bind(inp, wq, wk, wv, dq, dk, dv, dinp, dwq, dwk, dwv, N, C)]


ATTN_QKV = Pair(
    *("attn_qkv", k_attn_qkv_fwd, k_attn_qkv_bwd, forward, backward, named_forward, named_backward),
    saved=("inp",),
    folds=("q_proj", "k_proj", "v_proj"),
)
