"""The trace of a warp: its own accesses in order, with lanes and elements, its barriers and shuffles."""

import numpy as np
import pytest
from check_kernels import F, k_layernorm, k_reverse, k_warp_tree, ramp

import kernels
from kernels.target import KernelError


def test_the_events_of_a_warp_in_order():
    trace = kernels.trace(k_reverse, warp=1)[1, 64](ramp(64), np.zeros(64, F))
    assert [(e.time, e.what, e.array, e.space) for e in trace.events] == [
        (0, "read", "x", "global"),
        (1, "write", "s", "shared"),
        (2, "read", "s", "shared"),
        (3, "write", "y", "global"),
    ]
    assert trace.events[0].lanes == tuple(range(32)) and trace.events[0].indices == tuple(range(32, 64))
    assert trace.events[2].indices == tuple(range(31, -1, -1))
    assert trace.threads[0] == (32, 0, 0) and len(trace.threads) == 32
    assert trace.lines[trace.events[1].line] == "s[t] = x[t]"
    assert trace.shapes == {"x": (64,), "s": (64,), "y": (64,)} and trace.report.races


def test_barriers_shuffles_and_lanes_that_sit_out():
    trace = kernels.trace(k_warp_tree)[1, 32](ramp(32), np.zeros(32, F))
    assert [e.what for e in trace.events] == [
        "read",
        "write",
        "warp_barrier",
        "read",
        "read",
        "shuffle",
        "barrier",
        "write",
    ]
    assert [len(e.lanes) for e in trace.reads("s")] == [16, 16]
    assert trace.barriers()[0].array is None and trace.barriers()[0].indices == ()


@pytest.mark.parametrize("where", [{"block": 1}, {"warp": 2}, {"block": (0, 1, 0)}])
def test_a_warp_that_is_not_there(where):
    with pytest.raises(KernelError, match="trace of k_reverse: no block"):
        kernels.trace(k_reverse, **where)[1, 64](ramp(64), np.zeros(64, F))


def test_a_launch_that_cannot_run_has_a_trace_without_events():
    trace = kernels.trace(k_reverse)[1, 2048](ramp(64), np.zeros(64, F))
    assert trace.events == () and trace.report.limits


@pytest.mark.parametrize("block", [2, (2, 0, 0)])
def test_a_block_by_number_or_by_place_and_indices_of_a_matrix(block):
    C = 256
    args = (ramp(4, C), ramp(C), ramp(C), np.zeros((4, C), F), C, F(1e-5))
    trace = kernels.trace(k_layernorm, block=block, warp=3)[4, 128](*args)
    first = trace.reads("inp")[0]
    assert first.indices == tuple(2 * C + 96 + lane for lane in range(32))
    assert len(trace.writes("out")) == 2 and trace.report.ok
    assert len(trace.barriers()) == 2 * (1 + 7) + 1
