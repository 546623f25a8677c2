"""Kernels that the tests of the check target's own parts launch."""

import math

import numpy as np
from numba import cuda, float32, int32

from kernels.target import device, kernel

F = np.float32
NT = 128


def ramp(*shape):
    return np.arange(np.prod(shape), dtype=F).reshape(shape)


@kernel
def k_reverse(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    y[t] = s[63 - t]


@kernel
def k_rows(x, y, n):
    """Reads x outside a short row, and a variable that only some threads set."""
    i = cuda.grid(1)
    if x[i] > float32(3.0):
        v = x[i] * 0.5
    if i < n:
        y[i] = v


@device
def block_sum(s, t):
    k = 32
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        cuda.syncthreads()
        k //= 2
    total = s[0]
    cuda.syncthreads()
    return total


@kernel
def k_mean_and_spread(x, y):
    """A device function with barriers, called inside expressions, once in a loop's condition."""
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    row = cuda.blockIdx.x
    s[t] = x[row, t]
    cuda.syncthreads()
    mean = block_sum(s, t) / float32(64.0)
    s[t] = (x[row, t] - mean) * (x[row, t] - mean)
    cuda.syncthreads()
    y[row, t] = (x[row, t] - mean) / math.sqrt(float32(1e-5) + block_sum(s, t) / float32(64.0))
    rounds = 0
    while cuda.syncthreads_or(rounds < 3):
        rounds += 1
    if t == 0:
        y[row, 0] += float32(rounds - 3)


def make_scale(factor, rows):
    """A factory: the kernel closes over a number and the size of an array in registers."""

    @kernel
    def k_scale(x, y):
        held = cuda.local.array(rows, float32)
        i = cuda.grid(1)
        for r in range(rows):
            held[r] = x[r, i]
        for r in range(rows):
            y[r, i] = held[rows - 1 - r] * float32(factor)

    return k_scale


@kernel
def k_shift(x, y):
    i = cuda.grid(1)
    y[i] = x[i + 1]


def k_count(x, counts):
    i = cuda.grid(1)
    if x[i] > float32(0.5):
        counts[0] += 1


def k_sum_by_blocks(x, part, done, out, fenced):
    """The last block adds up; without the fence nobody promises that it sees the others' parts."""
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        part[cuda.blockIdx.x] = x[cuda.grid(1)]
        if fenced:
            cuda.threadfence()
        last[0] = cuda.atomic.add(done, 0, 1)
    cuda.syncthreads()
    if last[0] == cuda.gridDim.x - 1 and t == 0:
        total = float32(0.0)
        for b in range(cuda.gridDim.x):
            total += part[b]
        out[0] = total


def k_triangle(x, y):
    """Blocks pass a barrier a different number of times."""
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    acc = float32(0.0)
    for r in range(cuda.blockIdx.x + 1):
        s[t] = x[r, t]
        cuda.syncthreads()
        acc += s[31 - t]
        cuda.syncthreads()
    y[cuda.blockIdx.x, t] = acc


def k_triangle_wrong(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    acc = float32(0.0)
    for r in range(cuda.blockIdx.x + 1):
        s[t] = x[r, t]
        cuda.syncthreads()
        acc += s[31 - t]
    y[cuda.blockIdx.x, t] = acc


@kernel
def k_atomic_sum(x, out):
    cuda.atomic.add(out, 0, x[cuda.grid(1)])


@kernel
def k_flag(x, found):
    i = cuda.grid(1)
    if x[i] > float32(1.0):
        found[0] = 1


@kernel
def k_warp_tree(x, y):
    """One warp's tree over shared memory, then a shuffle."""
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    v = float32(0.0)
    if t < 16:
        v = s[t] + s[t + 16]
    v += cuda.shfl_xor_sync(0xFFFFFFFF, v, 8)
    cuda.syncthreads()
    y[t] = v


@kernel
def k_layernorm(inp, gamma, beta, out, C, eps):
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
    rstd = float32(1.0) / math.sqrt(sums[0] / float32(C) + eps)
    for j in range(tx, C, NT):
        out[row, j] = (inp[row, j] - mu) * rstd * gamma[j] + beta[j]
