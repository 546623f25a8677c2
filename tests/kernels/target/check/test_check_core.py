"""The machine of the check target: batches of blocks, long logs, memory, order between blocks, calls with barriers."""

import sys

import numpy as np
import pytest
from check_kernels import (
    F,
    k_count,
    k_mean_and_spread,
    k_shift,
    k_sum_by_blocks,
    k_triangle,
    k_triangle_wrong,
    make_scale,
    ramp,
)
from numba import cuda

import kernels
from kernels.pairs import KERNELS

INSIDE = {name: f"kernels.target.check.{name}" for name in ("api", "races", "traffic")}


def part(name):
    """A module of the check target."""
    return sys.modules[INSIDE[name]]


def limits(patch, lanes, most, settle):
    patch.setattr(part("api"), "LANES", lanes)
    patch.setattr(part("races"), "MOST", most)
    patch.setattr(part("traffic"), "SETTLE", settle)


def outcome(kernel, grid, block, args):
    """The text of the report, and the results where they do not depend on who comes first."""
    report = kernels.check(kernel, orders=0)[grid, block](*args)
    return repr(report), [a.tobytes() for a in args if isinstance(a, np.ndarray) and report.ok]


CASES = {
    "triangle": lambda: (k_triangle, 5, 32, (ramp(5, 32), ramp(5, 32))),
    "wrong triangle": lambda: (k_triangle_wrong, 5, 32, (ramp(5, 32), ramp(5, 32))),
    "lost update": lambda: (k_count, 4, 96, (ramp(4 * 96), np.zeros(1, np.int32))),
    "layer norm": lambda: shipped("k_layernorm_bwd"),
    "product": lambda: shipped("k_matmul_tiled"),
    "loss": lambda: shipped("k_loss_bwd"),
}


def shipped(name):
    k = KERNELS[name]
    grid, args = k.example(k.default_block)
    return k, grid, k.default_block, args


@pytest.mark.parametrize("case", CASES)
def test_neither_the_batch_nor_the_length_of_the_log_shows(case, monkeypatch):
    first = outcome(*CASES[case]())
    for lanes, most, settle in ((1, 3_000_000, 1 << 18), (150, 400, 100)):
        limits(monkeypatch, lanes, most, settle)
        assert outcome(*CASES[case]()) == first


def test_blocks_that_pass_a_barrier_unequally_often():
    x, y = ramp(5, 32), np.zeros((5, 32), F)
    assert kernels.check(k_triangle)[5, 32](x, y).ok
    assert np.array_equal(y, np.cumsum(x[:, ::-1], axis=0, dtype=F))
    races = kernels.check(k_triangle_wrong)[5, 32](x, y).races
    assert [(f.array, f.count) for f in races] == [("s", 4 * 32)]  # block 0 comes round once


def test_barriers_in_device_functions_inside_expressions():
    x = np.sin(ramp(3, 64)).astype(F)
    y = np.zeros_like(x)
    report = kernels.check(k_mean_and_spread)[3, 64](x, y)
    assert report.ok, report
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    assert np.abs(y - want).max() < 1e-5


def test_kernels_from_a_factory_keep_their_own_numbers():
    x, y, z = ramp(3, 64), np.zeros((3, 64), F), np.zeros((2, 64), F)
    assert kernels.check(make_scale(2.0, 3))[2, 32](x, y).ok
    assert kernels.check(make_scale(5.0, 2))[2, 32](x[:2], z).ok
    assert np.array_equal(y, 2 * x[::-1]) and np.array_equal(z, 5 * x[1::-1])


def test_arguments_that_overlap_share_their_memory():
    x = ramp(65)
    report = kernels.check(k_shift)[2, 32](x, x[:64])
    assert report.races and report.races[0].array in ("x", "y")
    assert kernels.check(k_shift)[2, 32](ramp(65), np.zeros(64, F)).ok


@pytest.mark.parametrize("view", [np.s_[::2], np.s_[::-1], np.s_[3:68]])
def test_strided_arguments(view):
    x = ramp(130)[view][:65]
    y = np.zeros(130, F)[::-2][:64]
    assert kernels.check(k_shift)[2, 32](x, y).ok
    assert np.array_equal(y, x[1:65])


def test_a_transposed_argument_and_its_sectors():
    x, y = ramp(32, 32), np.zeros((32, 32), F)
    report = kernels.check(make_scale(1.0, 32))[1, 32](x.T, y)
    assert np.array_equal(y, x.T[::-1])
    assert report.traffic.arrays["x"].sectors == 32 * 32 and report.traffic.arrays["y"].sectors == 32 * 4


@pytest.mark.parametrize("fenced", [True, False])
def test_the_last_block_may_add_up_only_behind_a_fence(fenced):
    args = (ramp(256), np.zeros(4, F), np.zeros(1, np.int32), np.zeros(1, F), fenced)
    report = kernels.check(k_sum_by_blocks)[4, 64](*args)
    assert args[3][0] == 64 + 128 + 192
    assert report.ok if fenced else [f.array for f in report.races] == ["part"]


def test_lost_updates_are_counted_across_blocks_too():
    report = kernels.check(k_count)[4, 32](ramp(128), np.zeros(1, np.int32))
    (fault,) = report.lost_updates
    assert fault.count == 1 and fault.source == "counts[0] += 1" and "other blocks do too" in fault.message


def test_a_dispatcher_of_numba_is_taken_as_it_is():
    x, y = ramp(65), np.zeros(64, F)
    assert kernels.check(cuda.jit(k_shift.fn))[2, 32](x, y).ok and np.array_equal(y, x[1:])


def test_read_only_arguments_are_not_written():
    x = ramp(65)
    x.flags.writeable = False
    report = kernels.check(k_shift)[1, 64](ramp(65), x)
    assert [f.kind for f in report.faults] == ["error"] and "read-only" in report.faults[0].message
