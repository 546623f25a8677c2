"""Kernels whose meaning test_target_semantics.py checks on the CPU target."""

import math

from numba import cuda, float32, int32

from kernels.target import device, kernel

SIZE = 64


@device
def square(v):
    return v * v


@device
def norm(v, w):
    if v > w:
        return math.sqrt(square(v) + square(w))
    return square(v) + square(w)


@device
def fill(a, k, v):
    a[k] = v


@kernel
def k_device(x, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = norm(x[i], float32(2))


@kernel
def k_device_array(x, out):
    a = cuda.local.array(4, float32)
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    for j in range(4):
        fill(a, j, x[t] + float32(j))
    fill(s, t, a[3])
    cuda.syncthreads()
    out[t] = s[63 - t] + a[0]


@kernel
def k_neighbours(x, out):
    s = cuda.shared.array(SIZE, float32)
    t = cuda.threadIdx.x
    v = x[t]
    s[t] = v
    cuda.syncthreads()
    if t % 2 == 0:
        v = s[t + 1] * float32(10)
    else:
        w = v + float32(1)
        v = s[t - 1] + w * float32(0)
    cuda.syncthreads()
    out[t] = v


@kernel
def k_box(x, out):
    s = cuda.shared.array((2, 4, 8), float32)
    a, b, c = cuda.threadIdx.z, cuda.threadIdx.y, cuda.threadIdx.x
    s[a, b, c] = x[cuda.blockIdx.x, a, b, c]
    cuda.syncthreads()
    out[cuda.blockIdx.x, a, b, c] = s[1 - a, 3 - b, 7 - c]


@kernel
def k_grid3(out):
    x, y, z = cuda.grid(3)
    gx, gy, gz = cuda.gridsize(3)
    if x < out.shape[2] and y < out.shape[1] and z < out.shape[0]:
        out[z, y, x] = (z * gy + y) * gx + x


@kernel
def k_flat(out):
    x, y = cuda.grid(2)
    out[y, x] = x + 100 * y + 10000 * cuda.threadIdx.y


@kernel
def k_transpose(x, out, n):
    tile = cuda.shared.array((16, 17), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    i = cuda.blockIdx.x * 16 + tx
    j = cuda.blockIdx.y * 16 + ty
    if i < n and j < n:
        tile[ty, tx] = x[j, i]
    else:
        tile[ty, tx] = float32(0)
    cuda.syncthreads()
    i = cuda.blockIdx.y * 16 + tx
    j = cuda.blockIdx.x * 16 + ty
    if i < n and j < n:
        out[j, i] = tile[tx, ty]


@kernel
def k_last(x, out):
    out[cuda.grid(1)] = x[-1] + x[SIZE - 1 - cuda.threadIdx.x]


@kernel
def k_reused(x, out):
    t = cuda.threadIdx.x
    v = t * 2
    out[t, 0] = float32(v)
    v = x[t] * float32(0.5)
    cuda.syncthreads()
    out[t, 1] = v
    n = 3
    for j in range(n):
        n = j
    out[t, 2] = float32(n)
    for j in range(t):
        v = v * float32(j)
    out[t, 3] = float32(t if t == 0 else j)


@kernel
def k_counts(x, hist, first, order, n):
    h = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        h[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(h, x[i] % 8, 1)
        old = cuda.atomic.add(first, 0, 1)
        order[old] = i
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(hist, t, h[t])


@kernel
def k_atomics(x, out, old):
    i = cuda.grid(1)
    v = x[i]
    old[i, 0] = cuda.atomic.max(out, 0, v)
    old[i, 1] = cuda.atomic.min(out, 1, v)
    old[i, 2] = cuda.atomic.sub(out, 2, v)
    old[i, 3] = cuda.atomic.exch(out, 3, v)
    old[i, 4] = cuda.atomic.cas(out, 4, 3, v)
    old[i, 5] = cuda.atomic.or_(out, 5, v)
    old[i, 6] = cuda.atomic.and_(out, 6, v)
    old[i, 7] = cuda.atomic.xor(out, 7, v)
    old[i, 8] = cuda.atomic.inc(out, 8, 5)
    old[i, 9] = cuda.atomic.dec(out, 9, 5)


@kernel
def k_float_atomic(x, total, n):
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(total, 0, x[i])


@kernel
def k_shuffles(x, out):
    t = cuda.threadIdx.x
    v = x[t]
    out[0, t] = cuda.shfl_down_sync(0xFFFFFFFF, v, 3)
    out[1, t] = cuda.shfl_up_sync(0xFFFFFFFF, v, 3)
    out[2, t] = cuda.shfl_xor_sync(0xFFFFFFFF, v, 5)
    out[3, t] = cuda.shfl_sync(0xFFFFFFFF, v, 7)
    total = v
    for k in range(5):
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, 1 << k)
    out[4, t] = total
    half = 16
    while half > 0:
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, half)
        half //= 2
    if t % 32 == 0:
        out[5, t] = v


@kernel
def k_first_warp(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    if t < 32:
        v = s[t] + s[t + 32]
        for k in range(5):
            v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16 >> k)
        if t == 0:
            out[0] = v
    if x[t] > float32(0):
        w = cuda.shfl_sync(0xFFFFFFFF, s[t], cuda.laneid)
        cuda.syncwarp()
        out[1 + t] = w


@kernel
def k_early(x, out, n):
    i = cuda.grid(1)
    if i >= n:
        return
    if x[i] < float32(0):
        out[i] = float32(-1)
        return
    out[i] = x[i]


@kernel
def k_uniform_return(x, out, rows):
    row = cuda.blockIdx.x
    s = cuda.shared.array(32, float32)
    if row >= rows:
        return
    s[cuda.threadIdx.x] = x[row, cuda.threadIdx.x]
    cuda.syncthreads()
    out[row, cuda.threadIdx.x] = s[31 - cuda.threadIdx.x]


@kernel
def k_collatz(x, out, n):
    i = cuda.grid(1)
    if i < n:
        v = x[i]
        steps = 0
        while v != 1 and steps < 200:
            if v % 2 == 0:
                v //= 2
                steps += 1
                continue
            v = 3 * v + 1
            steps += 1
        out[i] = steps
