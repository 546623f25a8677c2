"""A kernel with one thing changed: the rest of it, its name and its lines stay."""

import numpy as np
import pytest
from numba import cuda, float32

import kernels
from andrea_lab.lesson.changed import resized, without
from kernels.target import kernel

SIZE = 16


@kernel
def turn_round(x, out):
    part = cuda.shared.array(SIZE, float32)
    t = cuda.threadIdx.x
    part[t] = x[t]
    cuda.syncthreads()
    out[t] = part[SIZE - 1 - t]
    cuda.syncthreads()


def make(shift):
    @kernel
    def add(x, n):
        i = cuda.grid(1)
        if i < n:
            x[i] += float32(shift)

    return add


def launch(changed, size=SIZE):
    x, out = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    return kernels.check(changed)[1, size](x, out), out


def test_the_kernel_itself_is_left_alone():
    without(turn_round, "cuda.syncthreads()")
    report, out = launch(turn_round)
    assert report.ok and out[0] == SIZE - 1


def test_a_race_is_reported_where_the_kernel_stands():
    report, _ = launch(without(turn_round, "cuda.syncthreads()"))
    first = turn_round.fn.__code__.co_firstlineno
    assert [(f.kind, f.line - first, f.file.endswith("test_changed.py")) for f in report.faults] == [("race", 4, True)]
    assert report.faults[0].source.strip() == "part[t] = x[t]"


def test_the_nth_line_and_no_other():
    report, _ = launch(without(turn_round, "cuda.syncthreads()", 2))
    assert report.ok
    assert without(turn_round, "cuda.syncthreads()", 2).source.text.count("syncthreads") == 1


def test_two_changes_add_up():
    report, _ = launch(resized(without(turn_round, "cuda.syncthreads()"), SIZE=4), 4)
    first = turn_round.fn.__code__.co_firstlineno
    assert [(f.kind, f.line - first) for f in report.faults] == [("race", 4)]
    report, out = launch(resized(turn_round, SIZE=4), 4)
    assert report.ok and out.tolist() == [3, 2, 1, 0]


def test_it_runs_compiled():
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    resized(turn_round, SIZE=4)[1, 4](x, out)
    assert out.tolist() == [3, 2, 1, 0]


def test_constants_from_a_factory():
    x = np.zeros(3, np.float32)
    resized(make(1), shift=5)[1, 4](x, 3)
    assert x.tolist() == [5, 5, 5]
    without(make(1), "x[i] += float32(shift)")[1, 4](x, 3)
    assert x.tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda: without(turn_round, "cuda.syncthreads()", 3),
            "found 2 lines that read 'cuda.syncthreads()', expected at least 3",
        ),
        (
            lambda: without(turn_round, "cuda.syncwarp()"),
            "found 0 lines that read 'cuda.syncwarp()', expected at least 1",
        ),
        (lambda: resized(turn_round, WIDTH=4), "turn_round: found no constant 'WIDTH' in it"),
    ],
)
def test_what_is_not_there_is_named(change, message):
    with pytest.raises(ValueError, match="turn_round") as caught:
        change()
    assert message in str(caught.value)
