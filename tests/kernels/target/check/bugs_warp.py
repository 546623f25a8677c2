"""Mistakes inside a warp: threads that are not in lockstep, shuffles and votes whose mask is not the truth."""

import numpy as np
from bugs_common import bug, ints, ramp, zeros
from numba import cuda, float32


# The unrolled last warp of old reductions, written when a warp moved in lockstep; since Volta it needs syncwarp.
@bug("race", 1, 32, lambda: (ramp(64), zeros(1)), want=lambda x, o: x.sum(keepdims=True))
def last_warp_unrolled(x, o):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    s[t + 32] = x[t + 32]
    cuda.syncwarp()
    s[t] += s[t + 32]
    if t < 16:
        s[t] += s[t + 16]  # BUG
    cuda.syncwarp()
    if t == 0:
        acc = float32(0)
        for k in range(16):
            acc += s[k]
        o[0] = acc


# Two lanes exchange values through shared memory without a word to each other.
@bug("race", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: x.reshape(16, 2)[:, ::-1].ravel())
def lanes_exchange_without_syncwarp(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    y[t] = s[t ^ 1]  # BUG


# Read, barrier, write is right; the barrier after the write is missing, so the next round reads while others write.
@bug("race", 1, 32, lambda: (ramp(32), zeros(1)), want=lambda x, o: x.sum(keepdims=True))
def one_syncwarp_a_round(x, o):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    k = 16
    while k > 0:
        v = float32(0)
        if t < k:
            v = s[t + k]
        cuda.syncwarp()
        if t < k:
            s[t] += v  # BUG
        k //= 2
    cuda.syncwarp()
    if t == 0:
        o[0] = s[0]


# Lanes exchange through global memory: the same race, elsewhere.
@bug("race", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: x + np.roll(x, -1))
def lanes_exchange_through_global_memory(x, y):
    t = cuda.threadIdx.x
    y[t] = x[t]
    v = y[(t + 1) % 32]  # BUG
    cuda.syncwarp()
    y[t] = x[t] + v


# The block ends in the middle of a warp: the lanes asked for do not exist.
@bug(("unset", "barrier"), 1, 48, lambda: (ramp(48), zeros(2)), want=lambda x, o: [x[:32].sum(), x[32:].sum()],
     group="warp")  # fmt: skip
def shuffle_past_the_last_thread(x, o):
    t = cuda.threadIdx.x
    v = x[t]
    k = 16
    while k > 0:
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, k)  # BUG
        k //= 2
    if t % 32 == 0:
        o[t // 32] = v


# Half a warp comes to a shuffle whose mask names all of it.
@bug(("barrier", "unset"), 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.where(np.arange(32) < 20, x, 0),
     group="warp")  # fmt: skip
def shuffle_with_full_mask_in_a_branch(x, y):
    t = cuda.threadIdx.x
    if t < 20:
        y[t] = cuda.shfl_sync(0xFFFFFFFF, x[t], (t + 8) % 32)  # BUG
    else:
        y[t] = float32(0)


# The mask names the lower half, and the upper half calls it too.
@bug(("barrier", "unset"), 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: x, group="warp")
def caller_is_not_in_the_mask(x, y):
    t = cuda.threadIdx.x
    v = cuda.shfl_xor_sync(0x0000FFFF, x[t], 1)  # BUG
    y[t] = cuda.shfl_xor_sync(0xFFFFFFFF, v, 1)


# The mask is right, but the lane read from has left the loop.
@bug(("barrier", "unset"), 1, 32, lambda: (ramp(32), zeros(32)), group="warp",
     want=lambda x, y: np.where(np.arange(32) % 2 == 0, x[np.arange(32) ^ 2], x))  # fmt: skip
def lanes_leave_the_loop_one_by_one(x, y):
    t = cuda.threadIdx.x
    v = x[t]
    for _ in range(t % 4 + 1):
        v = cuda.shfl_xor_sync(0xFFFFFFFF, v, 2)  # BUG
    y[t] = v


# The return comes before the shuffle.
@bug(("barrier", "unset"), 1, 32, lambda: (ramp(32), zeros(1), 24), out=1, want=lambda x, o, n: [x[:24].sum()],
     group="warp")  # fmt: skip
def lanes_return_before_the_shuffle(x, o, n):
    t = cuda.threadIdx.x
    if t >= n:
        return
    v = x[t]
    k = 16
    while k > 0:
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, k)  # BUG
        k //= 2
    if t == 0:
        o[0] = v


# A vote in a branch, with the mask of the whole warp.
@bug("barrier", 1, 32, lambda: (ramp(32), ints(0)), want=lambda x, o: [1], group="warp")
def vote_in_a_branch(x, o):
    t = cuda.threadIdx.x
    if x[t] > 9:
        some = cuda.any_sync(0xFFFFFFFF, x[t] > 12)  # BUG
        if t == 2:
            o[0] = some


# A warp barrier in a branch, with the mask of the whole warp.
@bug("barrier", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: x, group="warp")
def syncwarp_in_a_branch(x, y):
    t = cuda.threadIdx.x
    if t < 16:
        y[t] = x[t]
        cuda.syncwarp()  # BUG
    else:
        y[t] = x[t]


# The sums of the warps go to a table of 32; a block of two warps fills two, the last warp adds all 32.
@bug("unset", 1, 64, lambda: (ramp(64), zeros(1)), want=lambda x, o: x.sum(keepdims=True))
def second_stage_reads_warps_that_are_not_there(x, o):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    v = x[t]
    for k in range(5):
        v += cuda.shfl_xor_sync(0xFFFFFFFF, v, 1 << k)
    if t % 32 == 0:
        s[t // 32] = v
    cuda.syncthreads()
    if t < 32:
        v = s[t]  # BUG
        for k in range(5):
            v += cuda.shfl_xor_sync(0xFFFFFFFF, v, 1 << k)
        if t == 0:
            o[0] = v
