"""Races inside one block, through shared memory: missing barriers, slipped buffers, overlapping arrays."""

import numpy as np
from bugs_common import bins, bug, ramp, zeros
from numba import cuda, float32, int32


# The CUDA guide's first example of a barrier: everyone reads what a neighbour wrote.
@bug("race", 1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: x[::-1])
def reverse_without_barrier(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # BUG
    y[t] = s[63 - t]


# Harris, Optimizing Parallel Reduction: the barrier belongs inside the loop.
@bug("race", 1, 128, lambda: (ramp(128), zeros(1)), want=lambda x, o: x.sum(keepdims=True))
def tree_without_barrier_in_loop(x, o):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    k = 64
    while k > 0:
        if t < k:
            s[t] += s[t + k]  # BUG
        k //= 2
    cuda.syncthreads()
    if t == 0:
        o[0] = s[0]


# The interleaved tree, its barrier put before the load instead of after it.
@bug("race", 1, 64, lambda: (ramp(64), zeros(1)), want=lambda x, o: x.sum(keepdims=True))
def interleaved_tree_barrier_too_early(x, o):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    cuda.syncthreads()
    s[t] = x[t]  # BUG
    k = 1
    while k < 64:
        if t % (2 * k) == 0:
            s[t] += s[t + k]
        k *= 2
        cuda.syncthreads()
    if t == 0:
        o[0] = s[0]


# The tree is right, its last sum is read by everyone without a last barrier.
@bug("race", 1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: np.full(64, x.sum()))
def sum_read_before_it_is_there(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    k = 32
    while k > 0:
        cuda.syncthreads()
        if t < k:
            s[t] += s[t + k]  # BUG
        k //= 2
    y[t] = x[t] - x[t] + s[0]


# The tiled product with its second barrier forgotten: a fast warp overwrites a tile that a slow one still reads.
@bug("race", (2, 2), (8, 8), lambda: (ramp(16, 16), ramp(16, 16), zeros(16, 16)), want=lambda a, b, c: a @ b)
def product_without_second_barrier(a, b, c):
    sa = cuda.shared.array((8, 8), float32)
    sb = cuda.shared.array((8, 8), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    acc = float32(0)
    for tile in range(2):
        sa[ty, tx] = a[row, tile * 8 + tx]  # BUG
        sb[ty, tx] = b[tile * 8 + ty, col]
        cuda.syncthreads()
        for k in range(8):
            acc += sa[ty, k] * sb[k, tx]
    c[row, col] = acc


# The same, learner's form: guards everywhere, the barrier between tiles commented out because the check passed anyway.
@bug("race", (2, 2), (3, 3), lambda: (ramp(5, 5), ramp(5, 5), zeros(5, 5), 5), out=2, want=lambda a, b, c, n: a @ b)
def puzzle_product_without_second_barrier(a, b, c, n):
    sa = cuda.shared.array((3, 3), float32)
    sb = cuda.shared.array((3, 3), float32)
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    j = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    li, lj = cuda.threadIdx.x, cuda.threadIdx.y
    acc = float32(0)
    for tile in range((n + 2) // 3):
        if i < n and tile * 3 + lj < n:
            sa[li, lj] = a[i, tile * 3 + lj]
        if tile * 3 + li < n and j < n:
            sb[li, lj] = b[tile * 3 + li, j]
        cuda.syncthreads()
        if i < n and j < n:
            for k in range(min(3, n - tile * 3)):
                acc += sa[li, k] * sb[k, lj]  # BUG
    if i < n and j < n:
        c[i, j] = acc


# Hillis and Steele's scan in one buffer: the neighbour may already have been added to.
@bug("race", 1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: np.cumsum(x))
def scan_in_one_buffer(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    d = 1
    while d < 64:
        if t >= d:
            s[t] += s[t - d]  # BUG
        cuda.syncthreads()
        d *= 2
    y[t] = s[t]


# Two buffers, but the flag that swaps them is turned only every other round.
@bug("race", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.cumsum(x))
def scan_with_slipped_buffers(x, y):
    s = cuda.shared.array((2, 32), float32)
    t = cuda.threadIdx.x
    s[0, t] = x[t]
    s[1, t] = x[t]
    cuda.syncthreads()
    d = 1
    turn = 0
    while d < 32:
        src = turn // 2 % 2
        dst = (turn + 1) // 2 % 2
        if t >= d:
            s[dst, t] = s[src, t] + s[src, t - d]  # BUG
        else:
            s[dst, t] = s[src, t]
        cuda.syncthreads()
        turn += 1
        d *= 2
    y[t] = s[0, t]


# Prefetching: the next tile is loaded into the buffer that is being read.
@bug("race", 1, 32, lambda: (ramp(4, 32), zeros(32)), want=lambda x, y: x[:, ::-1].sum(axis=0))
def prefetch_into_the_buffer_in_use(x, y):
    s = cuda.shared.array((2, 32), float32)
    t = cuda.threadIdx.x
    acc = float32(0)
    s[0, t] = x[0, t]
    cuda.syncthreads()
    for k in range(4):
        if k < 3:
            s[k % 2, t] = x[k + 1, t]  # BUG
        acc += s[k % 2, 31 - t]
        cuda.syncthreads()
    y[t] = acc


# Pooling over three neighbours, summed up in place.
@bug("race", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.convolve(x, np.ones(3))[:32])
def pooling_in_place(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    if t >= 2:
        s[t] = s[t] + s[t - 1] + s[t - 2]  # BUG
    elif t == 1:
        s[t] = s[t] + s[t - 1]
    cuda.syncthreads()
    y[t] = s[t]


# Bins are cleared by the first threads, counted into by all, nothing between.
@bug("race", 1, 64, lambda: (bins(64, 8), zeros(8, dtype=np.int32)), want=lambda x, o: np.bincount(x, minlength=8))
def bins_cleared_without_barrier(x, o):
    h = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        h[t] = 0  # BUG
    cuda.atomic.add(h, x[t], 1)
    cuda.syncthreads()
    if t < 8:
        o[t] = h[t]


# Bins are counted by all, flushed by the first threads, nothing between.
@bug("race", 1, 64, lambda: (bins(64, 8), zeros(8, dtype=np.int32)), want=lambda x, o: np.bincount(x, minlength=8))
def bins_flushed_without_barrier(x, o):
    h = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        h[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(h, x[t], 1)
    if t < 8:
        o[t] = h[t]  # BUG


# One thread computes, all read.
@bug("race", 1, 96, lambda: (ramp(96), zeros(96)), want=lambda x, y: x / x[0])
def broadcast_without_barrier(x, y):
    s = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = float32(1) / x[0]  # BUG
    y[t] = x[t] * s[0]


# The same with a barrier, in a loop: the next round's value is written while this round's is read.
@bug("race", 1, 64, lambda: (ramp(4), zeros(64)), want=lambda x, y: np.full(64, x.sum()))
def broadcast_again_without_barrier(x, y):
    s = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    acc = float32(0)
    for r in range(4):
        if t == 0:
            s[0] = x[r]  # BUG
        cuda.syncthreads()
        acc += s[0]
    y[t] = acc


# Softmax: the array of the maximum is used again for the sum before everyone has read the maximum.
@bug("race", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: x.max() * x.sum() + 0 * x)
def scratch_of_two_reductions(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    k = 16
    while k > 0:
        if t < k:
            s[t] = max(s[t], s[t + k])
        cuda.syncthreads()
        k //= 2
    top = s[0]
    s[t] = x[t]  # BUG
    cuda.syncthreads()
    k = 16
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        cuda.syncthreads()
        k //= 2
    y[t] = top * s[0]


# The transposing tile of the CUDA guide, without its barrier.
@bug("race", 1, (16, 16), lambda: (ramp(16, 16), zeros(16, 16)), want=lambda x, y: x.T)
def transpose_without_barrier(x, y):
    tile = cuda.shared.array((16, 17), float32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    tile[j, i] = x[j, i]
    y[j, i] = tile[i, j]  # BUG


# A stencil whose edge threads load the halo after the barrier.
@bug("race", 1, 32, lambda: (ramp(34), zeros(32)), want=lambda x, y: x[:-2] + x[2:])
def halo_loaded_after_the_barrier(x, y):
    s = cuda.shared.array(34, float32)
    t = cuda.threadIdx.x
    s[t + 1] = x[t + 1]
    cuda.syncthreads()
    if t == 0:
        s[0] = x[0]
        s[33] = x[33]  # BUG
    y[t] = s[t] + s[t + 2]


# Two dynamic shared arrays: both begin at byte 0.
@bug("race", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: x, dynamic=256)
def dynamic_arrays_overlap(x, y):
    a = cuda.shared.array(0, float32)
    b = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    a[t] = x[t]
    b[31 - t] = float32(0)  # BUG
    cuda.syncthreads()
    y[t] = a[t] + b[t]


# A flat tile with the wrong pitch: the last element of a row is the first of the next.
@bug("race", 1, (8, 8), lambda: (ramp(8, 8), zeros(8, 8)), want=lambda x, y: x.T)
def rows_of_a_flat_tile_overlap(x, y):
    s = cuda.shared.array(64, float32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    s[j * 7 + i] = x[j, i]  # BUG
    cuda.syncthreads()
    y[j, i] = s[i * 7 + j]


# Odd-even transposition sort: no barrier between the phases.
@bug("race", 1, 16, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.sort(x))
def sort_without_barrier_between_phases(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    s[t + 16] = x[t + 16]
    cuda.syncthreads()
    for phase in range(32):
        i = 2 * t + phase % 2
        if i + 1 < 32 and s[i] > s[i + 1]:
            low = s[i + 1]
            s[i + 1] = s[i]  # BUG
            s[i] = low
    cuda.syncthreads()
    y[t] = s[t]
    y[t + 16] = s[t + 16]


# A barrier of a warp where two warps meet.
@bug("race", 1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: np.roll(x, 32))
def syncwarp_between_two_warps(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # BUG
    cuda.syncwarp()
    y[t] = s[(t + 32) % 64]


# A buffer of partial sums, one slot a warp, but the slot is the warp's number within half a block.
@bug("race", 1, 128, lambda: (ramp(128), zeros(1)), want=lambda x, o: x[::32].sum(keepdims=True))
def two_warps_share_a_slot(x, o):
    s = cuda.shared.array(2, float32)
    t = cuda.threadIdx.x
    if t % 32 == 0:
        s[t // 32 % 2] = x[t]  # BUG
    cuda.syncthreads()
    if t == 0:
        o[0] = s[0] + s[1]


# The barrier of a loop was moved out of it, together with the load.
@bug("race", 1, 32, lambda: (ramp(3, 32), zeros(32)), want=lambda x, y: x.sum(axis=0)[::-1])
def barrier_hoisted_out_of_the_loop(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    acc = float32(0)
    cuda.syncthreads()
    for r in range(3):
        s[t] = x[r, t]
        acc += s[31 - t]  # BUG
    y[t] = acc


# A row as a view of a tile: the other half of the block still writes it.
@bug("race", 1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: np.roll(x, 32))
def row_of_the_other_half(x, y):
    s = cuda.shared.array((2, 32), float32)
    t = cuda.threadIdx.x
    mine = s[t // 32]
    mine[t % 32] = x[t]
    other = s[1 - t // 32]
    y[t] = other[t % 32]  # BUG


def _put(s, i, v):
    s[i] = v  # BUG


put = cuda.jit(device=True)(_put)


# The write is in a device function, the missing barrier in the kernel.
@bug("race", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: x[::-1], marked=_put)
def write_in_a_device_function(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    put(s, t, x[t])
    y[t] = s[31 - t]


# A tile of two dimensions in a block of three: every layer writes it.
@bug("race", 1, (4, 4, 4), lambda: (ramp(4, 4, 4), zeros(4, 4, 4)), want=lambda x, y: x)
def layers_of_a_block_share_a_tile(x, y):
    s = cuda.shared.array((4, 4), float32)
    i, j, k = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
    s[j, i] = x[k, j, i]  # BUG
    cuda.syncthreads()
    y[k, j, i] = s[j, i]
