"""What kernels mean on the CPU target: blocks, shared memory, barriers, atomics, shuffles, device functions."""

import numpy as np
import pytest
import semantic_kernels

from kernels.target import ptx

F = np.float32


@pytest.fixture
def m():
    return semantic_kernels


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
