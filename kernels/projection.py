"""Projections, rows times a weight: the fine pair k_proj_fwd/_bwd and the named pair k_attn_out_fwd/_bwd.

out = inp @ w, so dinp = dout @ w.T and dw = inp.T @ dout: one matrix product forward, two backward. The training path
takes gemm(). The kernels here do each direction in one launch: k_proj_* row by row, k_attn_out_* tile by tile.
"""

import numpy as np
from numba import cuda, float32

from kernels.matmul import at, gemm, together
from kernels.registry import ANY_BLOCK, Pair, cdiv, register, wave
from kernels.target import kernel

NT = 128
TILE = 16  # side of the tiles; a block is TILE x TILE threads, one element of a result each


def tiles(rows, cols):
    """Number of tiles that cover rows x cols."""
    return cdiv(rows, TILE) * cdiv(cols, TILE)


# ---------------------------------------------------------------- the fine pair, row by row


def _example_proj_fwd(block):
    N, K, M = 5, 20, 150
    return N, (wave(N, K), wave(K, M, seed=2), np.zeros((N, M), np.float32), K, M)


def _example_proj_bwd(block):
    N, K, M = 5, 20, 150
    args = (wave(N, K), wave(K, M, seed=2), wave(N, M, seed=3), wave(N, K, seed=4), wave(K, M, seed=5), N, K, M)
    return N + K, args


@register(ANY_BLOCK, _example_proj_fwd)
@kernel
def k_proj_fwd(inp, w, out, K, M):
    """out = inp @ w.

    Maths: out[n, m] = sum over k of inp[n, k] w[k, m].
    Shapes: inp (N, K), w (K, M), out (N, M).
    Threads: block n owns row n of out; its threads take columns tx, tx + blockDim, ...
    Shared memory: none.
    Reads + writes: reads inp and w N K M each; writes out N M.
    Saves: inp.
    """
    row = cuda.blockIdx.x
    for m in range(cuda.threadIdx.x, M, cuda.blockDim.x):
        acc = float32(0.0)
        for k in range(K):
            acc += inp[row, k] * w[k, m]
        out[row, m] = acc


@register(ANY_BLOCK, _example_proj_bwd)
@kernel
def k_proj_bwd(inp, w, dout, dinp, dw, N, K, M):
    """dinp += dout @ w.T and dw += inp.T @ dout, both jobs in one launch.

    Maths: dinp[n, k] += sum over m of dout[n, m] w[k, m]; dw[k, m] += sum over n of inp[n, k] dout[n, m].
    Shapes: inp, dinp (N, K), w, dw (K, M), dout (N, M).
    Threads: block n < N owns row n of dinp, block N + k row k of dw; threads take columns. Every sum belongs to one
    thread and runs in one order, so no atomics.
    Shared memory: none.
    Reads + writes: reads dout 2 N K M, inp and w N K M each, dinp N K, dw K M; writes dinp N K, dw K M.
    Saves: nothing; uses inp.
    """
    tx = cuda.threadIdx.x
    if cuda.blockIdx.x < N:
        row = cuda.blockIdx.x
        for k in range(tx, K, cuda.blockDim.x):
            acc = float32(0.0)
            for m in range(M):
                acc += dout[row, m] * w[k, m]
            dinp[row, k] += acc
    else:
        col = cuda.blockIdx.x - N
        for m in range(tx, M, cuda.blockDim.x):
            acc = float32(0.0)
            for n in range(N):
                acc += inp[n, col] * dout[n, m]
            dw[col, m] += acc


# ---------------------------------------------------------------- the output projection, tiled


def _example_out_fwd(block):
    N, K, M = 18, 20, 33
    return (cdiv(M, TILE), cdiv(N, TILE)), (wave(N, K), wave(K, M, seed=2), np.zeros((N, M), np.float32), N, K, M)


def _example_out_bwd(block):
    N, K, M = 18, 20, 33
    args = (wave(N, K), wave(K, M, seed=2), wave(N, M, seed=3), wave(N, K, seed=4), wave(K, M, seed=5), N, K, M)
    return tiles(N, K) + tiles(K, M), args


@register(((TILE, TILE),), _example_out_fwd)
@kernel
def k_attn_out_fwd(inp, w, out, N, K, M):
    """out = inp @ w.

    Maths: out[n, m] = sum over k of inp[n, k] w[k, m].
    Shapes: inp (N, K), w (K, M), out (N, M).
    Threads: a block owns one TILE x TILE tile of out, thread (x, y) one element of it.
    Shared memory: a tile of inp and one of w, 2 KiB.
    Reads + writes: reads inp N K ceil(M / TILE), w K M ceil(N / TILE); writes out N M. About 2 K / TILE + 1 per element
    of out.
    Saves: inp.
    Changed: against k_proj_fwd, a value read from global memory serves TILE threads.
    """
    a = cuda.shared.array((TILE, TILE), float32)
    b = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    row0 = cuda.blockIdx.y * TILE
    col0 = cuda.blockIdx.x * TILE
    acc = float32(0.0)
    for t in range((K + TILE - 1) // TILE):
        k0 = t * TILE
        a[ty, tx] = at(inp, row0 + ty, k0 + tx, N, K)
        b[ty, tx] = at(w, k0 + ty, col0 + tx, K, M)
        cuda.syncthreads()
        for k in range(TILE):
            acc += a[ty, k] * b[k, tx]
        cuda.syncthreads()
    if row0 + ty < N and col0 + tx < M:
        out[row0 + ty, col0 + tx] = acc


@register(((TILE, TILE),), _example_out_bwd)
@kernel
def k_attn_out_bwd(inp, w, dout, dinp, dw, N, K, M):
    """dinp += dout @ w.T and dw += inp.T @ dout, both jobs in one launch.

    Maths: dinp[n, k] += sum over m of dout[n, m] w[k, m]; dw[k, m] += sum over n of inp[n, k] dout[n, m].
    Shapes: inp, dinp (N, K), w, dw (K, M), dout (N, M).
    Threads: the first blocks own a tile of dinp each, the others a tile of dw; thread (x, y) owns one element. Every
    sum belongs to one thread and runs in one order, so no atomics.
    Shared memory: two tiles, 2 KiB; the transposed operand is turned on its way in.
    Reads + writes: reads dout 2 N M ceil(K / TILE), inp N K ceil(M / TILE), w K M ceil(N / TILE), dinp N K, dw K M;
    writes dinp N K, dw K M.
    Saves: nothing; uses inp.
    Changed: against k_proj_bwd, a value read from global memory serves TILE threads.
    """
    a = cuda.shared.array((TILE, TILE), float32)
    b = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    across = (K + TILE - 1) // TILE
    first = (N + TILE - 1) // TILE * across
    acc = float32(0.0)
    if cuda.blockIdx.x < first:
        row0 = cuda.blockIdx.x // across * TILE
        col0 = cuda.blockIdx.x % across * TILE
        for t in range((M + TILE - 1) // TILE):
            m0 = t * TILE
            a[ty, tx] = at(dout, row0 + ty, m0 + tx, N, M)
            b[tx, ty] = at(w, col0 + ty, m0 + tx, K, M)
            cuda.syncthreads()
            for m in range(TILE):
                acc += a[ty, m] * b[m, tx]
            cuda.syncthreads()
        if row0 + ty < N and col0 + tx < K:
            dinp[row0 + ty, col0 + tx] += acc
    else:
        wide = (M + TILE - 1) // TILE
        tile = cuda.blockIdx.x - first
        top = tile // wide * TILE
        left = tile % wide * TILE
        for t in range((N + TILE - 1) // TILE):
            n0 = t * TILE
            a[tx, ty] = at(inp, n0 + ty, top + tx, N, K)
            b[ty, tx] = at(dout, n0 + ty, left + tx, N, M)
            cuda.syncthreads()
            for n in range(TILE):
                acc += a[ty, n] * b[n, tx]
            cuda.syncthreads()
        if top + ty < K and left + tx < M:
            dw[top + ty, left + tx] += acc


def forward(inp, w, out):
    """Launches: out (N, M) = inp (N, K) @ w (K, M)."""
    return gemm(inp, w, out)


def backward(inp, w, dout, dinp, dw):
    """Launches that add dout @ w.T to dinp and inp.T @ dout to dw."""
    return together(gemm(dout, w, dinp, tb=True, add=True), gemm(inp, dout, dw, ta=True, add=True))


def row_forward(inp, w, out):
    """One launch of k_proj_fwd."""
    (N, K), M = inp.shape, w.shape[1]
    return [k_proj_fwd[N, NT].bind(inp, w, out, K, M)]


def row_backward(inp, w, dout, dinp, dw):
    """One launch of k_proj_bwd."""
    (N, K), M = inp.shape, w.shape[1]
    return [k_proj_bwd[N + K, NT].bind(inp, w, dout, dinp, dw, N, K, M)]


def tile_forward(inp, w, out):
    """One launch of k_attn_out_fwd."""
    (N, K), M = inp.shape, w.shape[1]
    return [k_attn_out_fwd[(cdiv(M, TILE), cdiv(N, TILE)), (TILE, TILE)].bind(inp, w, out, N, K, M)]


def tile_backward(inp, w, dout, dinp, dw):
    """One launch of k_attn_out_bwd."""
    (N, K), M = inp.shape, w.shape[1]
    k = k_attn_out_bwd[tiles(N, K) + tiles(K, M), (TILE, TILE)]
    return [k.bind(inp, w, dout, dinp, dw, N, K, M)]


PROJ = Pair("proj", k_proj_fwd, k_proj_bwd, forward, backward, row_forward, row_backward, saved=("inp",))
ATTN_OUT = Pair(
    *("attn_out", k_attn_out_fwd, k_attn_out_bwd, forward, backward, tile_forward, tile_backward),
    saved=("inp",),
    folds=("o_proj",),
)
