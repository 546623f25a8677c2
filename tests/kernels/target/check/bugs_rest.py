"""Launches no card accepts, and loops that never end."""

import numpy as np
from bugs_common import bug, ints, ramp, zeros
from numba import cuda, float32


@bug("limits", 1, (64, 32), lambda: (zeros(64, 32),), want=lambda y: y + 1)
def block_of_2048_threads(y):  # BUG
    i, j = cuda.grid(2)
    y[i, j] = float32(1)


@bug("limits", 1, (1, 1, 128), lambda: (zeros(128),), want=lambda y: y + 1)
def block_128_deep(y):  # BUG
    y[cuda.threadIdx.z] = float32(1)


@bug("limits", (1, 70_000), 1, lambda: (zeros(70_000),), want=lambda y: y + 1)
def grid_70000_high(y):  # BUG
    y[cuda.blockIdx.y] = float32(1)


@bug("limits", 1, 32, lambda: (zeros(32),), want=lambda y: y + 1)
def shared_array_of_64_kilobytes(y):
    s = cuda.shared.array((128, 128), float32)  # BUG
    t = cuda.threadIdx.x
    s[0, t] = float32(1)
    y[t] = s[0, t]


# Each array fits, the two together do not.
@bug("limits", 1, 32, lambda: (zeros(32),), want=lambda y: y + 2)
def shared_arrays_that_fit_only_alone(y):
    a = cuda.shared.array(8_000, float32)
    b = cuda.shared.array(8_000, float32)  # BUG
    t = cuda.threadIdx.x
    a[t] = float32(1)
    b[t] = float32(1)
    y[t] = a[t] + b[t]


@bug("limits", 1, 32, lambda: (zeros(32),), want=lambda y: y + 1, dynamic=60_000)
def dynamic_shared_of_60000_bytes(y):  # BUG
    s = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    s[t] = float32(1)
    y[t] = s[t]


# The stride is never halved.
@bug("endless", 1, 64, lambda: (ramp(64), zeros(1)), want=lambda x, o: [x.sum()])
def stride_never_halved(x, o):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    k = 32
    while k > 0:  # BUG
        cuda.syncthreads()
        if t < k:
            s[t] += s[t + k]
    if t == 0:
        o[0] = s[0]


# Steps over its end.
@bug("endless", 1, 4, lambda: (ramp(4), zeros(4), 7), out=1, want=lambda x, y, n: 4 * x)
def loop_steps_over_its_end(x, y, n):
    t = cuda.threadIdx.x
    i = 0
    while i != n:  # BUG
        y[t] += x[t]
        i += 2


# A half-open interval that never gets shorter.
@bug("endless", 1, 8, lambda: (ramp(8), zeros(8, dtype=np.int32)), want=lambda x, o: np.full(8, 3))
def bisection_keeps_its_middle(x, o):
    t = cuda.threadIdx.x
    low, high = 0, 8
    while high - low > 0:  # BUG
        middle = (low + high) // 2
        if middle <= 3:
            low = middle
        else:
            high = middle
    o[t] = low


# Before Volta this hangs on every card: the lane that holds the lock waits for the lanes that wait for it.
@bug("endless", 1, 32, lambda: (ints(0), zeros(1)), want=lambda lock, o: [32])
def lock_wanted_by_every_lane(lock, o):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:  # BUG
        pass
    o[0] += float32(1)
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


# Two locks, taken in opposite order is one thing; taken and never given back is enough.
@bug("endless", 2, 1, lambda: (ints(0), zeros(1)), want=lambda lock, o: [2])
def lock_never_opened(lock, o):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:  # BUG
        pass
    cuda.threadfence()
    o[0] += float32(1)
    cuda.threadfence()


# Block 0 waits for block 1: nothing promises that block 1 has been started.
@bug("endless", 2, 1, lambda: (ints(0), zeros(2)), want=lambda flag, y: [2, 1])
def block_waits_for_a_later_block(flag, y):
    b = cuda.blockIdx.x
    if b == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:  # BUG
            pass
        cuda.threadfence()
        y[0] = y[1] + float32(1)
    else:
        y[1] = float32(1)
        cuda.threadfence()
        cuda.atomic.exch(flag, 0, 1)
