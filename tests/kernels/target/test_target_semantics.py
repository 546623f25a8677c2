"""What kernels mean on the CPU target: blocks, shared memory, barriers, atomics, shuffles, device functions."""

import numpy as np
import pytest

from kernels.target import ptx

F = np.float32
TEXT = """
SIZE = 64


@device
def square(v):
    return v * v


@device
def norm(v, w):
    if v > w:
        return math.sqrt(square(v) + square(w))
    return square(v) + square(w)


@device
def fill(a, k, v):
    a[k] = v


@kernel
def k_device(x, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = norm(x[i], float32(2))


@kernel
def k_device_array(x, out):
    a = cuda.local.array(4, float32)
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    for j in range(4):
        fill(a, j, x[t] + float32(j))
    fill(s, t, a[3])
    cuda.syncthreads()
    out[t] = s[63 - t] + a[0]


@kernel
def k_neighbours(x, out):
    s = cuda.shared.array(SIZE, float32)
    t = cuda.threadIdx.x
    v = x[t]
    s[t] = v
    cuda.syncthreads()
    if t % 2 == 0:
        v = s[t + 1] * float32(10)
    else:
        w = v + float32(1)
        v = s[t - 1] + w * float32(0)
    cuda.syncthreads()
    out[t] = v


@kernel
def k_box(x, out):
    s = cuda.shared.array((2, 4, 8), float32)
    a, b, c = cuda.threadIdx.z, cuda.threadIdx.y, cuda.threadIdx.x
    s[a, b, c] = x[cuda.blockIdx.x, a, b, c]
    cuda.syncthreads()
    out[cuda.blockIdx.x, a, b, c] = s[1 - a, 3 - b, 7 - c]


@kernel
def k_grid3(out):
    x, y, z = cuda.grid(3)
    gx, gy, gz = cuda.gridsize(3)
    if x < out.shape[2] and y < out.shape[1] and z < out.shape[0]:
        out[z, y, x] = (z * gy + y) * gx + x


@kernel
def k_flat(out):
    x, y = cuda.grid(2)
    out[y, x] = x + 100 * y + 10000 * cuda.threadIdx.y


@kernel
def k_transpose(x, out, n):
    tile = cuda.shared.array((16, 17), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    i = cuda.blockIdx.x * 16 + tx
    j = cuda.blockIdx.y * 16 + ty
    if i < n and j < n:
        tile[ty, tx] = x[j, i]
    else:
        tile[ty, tx] = float32(0)
    cuda.syncthreads()
    i = cuda.blockIdx.y * 16 + tx
    j = cuda.blockIdx.x * 16 + ty
    if i < n and j < n:
        out[j, i] = tile[tx, ty]


@kernel
def k_last(x, out):
    out[cuda.grid(1)] = x[-1] + x[SIZE - 1 - cuda.threadIdx.x]


@kernel
def k_reused(x, out):
    t = cuda.threadIdx.x
    v = t * 2
    out[t, 0] = float32(v)
    v = x[t] * float32(0.5)
    cuda.syncthreads()
    out[t, 1] = v
    n = 3
    for j in range(n):
        n = j
    out[t, 2] = float32(n)
    for j in range(t):
        pass
    out[t, 3] = float32(t if t == 0 else j)


@kernel
def k_counts(x, hist, first, order, n):
    h = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        h[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(h, x[i] % 8, 1)
        old = cuda.atomic.add(first, 0, 1)
        order[old] = i
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(hist, t, h[t])


@kernel
def k_atomics(x, out, old):
    i = cuda.grid(1)
    v = x[i]
    old[i, 0] = cuda.atomic.max(out, 0, v)
    old[i, 1] = cuda.atomic.min(out, 1, v)
    old[i, 2] = cuda.atomic.sub(out, 2, v)
    old[i, 3] = cuda.atomic.exch(out, 3, v)
    old[i, 4] = cuda.atomic.cas(out, 4, 3, v)
    old[i, 5] = cuda.atomic.or_(out, 5, v)
    old[i, 6] = cuda.atomic.and_(out, 6, v)
    old[i, 7] = cuda.atomic.xor(out, 7, v)
    old[i, 8] = cuda.atomic.inc(out, 8, 5)
    old[i, 9] = cuda.atomic.dec(out, 9, 5)


@kernel
def k_float_atomic(x, total, n):
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(total, 0, x[i])


@kernel
def k_shuffles(x, out):
    t = cuda.threadIdx.x
    v = x[t]
    out[0, t] = cuda.shfl_down_sync(0xFFFFFFFF, v, 3)
    out[1, t] = cuda.shfl_up_sync(0xFFFFFFFF, v, 3)
    out[2, t] = cuda.shfl_xor_sync(0xFFFFFFFF, v, 5)
    out[3, t] = cuda.shfl_sync(0xFFFFFFFF, v, 7)
    total = v
    for k in range(5):
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, 1 << k)
    out[4, t] = total
    half = 16
    while half > 0:
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, half)
        half //= 2
    if t % 32 == 0:
        out[5, t] = v


@kernel
def k_first_warp(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    if t < 32:
        v = s[t] + s[t + 32]
        for k in range(5):
            v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16 >> k)
        if t == 0:
            out[0] = v
    if x[t] > float32(0):
        w = cuda.shfl_sync(0xFFFFFFFF, s[t], cuda.laneid)
        cuda.syncwarp()
        out[1 + t] = w


@kernel
def k_early(x, out, n):
    i = cuda.grid(1)
    if i >= n:
        return
    if x[i] < float32(0):
        out[i] = float32(-1)
        return
    out[i] = x[i]


@kernel
def k_uniform_return(x, out, rows):
    row = cuda.blockIdx.x
    s = cuda.shared.array(32, float32)
    if row >= rows:
        return
    s[cuda.threadIdx.x] = x[row, cuda.threadIdx.x]
    cuda.syncthreads()
    out[row, cuda.threadIdx.x] = s[31 - cuda.threadIdx.x]


@kernel
def k_collatz(x, out, n):
    i = cuda.grid(1)
    if i < n:
        v = x[i]
        steps = 0
        while v != 1 and steps < 200:
            if v % 2 == 0:
                v //= 2
                steps += 1
                continue
            v = 3 * v + 1
            steps += 1
        out[i] = steps
"""


@pytest.fixture(scope="module")
def m(tmp_path_factory):
    from conftest import HEADER, load

    path = tmp_path_factory.mktemp("semantics") / "semantics.py"
    path.write_text(HEADER + TEXT)
    return load(path)


def rand(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(F)


def test_device_functions(m):
    x, out = rand(100) * 3, np.zeros(100, F)
    m.k_device[4, 32](x, out, 100)
    square = x * x + F(4)
    assert np.allclose(out, np.where(x > 2, np.sqrt(square), square), rtol=1e-6)
    assert m.square(3) == 9
    again = np.zeros(100, F)
    ptx.simulate(m.k_device, 4, 32, (x, again, 100))
    assert np.allclose(out, again, rtol=1e-6)


@pytest.mark.parametrize("cc", [(7, 5), (9, 0)])
def test_device_functions_as_ptx(m, cc):
    from numba import types

    array = types.Array(types.float32, 1, "C")
    text = ptx.compile_ptx(m.k_device, (array, array, types.int64), cc=cc)
    assert f".target sm_{cc[0]}{cc[1]}" in text and ".f64" not in text


def test_device_functions_that_write_arrays(m):
    x, out = rand(64), np.zeros(64, F)
    m.k_device_array[1, 64](x, out)
    assert np.array_equal(out, (x + F(3))[::-1] + x)


def test_values_live_across_barriers(m):
    x, out = rand(64), np.zeros(64, F)
    m.k_neighbours[1, 64](x, out)
    pairs = x.reshape(-1, 2)
    assert np.array_equal(out, np.stack([pairs[:, 1] * 10, pairs[:, 0]], 1).ravel())


def test_blocks_of_three_dimensions(m):
    x = rand(3, 2, 4, 8)
    out = np.zeros_like(x)
    m.k_box[3, (8, 4, 2)](x, out)
    assert np.array_equal(out, x[:, ::-1, ::-1, ::-1])


def test_grids_of_three_dimensions(m):
    out = np.full((3, 5, 9), -1, np.int64)
    m.k_grid3[(5, 3, 2), (2, 2, 2)](out)
    z, y, x = np.indices(out.shape)
    assert np.array_equal(out, (z * 6 + y) * 10 + x)


@pytest.mark.parametrize("block", [(4, 2), (8, 1), (1, 4), (1, 1)])
def test_two_dimensional_kernels_with_flat_blocks(m, block):
    out = np.zeros((8, 16), np.int64)
    m.k_flat[(16 // block[0], 8 // block[1]), block](out)
    y, x = np.indices(out.shape)
    assert np.array_equal(out, x + 100 * y + 10000 * (y % block[1]))


@pytest.mark.parametrize("n", [1, 16, 37])
def test_transpose_through_a_tile(m, n):
    x = rand(n, n)
    out = np.zeros_like(x)
    m.k_transpose[((n + 15) // 16,) * 2, (16, 16)](x, out, n)
    assert np.array_equal(out, x.T)


def test_a_literal_negative_index_counts_from_the_end(m):
    x, out = rand(64), np.zeros(64, F)
    m.k_last[1, 64](x, out)
    assert np.array_equal(out, x[-1] + x[::-1])


def test_names_used_for_several_things(m):
    x, out = rand(32), np.zeros((32, 4), F)
    m.k_reused[1, 32](x, out)
    t = np.arange(32)
    assert np.array_equal(out, np.stack([2 * t, x * F(0.5), 0 * t + 2, np.maximum(t - 1, 0)], 1).astype(F))


def test_shared_and_global_atomics_and_old_values(m):
    n = 300
    x = np.random.default_rng(1).integers(0, 8, n)
    hist, first, order = np.zeros(8, np.int32), np.zeros(1, np.int64), np.full(n, -1)
    launch = m.k_counts[3, 128].bind(x, hist, first, order, n)
    assert len(launch.tasks) == 1
    launch.run()
    assert np.array_equal(hist, np.bincount(x, minlength=8))
    assert np.array_equal(order, np.arange(n))


def test_every_atomic(m):
    x = np.random.default_rng(2).integers(0, 9, 40)
    start = np.array([3, 3, 3, 3, 3, 1, 15, 3, 0, 0])
    out, old = start.copy(), np.zeros((40, 10), np.int64)
    m.k_atomics[5, 8](x, out, old)
    values, seen = start.tolist(), []
    for v in x.tolist():
        seen.append(list(values))
        a = values
        values = [max(a[0], v), min(a[1], v), a[2] - v, v, v if a[4] == 3 else a[4], a[5] | v, a[6] & v, a[7] ^ v]
        values += [0 if a[8] >= 5 else a[8] + 1, 5 if a[9] == 0 or a[9] > 5 else a[9] - 1]
    assert np.array_equal(old, seen)
    assert out.tolist() == values


def test_float_atomics_add_in_the_order_of_the_blocks(m):
    x, total = rand(1000), np.zeros(1, F)
    m.k_float_atomic[8, 128](x, total, 1000)
    expected = F(0)
    for v in x:
        expected = F(expected + v)
    assert total[0] == expected


def test_shuffles(m):
    x, out = rand(64), np.zeros((6, 64), F)
    m.k_shuffles[1, 64](x, out)
    w = x.reshape(2, 32)
    t = np.arange(32)
    assert np.array_equal(out[0].reshape(2, 32), np.where(t + 3 < 32, w[:, np.minimum(t + 3, 31)], w))
    assert np.array_equal(out[1].reshape(2, 32), np.where(t >= 3, w[:, np.maximum(t - 3, 0)], w))
    assert np.array_equal(out[2].reshape(2, 32), w[:, t ^ 5])
    assert np.array_equal(out[3].reshape(2, 32), np.repeat(w[:, 7:8], 32, 1))
    assert np.allclose(out[4].reshape(2, 32), w.sum(1, keepdims=True), atol=1e-5)
    assert np.allclose(out[5, [0, 32]], w.sum(1), atol=1e-5)


def test_shuffles_in_some_warps_and_lanes_only(m):
    x, out = rand(64), np.zeros(65, F)
    m.k_first_warp[1, 64](x, out)
    assert np.isclose(out[0], x.sum(), atol=1e-5)
    assert np.array_equal(out[1:], np.where(x > 0, x, F(0)))


def test_early_returns(m):
    x, out = rand(100), np.zeros(128, F)
    m.k_early[4, 32](x, out, 100)
    assert np.array_equal(out[:100], np.where(x < 0, F(-1), x)) and not out[100:].any()
    x, out = rand(5, 32), np.zeros((5, 32), F)
    m.k_uniform_return[8, 32](x, out, 5)
    assert np.array_equal(out, x[:, ::-1])


def test_loops_that_differ_between_threads(m):
    x, out = np.arange(1, 101), np.zeros(100, np.int64)
    m.k_collatz[4, 32](x, out, 100)

    def steps(v):
        count = 0
        while v != 1:
            v, count = (v // 2, count + 1) if v % 2 == 0 else (3 * v + 1, count + 1)
        return count

    assert out.tolist() == [steps(v) for v in x.tolist()]


def test_closures_over_sizes_and_two_kernels_of_one_name(write):
    module = write("""
def make(size, scale):
    @kernel
    def k(x, out):
        s = cuda.shared.array(size, float32)
        t = cuda.threadIdx.x
        s[t] = x[t] * scale
        cuda.syncthreads()
        out[t] = s[size - 1 - t]
    return k
""")
    x = rand(64)
    for size, scale in ((64, F(2)), (32, F(2)), (32, F(3))):
        out = np.zeros(size, F)
        module.make(size, scale)[1, size](x, out)
        assert np.array_equal(out, (x[:size] * scale)[::-1])


def test_a_global_constant_is_read_at_the_launch(write):
    module = write("\nSTEP = 2\n\n\n@kernel\ndef k(out):\n    out[cuda.grid(1)] = STEP * cuda.grid(1)\n")
    out = np.zeros(8, np.int64)
    module.k[1, 8](out)
    assert out[7] == 14
    module.STEP = 5
    module.k[1, 8](out)
    assert out[7] == 35


def test_intrinsics_under_other_names(write):
    module = write("""
import numba
import numba.cuda as nc
from numba.cuda import syncthreads, threadIdx


@kernel
def k(out):
    s = nc.shared.array(8, dtype=cuda.int32)
    s[threadIdx.x] = numba.cuda.blockDim.x
    syncthreads()
    out[nc.grid(1)] = s[7 - threadIdx.x] + nc.warpsize
""")
    out = np.zeros(8, np.int64)
    module.k[1, 8](out)
    assert out.tolist() == [40] * 8
