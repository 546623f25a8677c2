"""Traffic with known answers: elements, 32-byte sectors a warp, cycles of the banks of shared memory."""

import numpy as np
import pytest
from bugs_common import ramp, zeros
from numba import cuda, float32, float64

import kernels

WARPS = 4


def traffic(kernel, grid, block, *args):
    report = kernels.check(kernel, orders=0)[grid, block](*args)
    assert report.ok, repr(report)
    return report.traffic


def copy(x, y):
    i = cuda.grid(1)
    y[i] = x[i]


def shifted(x, y):
    i = cuda.grid(1)
    y[i] = x[i + 1]


def every_second(x, y):
    i = cuda.grid(1)
    y[i] = x[2 * i]


def every_eighth(x, y):
    i = cuda.grid(1)
    y[i] = x[8 * i]


def backwards(x, y):
    i = cuda.grid(1)
    y[i] = x[x.size - 1 - i]


def one_for_all(x, y):
    y[cuda.grid(1)] = x[0]


# What 32 neighbours ask of memory, in sectors of 32 bytes.
READS = [
    (copy, np.float32, 128, 4),
    (shifted, np.float32, 129, 5),
    (every_second, np.float32, 256, 8),
    (every_eighth, np.float32, 1024, 32),
    (backwards, np.float32, 128, 4),
    (one_for_all, np.float32, 1, 1),
    (copy, np.float64, 128, 8),
    (copy, np.int8, 128, 1),
    (copy, np.int16, 128, 2),
    (shifted, np.float64, 129, 9),
    (every_second, np.float64, 256, 16),
]


@pytest.mark.parametrize("kernel, dtype, n, sectors", READS, ids=lambda v: getattr(v, "__name__", str(v)))
def test_sectors_of_a_warp(kernel, dtype, n, sectors):
    found = traffic(kernel, 2, 64, np.ones(n, dtype), np.zeros(128, np.float32))
    x, y = found.arrays["x"], found.arrays["y"]
    assert x.space == y.space == "global"
    assert (x.reads, x.writes, x.atomics) == (128, 0, 0) and (y.reads, y.writes) == (0, 128)
    assert x.sectors == WARPS * sectors
    assert y.sectors == y.best_sectors == WARPS * 4
    # At best the elements of a warp lie side by side; one element for all is one sector.
    size = np.dtype(dtype).itemsize
    assert x.best_sectors == WARPS * (1 if kernel is one_for_all else max(1, size))


def transpose_naive(x, y):
    i, j = cuda.grid(2)
    y[i, j] = x[j, i]


def test_naive_transpose_writes_32_sectors_a_warp():
    found = traffic(transpose_naive, 1, (32, 32), ramp(32, 32), zeros(32, 32)).arrays
    assert found["x"].sectors == 32 * 4 and found["y"].sectors == 32 * 32 and found["y"].best_sectors == 32 * 4


def transpose_tile(x, y):
    s = cuda.shared.array((32, 32), float32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    s[j, i] = x[j, i]
    cuda.syncthreads()
    y[j, i] = s[i, j]


def transpose_padded(x, y):
    s = cuda.shared.array((32, 33), float32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    s[j, i] = x[j, i]
    cuda.syncthreads()
    y[j, i] = s[i, j]


@pytest.mark.parametrize("kernel, cycles", [(transpose_tile, 32), (transpose_padded, 1)])
def test_a_column_of_a_tile(kernel, cycles):
    found = traffic(kernel, 1, (32, 32), ramp(32, 32), zeros(32, 32)).arrays
    s = found["s"]
    assert s.space == "shared" and (s.reads, s.writes) == (1024, 1024)
    assert s.bank_cycles == 32 * (1 + cycles) and s.best_bank_cycles == 32 * 2
    assert found["y"].sectors == 32 * 4


def shared_pattern(x, y, stride):
    s = cuda.shared.array(1024, float32)
    t = cuda.threadIdx.x
    for k in range(t, 1024, 32):
        s[k] = x[k]
    cuda.syncwarp()
    y[t] = s[t * stride]


@pytest.mark.parametrize(
    "stride, cycles", [(0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16), (17, 1), (32, 32)]
)
def test_stride_in_shared_memory(stride, cycles):
    found = traffic(shared_pattern, 1, 32, ramp(1024), zeros(32), stride).arrays["s"]
    assert found.bank_cycles == 32 + cycles


def tree(x, o):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    k = 32
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        cuda.syncthreads()
        k //= 2
    if t == 0:
        o[0] = s[0]


def test_counts_of_a_tree():
    found = traffic(tree, 1, 64, ramp(64), zeros(1))
    s = found.arrays["s"]
    assert (s.reads, s.writes) == (2 * 63 + 1, 64 + 63)
    assert (found.reads("global"), found.writes("global")) == (64, 1)
    assert (found.reads("shared"), found.writes("shared")) == (127, 127)


def product(a, b, c, n):
    col, row = cuda.grid(2)
    acc = float32(0)
    for k in range(n):
        acc += a[row, k] * b[k, col]
    c[row, col] = acc


def test_counts_of_a_product_by_line_and_by_array():
    n = 32
    found = traffic(product, (1, 4), (32, 8), ramp(n, n), ramp(n, n), zeros(n, n), n)
    first = product.__code__.co_firstlineno
    assert found.arrays["a"].reads == found.arrays["b"].reads == n**3 and found.arrays["c"].writes == n**2
    assert found.lines[(first + 4, "a")].reads == n**3 and found.lines[(first + 5, "c")].writes == n**2
    # A warp is a row: one element of a for all lanes, one row of b.
    assert found.arrays["a"].sectors == n * n * 1 and found.arrays["b"].sectors == n * n * 4


def local_sums(x, y):
    i = cuda.grid(1)
    acc = cuda.local.array(2, float64)
    acc[0] = 0.0
    acc[1] = 0.0
    for j in range(4):
        acc[j % 2] += x[i, j]
    y[i] = acc[0] + acc[1]


def test_local_arrays_are_counted_apart():
    found = traffic(local_sums, 1, 32, ramp(32, 4), zeros(32))
    acc = found.arrays["acc"]
    assert acc.space == "local" and (acc.reads, acc.writes) == (32 * 6, 32 * 6)
    assert found.reads("global") == 128 and found.reads("local") == 192
    assert found.arrays["x"].sectors == 4 * 16 and found.arrays["x"].best_sectors == 4 * 4


def count_bins(x, h):
    cuda.atomic.add(h, x[cuda.grid(1)], 1)


def test_atomics_are_counted_as_atomics():
    found = traffic(count_bins, 2, 64, np.arange(128, dtype=np.int32) % 8, np.zeros(8, np.int32))
    h = found.arrays["h"]
    assert h.atomics == 128 and h.reads == 0 and h.writes == 0


def guarded(x, y, n):
    i = cuda.grid(1)
    if i < n and x[i] > 0:
        y[i] = x[i]


def test_lanes_that_sit_out_are_not_counted():
    x = ramp(40)
    x[::2] = -1
    found = traffic(guarded, 1, 64, x, zeros(40), 40).arrays
    assert found["x"].reads == 40 + 20 and found["y"].writes == 20
    # 32 lanes ask for 4 sectors, 8 lanes for 1; of the odd ones 16 still touch all 4, and 4 touch 1.
    assert found["x"].sectors == 5 + 5 and found["y"].sectors == 5


def test_traffic_is_the_same_whatever_the_orders():
    plain = kernels.check(tree, orders=0)[1, 64](ramp(64), zeros(1)).traffic
    mixed = kernels.check(tree, orders=3, seed=9)[1, 64](ramp(64), zeros(1)).traffic
    assert plain.arrays == mixed.arrays and plain.lines == mixed.lines


def test_the_timeline_of_a_warp():
    trace = kernels.trace(tree, block=0, warp=1)[1, 64](ramp(64), zeros(1))
    first = tree.__code__.co_firstlineno
    events = [(e.line - first, e.what, e.array) for e in trace.events]
    # The second warp loads, waits, and has no part in any level of the tree but its barriers.
    assert events[:3] == [(3, "read", "x"), (3, "write", "s"), (4, "barrier", None)]
    assert [what for _, what, _ in events[3:]] == ["barrier"] * 6
    load = trace.events[0]
    assert tuple(load.lanes) == tuple(range(32)) and tuple(load.indices) == tuple(range(32, 64))
    times = [e.time for e in trace.events]
    assert times == sorted(times)
    first_warp = kernels.trace(tree, block=0, warp=0)[1, 64](ramp(64), zeros(1)).events
    adds = [(tuple(e.lanes), tuple(e.indices)) for e in first_warp if e.what == "write" and e.line == first + 8]
    assert adds == [(tuple(range(k)), tuple(range(k))) for k in (32, 16, 8, 4, 2, 1)]
