"""Reads of what nobody set: shared and local arrays, variables, halos, partial tiles."""

import numpy as np
from bugs_common import bins, bug, ramp, zeros
from numba import cuda, float32, int32


@bug("unset", 2, 32, lambda: (ramp(64), zeros(64)), want=lambda x, y: np.convolve(x, [1, 0, 1], "same"))
def halo_not_loaded(x, y):
    s = cuda.shared.array(34, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    s[t + 1] = x[i]
    cuda.syncthreads()
    y[i] = s[t] + s[t + 2]  # BUG


# The halo is loaded inside the array, and left alone at its ends, where it should be zero.
@bug("unset", 2, 32, lambda: (ramp(64), zeros(64), 64), out=1, want=lambda x, y, n: np.convolve(x, [1, 0, 1], "same"))
def halo_left_alone_at_the_ends(x, y, n):
    s = cuda.shared.array(34, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    s[t + 1] = x[i]
    if t == 0 and i > 0:
        s[0] = x[i - 1]
    if t == 31 and i + 1 < n:
        s[33] = x[i + 1]
    cuda.syncthreads()
    y[i] = s[t] + s[t + 2]  # BUG


@bug("unset", 1, 32, lambda: (ramp(32, 4), zeros(32)), want=lambda x, y: x.sum(axis=1))
def local_sums_not_zeroed(x, y):
    i = cuda.grid(1)
    acc = cuda.local.array(2, float32)
    for j in range(4):
        acc[j % 2] += x[i, j]  # BUG
    y[i] = acc[0] + acc[1]


@bug("unset", 1, 64, lambda: (bins(64, 8), zeros(8, dtype=np.int32)), want=lambda x, o: np.bincount(x, minlength=8))
def shared_bins_not_zeroed(x, o):
    h = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    cuda.atomic.add(h, x[t], 1)  # BUG
    cuda.syncthreads()
    if t < 8:
        o[t] = h[t]


# A sum over a block that is longer than its data: the guard skips the load, not the addition.
@bug("unset", 2, 8, lambda: (ramp(15), zeros(2), 15), out=1, want=lambda x, o, n: [x[:8].sum(), x[8:].sum()])
def sum_of_a_block_that_is_not_full(x, o, n):
    s = cuda.shared.array(8, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < n:
        s[t] = x[i]
    cuda.syncthreads()
    k = 1
    while k < 8:
        if t % (2 * k) == 0:
            s[t] += s[t + k]  # BUG
        cuda.syncthreads()
        k *= 2
    if t == 0:
        o[cuda.blockIdx.x] = s[0]


# A matrix smaller than the tile: the product runs over the whole tile.
@bug("unset", 1, (4, 4), lambda: (ramp(3, 3), ramp(3, 3), zeros(3, 3), 3), out=2, want=lambda a, b, c, n: a @ b)
def product_over_a_tile_that_is_not_full(a, b, c, n):
    sa = cuda.shared.array((4, 4), float32)
    sb = cuda.shared.array((4, 4), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    if tx < n and ty < n:
        sa[ty, tx] = a[ty, tx]
        sb[ty, tx] = b[ty, tx]
    cuda.syncthreads()
    if tx < n and ty < n:
        acc = float32(0)
        for k in range(4):
            acc += sa[ty, k] * sb[k, tx]  # BUG
        c[ty, tx] = acc


# Only one half of the tile's loads were written down.
@bug("unset", 1, 32, lambda: (ramp(64), zeros(32)), want=lambda x, y: x[:32] + x[63:31:-1])
def second_half_not_loaded(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    y[t] = s[t] + s[63 - t]  # BUG


@bug("unset", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.where(x > 9, x, 0))
def variable_set_on_one_path(x, y):
    i = cuda.grid(1)
    if x[i] > 9:
        v = x[i]
    y[i] = v  # BUG


@bug("unset", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.where(np.arange(32) > 0, x, 0))
def variable_set_in_a_loop_that_may_not_run(x, y):
    i = cuda.grid(1)
    for _ in range(i):
        last = x[i]
    y[i] = last  # BUG


# Only thread 0 asks for the place, and tells nobody.
@bug("unset", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.full(32, x[0]))
def value_known_to_one_thread(x, y):
    t = cuda.threadIdx.x
    if t == 0:
        head = x[0]
    y[t] = head  # BUG


# A search writes the best place only when it finds one.
@bug("unset", 1, 8, lambda: (ramp(8, 6), zeros(8, dtype=np.int32)), want=lambda x, o: np.argmax(x > 18, axis=1))
def place_of_a_search_that_found_nothing(x, o):
    i = cuda.grid(1)
    place = cuda.local.array(1, int32)
    for j in range(6):
        if x[i, j] > 18:
            place[0] = j
    o[i] = place[0]  # BUG


# The maximum of a row starts from whatever shared memory holds.
@bug("unset", 1, 32, lambda: (ramp(4, 32), zeros(32)), want=lambda x, y: x.max(axis=0))
def maximum_starts_from_nothing(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    for r in range(4):
        s[t] = max(s[t], x[r, t])  # BUG
    y[t] = s[t]


# The diagonal of a tile is skipped on the way in and needed on the way out.
@bug("unset", 1, (8, 8), lambda: (ramp(8, 8), zeros(8, 8)), want=lambda x, y: x.T)
def diagonal_not_loaded(x, y):
    s = cuda.shared.array((8, 8), float32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    if i != j:
        s[j, i] = x[j, i]
    cuda.syncthreads()
    y[j, i] = s[i, j]  # BUG


# The way up of Blelloch's scan, on a block whose end was never padded with zeros.
@bug("unset", 1, 8, lambda: (ramp(12), zeros(1), 12), out=1, want=lambda x, o, n: [x.sum()])
def tree_of_a_length_that_is_not_a_power_of_two(x, o, n):
    s = cuda.shared.array(16, float32)
    t = cuda.threadIdx.x
    if 2 * t < n:
        s[2 * t] = x[2 * t]
        s[2 * t + 1] = x[2 * t + 1]
    d = 8
    step = 1
    while d > 0:
        cuda.syncthreads()
        if t < d:
            s[step * (2 * t + 2) - 1] += s[step * (2 * t + 1) - 1]  # BUG
        step *= 2
        d //= 2
    cuda.syncthreads()
    if t == 0:
        o[0] = s[15]


# Half of the lanes have no value to give, and are asked for it.
@bug("unset", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.where(np.arange(32) < 16, x, 0))
def shuffle_of_a_value_half_the_lanes_lack(x, y):
    t = cuda.threadIdx.x
    if t < 16:
        v = x[t]
    y[t] = cuda.shfl_xor_sync(0xFFFFFFFF, v, 16)  # BUG
