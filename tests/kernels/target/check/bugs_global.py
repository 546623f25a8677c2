"""Races through global memory: lost updates, blocks that need each other, missing fences, arguments that overlap."""

import numpy as np
from bugs_common import bins, bug, ints, ramp, zeros
from numba import cuda, float32, int32


# The first thing everyone tries: all threads add to one cell.
@bug("lost_update", 1, 64, lambda: (ramp(64), zeros(1)), want=lambda x, o: x.sum(keepdims=True))
def sum_into_one_cell(x, o):
    o[0] += x[cuda.grid(1)]  # BUG


@bug("lost_update", 4, 32, lambda: (bins(128, 7), zeros(7, dtype=np.int32)), want=lambda x, h: np.bincount(x))
def histogram_without_atomic(x, h):
    i = cuda.grid(1)
    h[x[i]] = h[x[i]] + 1  # BUG


@bug("lost_update", 1, 64, lambda: (bins(64, 8), zeros(8, dtype=np.int32)), want=lambda x, o: np.bincount(x))
def shared_histogram_without_atomic(x, o):
    h = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        h[t] = 0
    cuda.syncthreads()
    h[x[t]] += 1  # BUG
    cuda.syncthreads()
    if t < 8:
        o[t] = h[t]


# Inside a block all is well; the blocks' sums are added without atomic.
@bug("lost_update", 4, 32, lambda: (ramp(128), zeros(1)), want=lambda x, o: x.sum(keepdims=True))
def sums_of_blocks_without_atomic(x, o):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    k = 16
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        cuda.syncthreads()
        k //= 2
    if t == 0:
        o[0] += s[0]  # BUG


# The backward of an embedding: a token that comes twice adds to one row twice.
@bug("lost_update", (1, 6), 16, lambda: (ints(3, 1, 3, 0, 1, 3), ramp(6, 16), zeros(4, 16)),
     want=lambda tok, d, dw: np.stack([d[tok == v].sum(axis=0) for v in range(4)]))  # fmt: skip
def embedding_gradient_without_atomic(tokens, dout, dwte):
    c, n = cuda.grid(2)
    dwte[tokens[n], c] += dout[n, c]  # BUG


# The gradient of a bias: one thread an element of the input, all rows into one vector.
@bug("lost_update", 1, (8, 8), lambda: (ramp(8, 8), zeros(8)), want=lambda d, b: d.sum(axis=0))
def bias_gradient_without_atomic(dout, db):
    i, j = cuda.grid(2)
    db[i] += dout[j, i]  # BUG


# Blocks step by half a block: every element is someone's twice.
@bug("lost_update", 3, 32, lambda: (ramp(64), zeros(64)), want=lambda x, y: x)
def blocks_overlap_by_half(x, y):
    i = cuda.blockIdx.x * 16 + cuda.threadIdx.x
    y[i] += x[i]  # BUG


# Compaction: the counter is read and raised in two steps.
@bug(("race", "lost_update"), 1, 64, lambda: (ramp(64), zeros(64), ints(0)), out=2, group="lost_update",
     want=lambda x, y, n: [np.sum(x > 9)])  # fmt: skip
def compaction_with_a_plain_counter(x, y, n):
    i = cuda.grid(1)
    if x[i] > 9:
        y[n[0]] = x[i]
        n[0] += 1  # BUG


# The largest value, by compare and store.
@bug(("race", "lost_update"), 2, 32, lambda: (ramp(64), zeros(1)), want=lambda x, m: x.max(keepdims=True), group="race")
def maximum_by_compare_and_store(x, m):
    i = cuda.grid(1)
    if x[i] > m[0]:
        m[0] = x[i]  # BUG


# The first place of a value, every finder writes its own.
@bug("race", 2, 32, lambda: (ramp(64), ints(-1)), want=lambda x, o: [np.argmax(x == 8)])
def every_finder_writes_its_place(x, o):
    i = cuda.grid(1)
    if x[i] == 8:
        o[0] = i  # BUG


# In place, reading the neighbour.
@bug("race", 1, 64, lambda: (ramp(65),), want=lambda x: np.append(0.5 * (x[:-1] + x[1:]), x[-1]))
def smoothing_in_place(x):
    i = cuda.grid(1)
    x[i] = float32(0.5) * (x[i] + x[i + 1])  # BUG


# The same through two arguments that are one array.
def one_array_twice():
    x = ramp(65)
    return x, x


@bug("race", 1, 64, one_array_twice, out=1, want=lambda x, y: np.append(x[0], x[:-1] + x[1:]))
def arguments_are_one_array(x, y):
    i = cuda.grid(1) + 1
    y[i] = x[i] + x[i - 1]  # BUG


# And through two windows of one array.
def windows_of_one_array():
    x = ramp(80)
    return x[:64], x[8:72]


@bug("race", 1, 64, windows_of_one_array, out=1, want=lambda a, b: a + 1)
def arguments_are_windows_of_one_array(a, b):
    i = cuda.grid(1)
    b[i] = a[i] + float32(1)  # BUG


# A barrier is a block's: it does not make other blocks wait.
@bug("race", 2, 32, lambda: (ramp(64), zeros(64), zeros(64)), want=lambda x, t, y: 2 * x[::-1])
def barrier_taken_for_a_grid_barrier(x, tmp, y):
    i = cuda.grid(1)
    tmp[i] = x[i] * float32(2)  # BUG
    cuda.syncthreads()
    y[i] = tmp[63 - i]


# Jacobi's rounds in one launch of several blocks.
def jacobi(u, v):
    for _ in range(4):
        v[1:-1] = (u[:-2] + u[2:]) / 2
        u, v = v, u
    return u


@bug("race", 2, 32, lambda: (ramp(66), ramp(66)), out=0, want=jacobi)
def rounds_in_one_launch(u, v):
    i = cuda.grid(1) + 1
    for _ in range(2):
        v[i] = float32(0.5) * (u[i - 1] + u[i + 1])  # BUG
        cuda.syncthreads()
        u[i] = float32(0.5) * (v[i - 1] + v[i + 1])
        cuda.syncthreads()


# Prefix sums of blocks: each block reads the total of the block before it.
@bug("race", 3, 32, lambda: (ramp(96), zeros(96)), want=lambda x, y: np.cumsum(x))
def total_of_the_block_before(x, y):
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    if t == 0:
        acc = float32(0)
        if b > 0:
            acc = y[b * 32 - 1]  # BUG
        for k in range(32):
            acc += x[b * 32 + k]
            y[b * 32 + k] = acc


# The last block adds up, as in the guide's threadFenceReduction, but the fence is missing.
@bug("race", 4, 32, lambda: (ramp(128), zeros(4), ints(0), zeros(1)), want=lambda x, p, c, o: [x[::32].sum()])
def last_block_without_fence(x, part, count, o):
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        part[cuda.blockIdx.x] = x[cuda.blockIdx.x * 32]  # BUG
        last[0] = cuda.atomic.add(count, 0, 1)
    cuda.syncthreads()
    if last[0] == cuda.gridDim.x - 1 and t == 0:
        acc = float32(0)
        for b in range(cuda.gridDim.x):
            acc += part[b]
        o[0] = acc


# The fence is there, but it comes after the count.
@bug("race", 4, 1, lambda: (ramp(4), zeros(4), ints(0), zeros(1)), want=lambda x, p, c, o: [x.sum()])
def fence_after_the_count(x, part, count, o):
    b = cuda.blockIdx.x
    part[b] = x[b]  # BUG
    before = cuda.atomic.add(count, 0, 1)
    cuda.threadfence()
    if before == cuda.gridDim.x - 1:
        acc = float32(0)
        for k in range(cuda.gridDim.x):
            acc += part[k]
        o[0] = acc


# Every thread writes, one thread fences: the others' writes are not behind its fence.
@bug("race", 4, 32, lambda: (ramp(128), zeros(128), ints(0), zeros(32)),
     want=lambda x, p, c, o: 2 * x.reshape(4, 32).sum(axis=0))  # fmt: skip
def one_thread_fences_for_all(x, part, count, o):
    last = cuda.shared.array(1, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[i] = x[i] * float32(2)  # BUG
    if t == 0:
        cuda.threadfence()
        last[0] = cuda.atomic.add(count, 0, 1)
    cuda.syncthreads()
    if last[0] == cuda.gridDim.x - 1:
        acc = float32(0)
        for b in range(cuda.gridDim.x):
            acc += part[b * 32 + t]
        o[t] = acc


# CUDA by Example's lock, opened with a plain store.
@bug(("race", "lost_update"), 4, 1, lambda: (ints(0), ramp(4), zeros(1)), want=lambda k, x, o: [x.sum()], group="race")
def lock_opened_by_a_plain_store(lock, x, o):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    o[0] += x[cuda.blockIdx.x]
    cuda.threadfence()
    lock[0] = 0  # BUG


# The lock is right, the fences around what it guards are missing.
@bug(("race", "lost_update"), 4, 1, lambda: (ints(0), ramp(4), zeros(1)), want=lambda k, x, o: [x.sum()], group="race")
def lock_without_fences(lock, x, o):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    o[0] += x[cuda.blockIdx.x]  # BUG
    cuda.atomic.exch(lock, 0, 0)


# A counter raised by atomics is read plainly in the same breath.
@bug("race", 1, 64, lambda: (ints(0), zeros(64, dtype=np.int32)), want=lambda c, y: np.full(64, 64))
def counter_read_while_it_is_raised(c, y):
    t = cuda.threadIdx.x
    cuda.atomic.add(c, 0, 1)
    y[t] = c[0]  # BUG


# A work queue whose counter is put back to zero by whoever comes first.
@bug("race", 2, 32, lambda: (ints(7), zeros(64, dtype=np.int32)), out=0, want=lambda c, y: [64])
def counter_cleared_by_the_same_launch(c, y):
    i = cuda.grid(1)
    if i == 0:
        c[0] = 0  # BUG
    y[i] = cuda.atomic.add(c, 0, 1)


# Global memory inside one block is no different from shared memory.
@bug("race", 1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: x + np.roll(x, 1))
def neighbour_in_global_memory(x, y):
    t = cuda.threadIdx.x
    y[t] = x[t]
    y[t] = y[t] + x[(t + 63) % 64] + y[(t + 1) % 64] - x[(t + 1) % 64]  # BUG


# All write one flag, all the same value: formally a race, harmless on every card so far.
@bug("same_value", 2, 32, lambda: (ramp(64), ints(0)), want=lambda x, o: [1])
def all_write_one_flag(x, o):
    i = cuda.grid(1)
    if x[i] > 3:
        o[0] = 1  # BUG


@bug("same_value", 1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: x * x[0])
def all_write_one_scale(x, y):
    s = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    s[0] = x[0]  # BUG
    cuda.syncthreads()
    y[t] = x[t] * s[0]


@bug("same_value", 1, 32, lambda: (bins(32, 8), np.zeros(8, bool)), want=lambda x, seen: np.full(8, True))
def all_tick_the_values_they_have_seen(x, seen):
    seen[x[cuda.grid(1)]] = True  # BUG
