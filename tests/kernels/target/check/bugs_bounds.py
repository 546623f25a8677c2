"""Reads and writes beside the array: too high, too low, axes swapped, halos, bins, wrapped integers."""

import numpy as np
from bugs_common import bins, bug, ints, ramp, zeros
from numba import cuda, float32, int32, uint32


@bug("out_of_bounds", 2, 64, lambda: (ramp(100), zeros(100)), want=lambda x, y: 2 * x)
def guard_forgotten(x, y):
    i = cuda.grid(1)
    y[i] = x[i] * float32(2)  # BUG


@bug("out_of_bounds", 2, 64, lambda: (ramp(100), zeros(100), 100), out=1, want=lambda x, y, n: 2 * x)
def guard_lets_one_through(x, y, n):
    i = cuda.grid(1)
    if i <= n:
        y[i] = x[i] * float32(2)  # BUG


@bug("out_of_bounds", 1, 32, lambda: (ramp(32, 10), zeros(32), 10), out=1, want=lambda x, y, n: x.sum(axis=1))
def loop_one_too_far(x, y, n):
    i = cuda.grid(1)
    acc = float32(0)
    for j in range(n + 1):
        acc += x[i, j]  # BUG
    y[i] = acc


# Numba would take -1 for the last element and say nothing; on a card it is the neighbour's memory.
@bug("out_of_bounds", 1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: np.diff(x, prepend=0))
def left_neighbour_of_the_first(x, y):
    i = cuda.grid(1)
    y[i] = x[i] - x[i - 1]  # BUG


@bug("out_of_bounds", 1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: np.append(x[1:], 0))
def right_neighbour_of_the_last(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i + 1]  # BUG


@bug("out_of_bounds", (2, 1), (16, 16), lambda: (ramp(16, 32), zeros(16, 32)), want=lambda x, y: x)
def axes_swapped(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[1] and j < x.shape[0]:
        y[i, j] = x[i, j]  # BUG


# The guard asks the wrong axis for its length.
@bug("out_of_bounds", (1, 2), (16, 16), lambda: (ramp(20, 10), zeros(20, 10)), want=lambda x, y: x + 1)
def guard_on_the_wrong_axis(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[0]:
        y[j, i] = x[j, i] + float32(1)  # BUG


@bug("out_of_bounds", (1, 1), (16, 16), lambda: (ramp(10, 12), zeros(10, 12)), want=lambda x, y: x + 1)
def guard_with_or(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[1] or j < x.shape[0]:
        y[j, i] = x[j, i] + float32(1)  # BUG


# A flat matrix indexed with the height for pitch.
@bug("out_of_bounds", (1, 2), (8, 16), lambda: (ramp(160), zeros(160), 20, 8), out=1, want=lambda x, y, h, w: x)
def flat_index_with_the_wrong_pitch(x, y, h, w):
    i, j = cuda.grid(2)
    if i < w and j < h:
        y[j * h + i] = x[j * h + i]  # BUG


# The classic convolution: the tile has no room for its halo.
@bug("out_of_bounds", 1, 32, lambda: (ramp(34), zeros(32)), want=lambda x, y: x[:-2] + x[1:-1] + x[2:])
def tile_without_room_for_the_halo(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    if t < 2:
        s[t + 32] = x[t + 32]  # BUG
    cuda.syncthreads()
    y[t] = s[t] + s[t + 1] + s[t + 2]


# The guard of the inner loop compares a local index with the global length.
@bug("out_of_bounds", 2, 8, lambda: (ramp(16), ramp(4), zeros(16)), want=lambda a, b, o: np.correlate(a, b, "full")[3:])
def local_index_guarded_by_the_global_length(a, b, o):
    s = cuda.shared.array(8, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    s[t] = a[i]
    cuda.syncthreads()
    acc = float32(0)
    for k in range(4):
        if t + k < a.size:
            acc += s[t + k] * b[k]  # BUG
    o[i] = acc


@bug("out_of_bounds", 1, 128, lambda: (ramp(128), zeros(128)), want=lambda x, y: x[::-1])
def shared_array_smaller_than_the_block(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # BUG
    cuda.syncthreads()
    y[t] = s[127 - t]


@bug("out_of_bounds", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: x + np.append(0, x[:-1]))
def scan_reaches_below_the_array(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    v = s[t - 1]  # BUG
    cuda.syncthreads()
    y[t] = s[t] + v


# The tree starts at the size of the block instead of half of it.
@bug("out_of_bounds", 1, 64, lambda: (ramp(64), zeros(1)), want=lambda x, o: [x.sum()])
def tree_starts_one_level_too_high(x, o):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    k = 64
    while k > 0:
        if t < k:
            s[t] += s[t + k]  # BUG
        cuda.syncthreads()
        k //= 2
    if t == 0:
        o[0] = s[0]


@bug("out_of_bounds", 1, 32, lambda: (ramp(32, 5), zeros(32)), want=lambda x, y: x.sum(axis=1))
def local_array_one_too_short(x, y):
    i = cuda.grid(1)
    a = cuda.local.array(4, float32)
    for j in range(5):
        a[j] = x[i, j]  # BUG
    acc = float32(0)
    for j in range(5):
        acc += a[j]
    y[i] = acc


# A token that is not in the vocabulary.
@bug("out_of_bounds", 4, 8, lambda: (ints(1, 0, 4, 2), ramp(4, 8), zeros(4, 8)), want=lambda t, w, o: w[t % 4])
def token_outside_the_vocabulary(tokens, wte, out):
    n, c = cuda.blockIdx.x, cuda.threadIdx.x
    out[n, c] = wte[tokens[n], c]  # BUG


# The target that says "ignore me" is used as an index.
@bug(
    "out_of_bounds",
    1,
    4,
    lambda: (ints(1, -1, 2, 0), ramp(4, 3), zeros(4)),
    want=lambda t, p, o: np.where(t < 0, 0, p[range(4), t]),
)
def ignored_target_used_as_an_index(targets, logits, losses):
    n = cuda.threadIdx.x
    losses[n] = logits[n, targets[n]]  # BUG


# A histogram whose largest value falls into a bin of its own.
@bug(
    "out_of_bounds",
    1,
    32,
    lambda: (ramp(32), zeros(6, dtype=np.int32)),
    want=lambda x, h: np.bincount(np.minimum(x, 17).astype(int) // 3),
)
def largest_value_falls_off_the_histogram(x, h):
    i = cuda.grid(1)
    cuda.atomic.add(h, int32(x[i] / float32(3)), 1)  # BUG


# The product of two 32-bit numbers is kept in 32 bits.
@bug("out_of_bounds", 3, 1, lambda: (ramp(16), zeros(3), 1 << 31), out=1, want=lambda x, y, p: x[[0, 0, 0]])
def index_wraps_in_32_bits(x, y, pitch):
    i = cuda.blockIdx.x
    far = int32(i * pitch)
    y[i] = x[far % 16 if far >= 0 else far]  # BUG


# Unsigned numbers have no -1.
@bug("out_of_bounds", 1, 32, lambda: (ramp(32), zeros(32)), want=lambda x, y: np.append(0, x[:-1]))
def unsigned_index_below_zero(x, y):
    i = uint32(cuda.grid(1))
    if i - uint32(1) >= 0:
        y[i] = x[i - uint32(1)]  # BUG


# Dynamic shared memory, asked for in elements instead of bytes.
@bug("out_of_bounds", 1, 64, lambda: (ramp(64), zeros(64)), want=lambda x, y: x[::-1], dynamic=64)
def dynamic_size_in_elements(x, y):
    s = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # BUG
    cuda.syncthreads()
    y[t] = s[63 - t]


# Four elements a thread; the last thread's run past the end.
@bug("out_of_bounds", 1, 32, lambda: (ramp(126), zeros(126)), want=lambda x, y: 2 * x)
def four_elements_a_thread(x, y):
    first = cuda.grid(1) * 4
    if first < x.size:
        for k in range(4):
            y[first + k] = x[first + k] * float32(2)  # BUG


# The output of a strided read has fewer elements than the input, the guard knows the input only.
@bug("out_of_bounds", 1, 64, lambda: (ramp(64), zeros(32)), want=lambda x, y: x[::2] + x[1::2])
def guard_knows_the_input_only(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[2 * i % 64] + x[(2 * i + 1) % 64]  # BUG


# Compaction into an output that is too small: an atomic hands out a place that is not there.
@bug("out_of_bounds", 1, 32, lambda: (bins(32, 4), ints(0), ints(*[0] * 8)), want=lambda x, n, y: x[x != 3][:8])
def place_from_an_atomic_is_too_far(x, n, y):
    i = cuda.grid(1)
    if x[i] != 3:
        y[cuda.atomic.add(n, 0, 1)] = x[i]  # BUG
