"""Legal kernels that look like mistakes: barriers, warps, atomics, fences, locks."""

import numpy as np
from bugs_common import ints, legal, ramp, zeros
from numba import cuda, float32, int32


# The CUDA guide's threadFenceReduction.
@legal(4, 32, lambda: (ramp(128), zeros(4), ints(0), zeros(1)), want=lambda x, p, c, o: [x.sum()])
def last_block_adds_up(x, part, count, o):
    s = cuda.shared.array(32, float32)
    last = cuda.shared.array(1, int32)
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
        part[cuda.blockIdx.x] = s[0]
        cuda.threadfence()
        last[0] = cuda.atomic.add(count, 0, 1)
    cuda.syncthreads()
    if last[0] == cuda.gridDim.x - 1 and t == 0:
        acc = float32(0)
        for b in range(cuda.gridDim.x):
            acc += part[b]
        o[0] = acc


# Every thread writes and fences; a barrier brings their writes before the count of one.
@legal(
    4, 32, lambda: (ramp(128), zeros(128), ints(0), zeros(32)), want=lambda x, p, c, o: 2 * x.reshape(4, 32).sum(axis=0)
)
def last_block_adds_up_what_all_threads_wrote(x, part, count, o):
    last = cuda.shared.array(1, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[i] = x[i] * float32(2)
    cuda.threadfence()
    cuda.syncthreads()
    if t == 0:
        last[0] = cuda.atomic.add(count, 0, 1)
    cuda.syncthreads()
    if last[0] == cuda.gridDim.x - 1:
        acc = float32(0)
        for b in range(cuda.gridDim.x):
            acc += part[b * 32 + t]
        o[t] = acc


# Whole blocks leave before the barrier: nobody of theirs is waited for.
@legal(4, 32, lambda: (ramp(64), zeros(64)), want=lambda x, y: x.reshape(2, 32)[:, ::-1].ravel())
def whole_blocks_return_early(x, y):
    s = cuda.shared.array(32, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if cuda.blockIdx.x >= 2:
        return
    s[t] = x[i]
    cuda.syncthreads()
    y[i] = s[31 - t]


@legal(1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: x[::-1])
def barrier_in_a_branch_all_take(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if x[0] > 0:
        s[t] = x[t]
        cuda.syncthreads()
        y[t] = s[63 - t]


@legal(1, 48, lambda: (ramp(100), zeros(1)), want=lambda x, o: [x.sum()])
def barrier_in_a_loop_of_even_rounds(x, o):
    s = cuda.shared.array(48, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for first in range(0, 100, 48):
        i = first + t
        s[t] = x[i] if i < 100 else float32(0)
        cuda.syncthreads()
        if t == 0:
            for k in range(48):
                total += s[k]
        cuda.syncthreads()
    if t == 0:
        o[0] = total


# Threads without an element have nothing to do, but come to the barriers.
@legal(1, 64, lambda: (ramp(40), zeros(1), 40), out=1, want=lambda x, o, n: [x.sum()])
def idle_threads_come_to_the_barriers(x, o, n):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t] if t < n else float32(0)
    k = 32
    while k > 0:
        cuda.syncthreads()
        if t < k:
            s[t] += s[t + k]
        k //= 2
    cuda.syncthreads()
    if t == 63:
        o[0] = s[0]


# The last thread to be finished returns without a barrier behind it.
@legal(1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: np.where(np.arange(64) < 10, x[::-1], 0))
def return_after_the_last_barrier(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    if t >= 10:
        return
    y[t] = s[63 - t]


@cuda.jit(device=True)
def wait_and_read(s, t):
    cuda.syncthreads()
    return s[31 - t]


@legal(1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: x[::-1])
def barrier_in_a_device_function(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    y[t] = wait_and_read(s, t)


@legal(1, 64, lambda: (ramp(64), zeros(3, dtype=np.int32)), want=lambda x, o: [np.sum(x > 9), 0, 1])
def barriers_that_count(x, o):
    t = cuda.threadIdx.x
    many = cuda.syncthreads_count(x[t] > 9)
    every = cuda.syncthreads_and(x[t] > 9)
    some = cuda.syncthreads_or(x[t] > 9)
    if t == 5:
        o[0] = many
        o[1] = 1 if every else 0
        o[2] = 1 if some else 0


# One thread says "finished", all read it between two barriers and leave together.
@legal(1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.full(32, 5))
def flag_between_two_barriers(x, y):
    done = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    rounds = 0
    while True:
        if t == 0:
            done[0] = 1 if rounds == 4 else 0
        cuda.syncthreads()
        stop = done[0]
        cuda.syncthreads()
        rounds += 1
        if stop == 1:
            break
    y[t] = float32(rounds)


@legal(1, 64, lambda: (ramp(64), zeros(2)), want=lambda x, o: x.reshape(2, 32).sum(axis=1))
def sum_of_a_warp_through_shared_memory(x, o):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    lane = t % 32
    s[t] = x[t]
    cuda.syncwarp()
    k = 16
    while k > 0:
        v = float32(0)
        if lane < k:
            v = s[t + k]
        cuda.syncwarp()
        if lane < k:
            s[t] += v
        cuda.syncwarp()
        k //= 2
    if lane == 0:
        o[t // 32] = s[t]


@legal(2, 64, lambda: (ramp(128), zeros(4)), want=lambda x, o: x.reshape(4, 32).sum(axis=1))
def sum_of_a_warp_by_shuffles(x, o):
    i = cuda.grid(1)
    v = x[i]
    k = 16
    while k > 0:
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, k)
        k //= 2
    if i % 32 == 0:
        o[i // 32] = v


@legal(1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: np.append(np.full(32, x[:32].sum()), x[32:]))
def shuffles_in_a_branch_of_a_whole_warp(x, y):
    t = cuda.threadIdx.x
    v = x[t]
    if t < 32:
        for k in range(5):
            v += cuda.shfl_xor_sync(0xFFFFFFFF, v, 1 << k)
    y[t] = v


# Half a warp, and a mask that says so.
@legal(1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.append(x[:16].reshape(8, 2)[:, ::-1], x[16:]))
def shuffle_of_half_a_warp_with_its_mask(x, y):
    t = cuda.threadIdx.x
    v = x[t]
    if t < 16:
        v = cuda.shfl_xor_sync(0x0000FFFF, v, 1)
    y[t] = v


@legal(1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.append(x[15::-1], zeros(16)))
def syncwarp_of_half_a_warp_with_its_mask(x, y):
    s = cuda.shared.array(16, float32)
    t = cuda.threadIdx.x
    if t < 16:
        s[t] = x[t]
        cuda.syncwarp(0x0000FFFF)
        y[t] = s[15 - t]


@legal(1, 64, lambda: (ramp(64), ints(0, 0)), want=lambda x, o: (x > 9).reshape(2, 32).sum(axis=1))
def votes_of_a_warp(x, o):
    t = cuda.threadIdx.x
    ballot = cuda.ballot_sync(0xFFFFFFFF, x[t] > 9)
    if t % 32 == 0:
        o[t // 32] = cuda.popc(ballot)


# A block that ends inside a warp, with the mask of the lanes that exist.
@legal(1, 48, lambda: (ramp(48), zeros(48)), want=lambda x, y: x.reshape(3, 16)[:, ::-1].ravel())
def shuffle_in_a_warp_that_is_not_full(x, y):
    t = cuda.threadIdx.x
    if t < 32:
        y[t] = cuda.shfl_xor_sync(0xFFFFFFFF, x[t], 15)
    else:
        y[t] = cuda.shfl_xor_sync(0x0000FFFF, x[t], 15)


@legal(2, 64, lambda: (ramp(128), zeros(128), ints(0)), want=lambda x, y, n: [np.sum(x > 9)])
def places_from_an_atomic(x, y, n):
    i = cuda.grid(1)
    if x[i] > 9:
        y[cuda.atomic.add(n, 0, 1)] = x[i]


@legal(4, 64, lambda: (ramp(64), zeros(1)), want=lambda x, o: [x.max()])
def atomic_maximum(x, o):
    cuda.atomic.max(o, 0, x[cuda.threadIdx.x])


@legal(2, 32, lambda: (ints(*range(64)), ints(0, 0, 0, 0)), want=lambda x, o: [2016, -2016, 63, 64])
def atomics_of_several_kinds(x, o):
    i = cuda.grid(1)
    cuda.atomic.add(o, 0, x[i])
    cuda.atomic.sub(o, 1, x[i])
    cuda.atomic.max(o, 2, x[i])
    cuda.atomic.add(o, 3, 1)


# One thread a block takes the lock; fences on both sides.
@legal(4, 1, lambda: (ints(0), ramp(4), zeros(1)), want=lambda lock, x, o: [x.sum()])
def lock_of_one_thread_a_block(lock, x, o):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    o[0] += x[cuda.blockIdx.x]
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@legal(1, 64, lambda: (ints(0), zeros(64, dtype=np.int32)), want=lambda c, y: np.full(64, 64))
def counter_read_after_a_barrier(c, y):
    t = cuda.threadIdx.x
    cuda.atomic.add(c, 0, 1)
    cuda.syncthreads()
    y[t] = c[0]


# Loops of different lengths with break and continue, and no barrier in them.
@legal(1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: [min(3, int(np.ceil(np.log2(v)))) for v in x])
def loops_of_different_lengths(x, y):
    t = cuda.threadIdx.x
    v = x[t]
    k = 0
    while v > 1:
        v *= float32(0.5)
        k += 1
        if k == 1:
            continue
        if k > 2:
            break
    y[t] = float32(k)


@legal(1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: x)
def loop_that_never_runs(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    for _ in range(5, 5):
        s[t] = x[31 - t]
        cuda.syncthreads()
    y[t] = x[t]


# The next block's data is read, and only read.
@legal(2, 32, lambda: (ramp(64), zeros(64)), want=lambda x, y: np.roll(x, 32))
def data_of_another_block_is_only_read(x, y):
    i = cuda.grid(1)
    y[i] = x[(i + 32) % 64]


# A tree in one warp's part of a block of three: syncthreads where syncwarp would do.
@legal(2, 96, lambda: (ramp(192), zeros(2)), want=lambda x, o: x.reshape(2, 96).sum(axis=1))
def tree_of_96_threads(x, o):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    if t < 32:
        s[t + 96] = float32(0)
    cuda.syncthreads()
    k = 64
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        cuda.syncthreads()
        k //= 2
    if t == 0:
        o[cuda.blockIdx.x] = s[0]


# The mask is asked for, or voted for, by those who take part.
@legal(1, 32, lambda: (ramp(32), zeros(32)),
       want=lambda x, y: np.where(np.arange(32) % 2 == 0, x[0], 0) + np.where(np.arange(32) < 10, x[9], 0))  # fmt: skip
def masks_of_those_who_are_there(x, y):
    t = cuda.threadIdx.x
    if t % 2 == 0:
        y[t] = cuda.shfl_sync(cuda.activemask(), x[t], 0)
    few = cuda.ballot_sync(0xFFFFFFFF, t < 10)
    if t < 10:
        y[t] += cuda.shfl_sync(few, x[t], 9)
        cuda.syncwarp(few)
