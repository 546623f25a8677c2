"""Legal kernels that look like mistakes: who touches what, and when."""

import numpy as np
from bugs_common import bins, ints, legal, ramp, zeros
from numba import cuda, float32, int32, uint8

TABLE = ramp(32)


@legal(1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: np.cumsum(x))
def scan_in_two_buffers(x, y):
    s = cuda.shared.array((2, 64), float32)
    t = cuda.threadIdx.x
    s[0, t] = x[t]
    cuda.syncthreads()
    p = 0
    d = 1
    while d < 64:
        s[1 - p, t] = s[p, t] + (s[p, t - d] if t >= d else float32(0))
        cuda.syncthreads()
        p = 1 - p
        d *= 2
    y[t] = s[p, t]


# One barrier a round is enough with two buffers.
@legal(1, 32, lambda: (ramp(5, 32), zeros(32)), want=lambda x, y: x[:, ::-1].sum(axis=0))
def prefetch_into_the_other_buffer(x, y):
    s = cuda.shared.array((2, 32), float32)
    t = cuda.threadIdx.x
    s[0, t] = x[0, t]
    cuda.syncthreads()
    acc = float32(0)
    for k in range(5):
        if k < 4:
            s[(k + 1) % 2, t] = x[k + 1, t]
        acc += s[k % 2, 31 - t]
        cuda.syncthreads()
    y[t] = acc


@legal((2, 2), (16, 16), lambda: (ramp(32, 32), zeros(32, 32)), want=lambda x, y: x.T)
def transpose_through_a_padded_tile(x, y):
    tile = cuda.shared.array((16, 17), float32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    left, top = cuda.blockIdx.x * 16, cuda.blockIdx.y * 16
    tile[j, i] = x[top + j, left + i]
    cuda.syncthreads()
    y[left + j, top + i] = tile[i, j]


@legal(2, 32, lambda: (ramp(64), zeros(64), 64), out=1, want=lambda x, y, n: np.convolve(x, [1, 0, 1], "same"))
def halo_with_zeros_at_the_ends(x, y, n):
    s = cuda.shared.array(34, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    s[t + 1] = x[i]
    if t == 0:
        s[0] = x[i - 1] if i > 0 else float32(0)
    if t == 31:
        s[33] = x[i + 1] if i + 1 < n else float32(0)
    cuda.syncthreads()
    y[i] = s[t] + s[t + 2]


def between_small_neighbours(x, y, n):
    inside = (np.roll(x, 1) > 3) & (np.roll(x, -1) < 15)
    inside[[0, -1]] = False
    return np.where(inside, x, 0)


@legal(1, 64, lambda: (ramp(64), zeros(64), 64), out=1, want=between_small_neighbours)
def guards_in_short_circuit(x, y, n):
    i = cuda.grid(1)
    if i > 0 and x[i - 1] > 3 and i + 1 < n and x[i + 1] < 15:
        y[i] = x[i]


@legal(1, 40, lambda: (ramp(33), zeros(40)), want=lambda x, y: np.append(x, zeros(7)))
def guard_in_a_conditional_expression(x, y):
    i = cuda.grid(1)
    y[i] = x[i] if i < x.size else float32(0)


@legal(1, 40, lambda: (ramp(33), zeros(33)), want=lambda x, y: x + 1)
def guard_by_early_return(x, y):
    i = cuda.grid(1)
    if i >= x.size or i < 0:
        return
    y[i] = x[i] + float32(1)


@legal(2, 64, lambda: (ramp(128), ramp(128)), out=0, want=lambda x, y: x + 3 * y - 1)
def in_place_everyone_his_own(x, y):
    i = cuda.grid(1)
    for k in range(3):
        x[i] += y[i] * float32(k)
    cuda.syncthreads()
    x[i] -= float32(1)


def same_array_twice():
    x = ramp(64)
    return x, x


@legal(1, 64, same_array_twice, want=lambda x, y: 2 * x)
def one_array_as_both_arguments(x, y):
    i = cuda.grid(1)
    y[i] = x[i] * float32(2)


def halves_of_one_array():
    x = ramp(64)
    return x[:32], x[32:]


@legal(1, 32, halves_of_one_array, want=lambda a, b: a[::-1])
def two_halves_of_one_array(a, b):
    t = cuda.threadIdx.x
    b[t] = a[31 - t]


def columns_of_one_array():
    x = ramp(32, 2)
    return x[:, 0], x[:, 1]


@legal(1, 32, columns_of_one_array, want=lambda a, b: a[::-1] + 1)
def two_columns_of_one_array(a, b):
    t = cuda.threadIdx.x
    b[t] = a[31 - t] + float32(1)


# A step of an in-place sort: every pair belongs to one thread, with a barrier between the phases.
@legal(1, 16, lambda: (ramp(32),), want=lambda x: np.sort(x))
def sort_with_a_barrier_between_phases(x):
    t = cuda.threadIdx.x
    for phase in range(32):
        i = 2 * t + phase % 2
        if i + 1 < 32 and x[i] > x[i + 1]:
            low = x[i + 1]
            x[i + 1] = x[i]
            x[i] = low
        cuda.syncthreads()


@legal(1, 32, lambda: (ramp(64), zeros(32)), want=lambda x, y: x[31::-1] + x[63:31:-1], dynamic=256)
def two_dynamic_arrays_side_by_side(x, y):
    both = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    both[t] = x[t]
    both[32 + t] = x[32 + t]
    cuda.syncthreads()
    y[t] = both[31 - t] + both[63 - t]


@legal((2, 2, 2), (4, 4, 4), lambda: (ramp(8, 8, 8), zeros(8, 8, 8)), want=lambda x, y: x + x[-1, 0, 0])
def three_dimensions_and_a_literal_minus_one(x, y):
    i, j, k = cuda.grid(3)
    if i < x.shape[2] and j < x.shape[1] and k < x.shape[0]:
        y[k, j, i] = x[k, j, i] + x[-1, 0, 0]


@legal(2, 64, lambda: (ramp(128), zeros(128)), want=lambda x, y: x.reshape(2, 64)[:, ::-1].ravel())
def global_scratch_inside_a_block(x, y):
    i = cuda.grid(1)
    first = cuda.blockIdx.x * 64
    y[i] = x[i]
    cuda.syncthreads()
    v = y[first + 63 - cuda.threadIdx.x]
    cuda.syncthreads()
    y[i] = v


# Everyone reads the same cell, nobody writes it.
@legal(3, 32, lambda: (ramp(2), zeros(96)), want=lambda x, y: np.full(96, x[0] * x[1]))
def all_read_one_cell(x, y):
    y[cuda.grid(1)] = x[0] * x[1]


@legal(1, 32, lambda: (ramp(32, 4), zeros(32)), want=lambda x, y: x.sum(axis=1))
def local_array_set_before_it_is_read(x, y):
    i = cuda.grid(1)
    a = cuda.local.array(4, float32)
    for j in range(4):
        a[j] = x[i, j]
    acc = float32(0)
    for j in range(4):
        acc += a[3 - j]
    y[i] = acc


@legal(1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.where(x > 9, x, -x))
def variable_set_on_both_paths(x, y):
    i = cuda.grid(1)
    if x[i] > 9:
        v = x[i]
        y[i] = float32(0)
    else:
        v = -x[i]
    y[i] = v


# Half of the tile is never set, and never read.
@legal(1, 32, lambda: (ramp(20), zeros(20), 20), out=1, want=lambda x, y, n: x[::-1])
def unset_half_of_a_tile_is_not_read(x, y, n):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < n:
        s[t] = x[t]
    cuda.syncthreads()
    if t < n:
        y[t] = s[n - 1 - t]


@legal((2, 2), (4, 4), lambda: (ramp(7, 6), ramp(6, 5), zeros(7, 5)), want=lambda a, b, c: a @ b)
def product_with_edges_filled_by_zeros(a, b, c):
    sa = cuda.shared.array((4, 4), float32)
    sb = cuda.shared.array((4, 4), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    m, depth, n = a.shape[0], a.shape[1], b.shape[1]
    acc = float32(0)
    for first in range(0, depth, 4):
        sa[ty, tx] = a[row, first + tx] if row < m and first + tx < depth else float32(0)
        sb[ty, tx] = b[first + ty, col] if first + ty < depth and col < n else float32(0)
        cuda.syncthreads()
        for k in range(4):
            acc += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    if row < m and col < n:
        c[row, col] = acc


# Two names for two buffers, exchanged every round.
@legal(1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.roll(x, -4))
def buffers_exchange_their_names(x, y):
    a = cuda.shared.array(32, float32)
    b = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    a[t] = x[t]
    for _ in range(4):
        cuda.syncthreads()
        b[t] = a[(t + 1) % 32]
        a, b = b, a
    y[t] = a[t]


# Rows as views.
@legal(1, 16, lambda: (ramp(16, 8), zeros(16)), want=lambda x, y: x.sum(axis=1))
def a_row_as_a_view(x, y):
    t = cuda.threadIdx.x
    row = x[t]
    acc = float32(0)
    for k in range(row.shape[0]):
        acc += row[k]
    y[t] = acc


# More items than threads, strided over the grid; the last round is not everyone's, and there is no barrier in it.
@legal(2, 32, lambda: (ramp(150), zeros(150)), want=lambda x, y: 2 * x)
def stride_over_the_grid(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * float32(2)


@legal(1, 64, lambda: (bins(64, 5), zeros(5, dtype=np.int32)), want=lambda x, o: np.bincount(x))
def bins_cleared_counted_and_flushed(x, o):
    h = cuda.shared.array(5, int32)
    t = cuda.threadIdx.x
    if t < 5:
        h[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(h, x[t], 1)
    cuda.syncthreads()
    if t < 5:
        cuda.atomic.add(o, t, h[t])


# Writes to one cell, one after the other.
@legal(1, 64, lambda: (zeros(1), ints(0)), out=0, want=lambda x, o: [6])
def one_cell_many_writers_with_barriers(x, o):
    t = cuda.threadIdx.x
    for k in range(4):
        if t == 13 * k:
            x[0] += float32(k)
        cuda.syncthreads()


# Neighbouring bytes are different places.
@legal(1, 64, lambda: (ramp(64, dtype=np.uint8), zeros(64)), want=lambda x, y: x[::-1])
def one_byte_a_thread(x, y):
    s = cuda.shared.array(64, uint8)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    y[t] = s[63 - t]


@legal(1, 32, lambda: (zeros(32),), want=lambda y: TABLE[::-1] + TABLE)
def constants_from_outside(y):
    c = cuda.const.array_like(TABLE)
    t = cuda.threadIdx.x
    y[t] = c[31 - t] + TABLE[t]
