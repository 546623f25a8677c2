"""Barriers that not every thread of the block reaches, or not the same one."""

import numpy as np
from bugs_common import bug, ramp, zeros
from numba import cuda, float32, int32


@bug("barrier", 1, 64, lambda: (ramp(64), zeros(64), 40), out=1, want=lambda x, y, n: np.where(np.arange(64) < n, x, 0))
def barrier_under_the_guard(x, y, n):
    s = cuda.shared.array(64, float32)
    i = cuda.grid(1)
    if i < n:
        s[i] = x[i]
        cuda.syncthreads()  # BUG
        y[i] = s[i]


@bug("barrier", 1, 64, lambda: (ramp(64), zeros(64), 40), out=1, want=lambda x, y, n: np.where(np.arange(64) < n, x, 0))
def return_before_the_barrier(x, y, n):
    s = cuda.shared.array(64, float32)
    i = cuda.grid(1)
    if i >= n:
        return
    s[i] = x[i]
    cuda.syncthreads()  # BUG
    y[i] = s[i]


# A strided loop: the last round is not everyone's.
@bug("barrier", 1, 64, lambda: (ramp(100), zeros(64)), want=lambda x, y: x[:64] + np.append(x[64:], zeros(28)))
def barrier_in_an_uneven_loop(x, y):
    t = cuda.threadIdx.x
    for j in range(t, 100, 64):
        y[t] += x[j]
        cuda.syncthreads()  # BUG


# Two barriers, one in each arm: each is reached by half of the block.
@bug("barrier", 1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: x)
def one_barrier_in_each_arm(x, y):
    t = cuda.threadIdx.x
    if t % 2 == 0:
        y[t] = x[t]
        cuda.syncthreads()  # BUG
    else:
        y[t] = x[t]
        cuda.syncthreads()


# A thread that is finished leaves the loop; the others wait for it.
@bug("barrier", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.ceil(x / 3))
def break_before_the_barrier(x, y):
    t = cuda.threadIdx.x
    v = x[t]
    while True:
        if v <= 0:
            break
        v -= float32(3)
        y[t] += float32(1)
        cuda.syncthreads()  # BUG


@bug("barrier", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: x * 0 + 3)
def continue_before_the_barrier(x, y):
    t = cuda.threadIdx.x
    for r in range(3):
        y[t] += float32(1)
        if (t + r) % 3 == 0:
            continue
        cuda.syncthreads()  # BUG


# The loop runs until its own value has settled: another number of rounds for every thread.
@bug("barrier", 1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: np.floor(np.log2(x)) + 1)
def barrier_in_a_loop_that_waits_for_its_data(x, y):
    t = cuda.threadIdx.x
    v = x[t]
    while v >= 1:
        v *= float32(0.5)
        y[t] += float32(1)
        cuda.syncthreads()  # BUG


def _add_and_wait(y, i, v):
    y[i] += v
    cuda.syncthreads()  # BUG


add_and_wait = cuda.jit(device=True)(_add_and_wait)


@bug("barrier", 1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: np.where(np.arange(64) < 10, x, 0),
     marked=_add_and_wait)  # fmt: skip
def device_function_with_a_barrier_in_a_branch(x, y):
    t = cuda.threadIdx.x
    if t < 10:
        add_and_wait(y, t, x[t])


# The barrier that also counts.
@bug("barrier", 1, 64, lambda: (ramp(64), zeros(64, dtype=np.int32)), want=lambda x, y: np.full(64, np.sum(x > 5)))
def counting_barrier_in_a_branch(x, y):
    t = cuda.threadIdx.x
    if x[t] > 5:
        y[t] = cuda.syncthreads_count(1)  # BUG


# Only the first warp reduces, and the barriers of the reduction are inside its branch.
@bug("barrier", 1, 64, lambda: (ramp(64), zeros(1)), want=lambda x, o: [x.sum()])
def barrier_for_the_first_warp_only(x, o):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    if t < 32:
        s[t] += s[t + 32]
        k = 16
        while k > 0:
            cuda.syncthreads()  # BUG
            if t < k:
                s[t] += s[t + k]
            k //= 2
    if t == 0:
        o[0] = s[0]


# The rows of a two-dimensional block: the guard on the row lets whole warps go.
@bug("barrier", 1, (16, 4), lambda: (ramp(3, 16), zeros(3, 16)), want=lambda x, y: x[:, ::-1])
def rows_beyond_the_matrix_return(x, y):
    s = cuda.shared.array((4, 16), float32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    if j >= x.shape[0]:
        return
    s[j, i] = x[j, i]
    cuda.syncthreads()  # BUG
    y[j, i] = s[j, 15 - i]


# The number of tiles is worked out from the thread's own column instead of from the width.
@bug("barrier", 1, 32, lambda: (ramp(80), zeros(32)), want=lambda x, y: [x[t::32].sum() for t in range(32)])
def tiles_counted_by_every_thread(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    tiles = int32((80 - t + 31) // 32)
    acc = float32(0)
    for k in range(tiles):
        s[t] = x[k * 32 + t]
        cuda.syncthreads()  # BUG
        acc += s[t]
    y[t] = acc
