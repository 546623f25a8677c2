"""Layer normalisation: k_layernorm_fwd, k_layernorm_bwd, and the kernels of the production backward paths."""

import math

import numpy as np
from numba import cuda, float32

from kernels.matmul import together
from kernels.registry import ANY_BLOCK, Pair, cdiv, register, row_block, wave
from kernels.target import current, kernel

NT = 32  # threads of a block that reduces a row; the tree over them fixes the order of the sum
COLS, SLICES = 32, 8  # block of the column sums: COLS columns, rows dealt to SLICES threads each

EPS = 1e-5


def _example_fwd(block):
    N, C = 5, 150
    args = (wave(N, C), wave(C, seed=2), wave(C, seed=3), np.zeros((N, C), np.float32), np.zeros(N, np.float32))
    return N, (*args, np.zeros(N, np.float32), C, np.float32(EPS))


@register((NT,), _example_fwd)
@kernel
def k_layernorm_fwd(inp, gamma, beta, out, mean, rstd, C, eps):
    """Layer normalisation of a row.

    Maths: xhat = (inp - mean) * rstd, rstd = 1 / sqrt(variance + eps), out = xhat * gamma + beta.
    Shapes: inp, out (N, C); gamma, beta (C,); mean, rstd (N,).
    Threads: block n owns row n; thread t takes columns t, t + 32, ...
    Shared memory: 32 floats, for the tree that adds the threads' sums.
    Reads + writes: reads inp 3 N C, gamma and beta N C each; writes out N C, mean and rstd N each. A row is read for
    its mean, its variance and its result.
    Saves: mean and rstd; with inp they give xhat again.
    Changed: against a one-pass version, the variance is summed from (inp - mean), so a large mean cancels nothing.
    """
    row = cuda.blockIdx.x
    tx = cuda.threadIdx.x
    sums = cuda.shared.array(NT, float32)
    acc = float32(0.0)
    for j in range(tx, C, NT):
        acc += inp[row, j]
    sums[tx] = acc
    cuda.syncthreads()
    s = NT // 2
    while s > 0:
        if tx < s:
            sums[tx] += sums[tx + s]
        cuda.syncthreads()
        s //= 2
    mu = sums[0] / float32(C)
    cuda.syncthreads()
    acc = float32(0.0)
    for j in range(tx, C, NT):
        d = inp[row, j] - mu
        acc += d * d
    sums[tx] = acc
    cuda.syncthreads()
    s = NT // 2
    while s > 0:
        if tx < s:
            sums[tx] += sums[tx + s]
        cuda.syncthreads()
        s //= 2
    rs = float32(1.0) / math.sqrt(sums[0] / float32(C) + eps)
    for j in range(tx, C, NT):
        out[row, j] = (inp[row, j] - mu) * rs * gamma[j] + beta[j]
    if tx == 0:
        mean[row] = mu
        rstd[row] = rs


def _example_bwd(block):
    N, C = 9, 140
    args = (wave(N, C), wave(C, seed=2), wave(N, seed=3), wave(N, seed=4), wave(N, C, seed=5), wave(N, C, seed=6))
    return N + cdiv(C, NT), (*args, wave(C, seed=7), wave(C, seed=8), N, C)


@register((NT,), _example_bwd)
@kernel
def k_layernorm_bwd(inp, gamma, mean, rstd, dout, dinp, dgamma, dbeta, N, C):
    """All three gradients of layer normalisation in one launch.

    Maths: with d = dout * gamma, dinp += rstd * (d - mean(d) - xhat * mean(d * xhat)) and, summed over the rows,
    dgamma += dout * xhat, dbeta += dout.
    Shapes: inp, dout, dinp (N, C); gamma, dgamma, dbeta (C,); mean, rstd (N,).
    Threads: both jobs in one launch, by the block's role. Block n < N owns row n of dinp; block N + b owns the
    columns 32 b to 32 b + 31 of dgamma and dbeta, a thread walks its column row by row.
    Shared memory: 2 x 32 floats, for the trees of a row's two means.
    Reads + writes: reads inp and dout 3 N C each, gamma 2 N C, mean and rstd N (C + 32) each, dinp N C,
    dgamma and dbeta C each; writes dinp N C, dgamma and dbeta C each. Of the 3 readings two are by the row blocks, one
    by the column blocks.
    Saves: nothing; uses mean and rstd from forward (and inp).
    Changed: against the version with atomics, nobody shares a sum, so the order of every addition is fixed.
    """
    tx = cuda.threadIdx.x
    sum1 = cuda.shared.array(NT, float32)
    sum2 = cuda.shared.array(NT, float32)
    if cuda.blockIdx.x < N:
        row = cuda.blockIdx.x
        mu = mean[row]
        rs = rstd[row]
        a = float32(0.0)
        b = float32(0.0)
        for j in range(tx, C, NT):
            d = dout[row, j] * gamma[j]
            a += d
            b += d * ((inp[row, j] - mu) * rs)
        sum1[tx] = a
        sum2[tx] = b
        cuda.syncthreads()
        s = NT // 2
        while s > 0:
            if tx < s:
                sum1[tx] += sum1[tx + s]
                sum2[tx] += sum2[tx + s]
            cuda.syncthreads()
            s //= 2
        mean_d = sum1[0] / float32(C)
        along = sum2[0] / float32(C)
        for j in range(tx, C, NT):
            xhat = (inp[row, j] - mu) * rs
            dinp[row, j] += rs * (dout[row, j] * gamma[j] - mean_d - xhat * along)
    else:
        col = (cuda.blockIdx.x - N) * NT + tx
        if col < C:
            dg = float32(0.0)
            db = float32(0.0)
            for r in range(N):
                d = dout[r, col]
                dg += d * ((inp[r, col] - mean[r]) * rstd[r])
                db += d
            dgamma[col] += dg
            dbeta[col] += db


def _example_dinp(block):
    N, C = 5, 150
    args = (wave(N, C), wave(C, seed=2), wave(N, seed=3), wave(N, seed=4), wave(N, C, seed=5), wave(N, C, seed=6))
    return N, (*args, C)


@register((NT,), _example_dinp)
@kernel
def k_layernorm_dinp(inp, gamma, mean, rstd, dout, dinp, C):
    """The first job of k_layernorm_bwd alone.

    Maths: with d = dout * gamma, dinp += rstd * (d - mean(d) - xhat * mean(d * xhat)).
    Shapes: inp, dout, dinp (N, C); gamma (C,); mean, rstd (N,).
    Threads: block n owns row n; thread t takes columns t, t + 32, ...
    Shared memory: 2 x 32 floats.
    Reads + writes: reads inp, dout and gamma 2 N C each, mean and rstd 32 N each, dinp N C; writes dinp N C.
    Saves: nothing.
    """
    row = cuda.blockIdx.x
    tx = cuda.threadIdx.x
    sum1 = cuda.shared.array(NT, float32)
    sum2 = cuda.shared.array(NT, float32)
    mu = mean[row]
    rs = rstd[row]
    a = float32(0.0)
    b = float32(0.0)
    for j in range(tx, C, NT):
        d = dout[row, j] * gamma[j]
        a += d
        b += d * ((inp[row, j] - mu) * rs)
    sum1[tx] = a
    sum2[tx] = b
    cuda.syncthreads()
    s = NT // 2
    while s > 0:
        if tx < s:
            sum1[tx] += sum1[tx + s]
            sum2[tx] += sum2[tx + s]
        cuda.syncthreads()
        s //= 2
    mean_d = sum1[0] / float32(C)
    along = sum2[0] / float32(C)
    for j in range(tx, C, NT):
        xhat = (inp[row, j] - mu) * rs
        dinp[row, j] += rs * (dout[row, j] * gamma[j] - mean_d - xhat * along)


def _example_dparam(block):
    N, C = 75, 40
    args = (wave(N, C), wave(N, seed=3), wave(N, seed=4), wave(N, C, seed=5), wave(C, seed=7), wave(C, seed=8))
    return cdiv(C, COLS), (*args, N, C)


@register(((COLS, SLICES),), _example_dparam)
@kernel
def k_layernorm_dparam(inp, mean, rstd, dout, dgamma, dbeta, N, C):
    """The second job of k_layernorm_bwd alone.

    Maths: dgamma += sum dout * xhat; dbeta += sum dout, over the rows.
    Shapes: inp, dout (N, C); mean, rstd (N,); dgamma, dbeta (C,).
    Threads: block b owns columns 32 b to 32 b + 31; thread (x, y) adds rows y, y + 8, ... of column x, then a tree
    adds the eight parts.
    Shared memory: 2 x 8 x 32 floats.
    Reads + writes: reads inp, dout, mean and rstd N C each, dgamma and dbeta C each; writes dgamma and dbeta C each.
    Saves: nothing.
    Changed: against the column walk in k_layernorm_bwd, eight times as many threads share the rows.
    """
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    col = cuda.blockIdx.x * COLS + tx
    part1 = cuda.shared.array((SLICES, COLS), float32)
    part2 = cuda.shared.array((SLICES, COLS), float32)
    dg = float32(0.0)
    db = float32(0.0)
    if col < C:
        for r in range(ty, N, SLICES):
            d = dout[r, col]
            dg += d * ((inp[r, col] - mean[r]) * rstd[r])
            db += d
    part1[ty, tx] = dg
    part2[ty, tx] = db
    cuda.syncthreads()
    s = SLICES // 2
    while s > 0:
        if ty < s:
            part1[ty, tx] += part1[ty + s, tx]
            part2[ty, tx] += part2[ty + s, tx]
        cuda.syncthreads()
        s //= 2
    if ty == 0 and col < C:
        dgamma[col] += part1[0, tx]
        dbeta[col] += part2[0, tx]


def _example_columns(block):
    N, C = 75, 1500
    args = (wave(N, C), wave(N, seed=3), wave(N, seed=4), wave(N, C, seed=5), wave(C, seed=7), wave(C, seed=8))
    return cdiv(C, block), (*args, N, C)


@register(ANY_BLOCK, _example_columns)
@kernel
def k_layernorm_columns(inp, mean, rstd, dout, dgamma, dbeta, N, C):
    """The second job of k_layernorm_bwd alone, as a processor likes it.

    Maths: dgamma += sum dout * xhat; dbeta += sum dout, over the rows.
    Shapes: inp, dout (N, C); mean, rstd (N,); dgamma, dbeta (C,).
    Threads: a column a thread, row after row.
    Shared memory: none.
    Reads + writes: reads inp, dout, mean and rstd N C each, dgamma and dbeta C each; writes dgamma and dbeta C each.
    Saves: nothing.
    Changed: against k_layernorm_dparam, a block as wide as the row reads whole rows one after the other, which a
    processor fetches ahead; a GPU would have too few threads.
    """
    col = cuda.grid(1)
    if col < C:
        dg = float32(0.0)
        db = float32(0.0)
        for r in range(N):
            d = dout[r, col]
            dg += d * ((inp[r, col] - mean[r]) * rstd[r])
            db += d
        dgamma[col] += dg
        dbeta[col] += db


def _example_atomic(block):
    N, C = 9, 140
    args = (wave(N, C), wave(C, seed=2), wave(N, seed=3), wave(N, seed=4), wave(N, C, seed=5), wave(N, C, seed=6))
    return N, (*args, wave(C, seed=7), wave(C, seed=8), C)


@register((NT,), _example_atomic, teaching=True)
@kernel
def k_layernorm_bwd_atomic(inp, gamma, mean, rstd, dout, dinp, dgamma, dbeta, C):
    """The sums of k_layernorm_bwd the short way, with atomics; for lessons only.

    Maths: as k_layernorm_bwd; every row adds to dgamma and dbeta as it comes.
    Shapes: inp, dout, dinp (N, C); gamma, dgamma, dbeta (C,); mean, rstd (N,).
    Threads: block n owns row n; thread t takes columns t, t + 32, ...
    Shared memory: 2 x 32 floats.
    Reads + writes: reads inp and gamma 2 N C each, dout 4 N C, mean and rstd 32 N each, dinp N C; writes dinp N C;
    atomics dgamma and dbeta N C each.
    Saves: nothing.
    Changed: against k_layernorm_bwd, inp and dout are read less often, but the rows reach dgamma in whatever order
    the GPU runs its blocks, and a float sum depends on its order: two runs may differ in the last bits.
    """
    row = cuda.blockIdx.x
    tx = cuda.threadIdx.x
    sum1 = cuda.shared.array(NT, float32)
    sum2 = cuda.shared.array(NT, float32)
    mu = mean[row]
    rs = rstd[row]
    a = float32(0.0)
    b = float32(0.0)
    for j in range(tx, C, NT):
        xhat = (inp[row, j] - mu) * rs
        d = dout[row, j] * gamma[j]
        a += d
        b += d * xhat
        cuda.atomic.add(dgamma, j, dout[row, j] * xhat)
        cuda.atomic.add(dbeta, j, dout[row, j])
    sum1[tx] = a
    sum2[tx] = b
    cuda.syncthreads()
    s = NT // 2
    while s > 0:
        if tx < s:
            sum1[tx] += sum1[tx + s]
            sum2[tx] += sum2[tx + s]
        cuda.syncthreads()
        s //= 2
    mean_d = sum1[0] / float32(C)
    along = sum2[0] / float32(C)
    for j in range(tx, C, NT):
        xhat = (inp[row, j] - mu) * rs
        dinp[row, j] += rs * (dout[row, j] * gamma[j] - mean_d - xhat * along)


def forward(inp, gamma, beta, out, mean, rstd, eps=EPS):
    """Launches of out = layernorm(inp); writes out, mean, rstd. One kernel is the production path too."""
    N, C = inp.shape
    return [k_layernorm_fwd[N, NT].bind(inp, gamma, beta, out, mean, rstd, C, np.float32(eps))]


def backward(inp, gamma, mean, rstd, dout, dinp, dgamma, dbeta):
    """Launches that add to dinp, dgamma and dbeta: on a GPU two, else one in which columns and rows share threads."""
    return backward_for("cuda" if current() == "cuda" else "cpu", inp, gamma, mean, rstd, dout, dinp, dgamma, dbeta)


def backward_for(target, inp, gamma, mean, rstd, dout, dinp, dgamma, dbeta):
    """`backward` as it is on the target "cpu" or "cuda"; both run on both."""
    N, C = inp.shape
    sums = (inp, mean, rstd, dout, dgamma, dbeta, N, C)
    rows = [k_layernorm_dinp[N, NT].bind(inp, gamma, mean, rstd, dout, dinp, C)]
    if target == "cuda":
        return [*rows, k_layernorm_dparam[cdiv(C, COLS), (COLS, SLICES)].bind(*sums)]
    block = row_block(C)
    return together([k_layernorm_columns[cdiv(C, block), block].bind(*sums)], rows)


def named_backward(inp, gamma, mean, rstd, dout, dinp, dgamma, dbeta):
    """One launch of k_layernorm_bwd, which adds to dinp, dgamma and dbeta."""
    N, C = inp.shape
    launch = k_layernorm_bwd[N + cdiv(C, NT), NT]
    return [launch.bind(inp, gamma, mean, rstd, dout, dinp, dgamma, dbeta, N, C)]


PAIR = Pair(
    "layernorm",
    k_layernorm_fwd,
    k_layernorm_bwd,
    forward,
    backward,
    named_forward=forward,
    named_backward=named_backward,
    saved=("inp", "mean", "rstd"),
    folds=("ln1", "ln2", "ln_f"),
)
PAIRS = (PAIR,)
FINE = (PAIR.fine("ln1"), PAIR.fine("ln2"), PAIR.fine("ln_f"))
