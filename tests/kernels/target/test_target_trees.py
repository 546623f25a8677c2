"""Loops over barriers that are written out, and tasks that threads share out among themselves."""

import ctypes
import math
import threading
import time

import numpy as np
import pytest

from kernels.matmul import together
from kernels.target import KernelError, Launch, ptx, run, set_threads, team, threads

F = np.float32

SUM = """
@kernel
def k(x, out, n):
    part = cuda.shared.array(64, float32)
    tx = cuda.threadIdx.x
    part[tx] = x[cuda.blockIdx.x * 64 + tx]
    cuda.syncthreads()
{loop}
    if tx == 0:
        out[cuda.blockIdx.x] = part[0] + float32(s)
"""
TREE = """
    s = 32
    while s > 0:
        if tx < s:
            part[tx] += part[tx + s]
        cuda.syncthreads()
        s //= 2
"""
UP = """
    s = 1
    while s < 64:
        if tx % (2 * s) == 0 and tx + s < 64:
            part[tx] += part[tx + s]
        cuda.syncthreads()
        s *= 2
"""
OFFSET = """
    s = 64
    while s > 1:
        s >>= 1
        if tx < s:
            part[tx] += part[tx + s]
        cuda.syncthreads()
"""
LENGTH = TREE.replace("s = 32", "s = n")
BREAK = """
    s = 32
    while s > 0:
        if tx < s:
            part[tx] += part[tx + s]
        cuda.syncthreads()
        if s == 4:
            break
        s //= 2
"""
NESTED = """
    s = 32
    while s > 0:
        if tx < s:
            part[tx] += part[tx + s]
        cuda.syncthreads()
        if n > 0:
            s //= 2
"""
LONG = """
    s = 63
    while s > 0:
        if tx < s:
            part[tx] += part[tx + 1]
        cuda.syncthreads()
        s -= 1
"""


@pytest.mark.parametrize(("loop", "written_out"), [(TREE, True), (UP, True), (OFFSET, True), (LENGTH, False),
                                                    (BREAK, False), (NESTED, False)])  # fmt: skip
def test_a_loop_gives_what_the_simulator_gives_written_out_or_not(write, loop, written_out):
    k = write(SUM.format(loop=loop)).k
    x = np.random.default_rng(1).standard_normal(192).astype(F)
    out, expected = np.zeros(3, F), np.zeros(3, F)
    k[3, 64](x, out, 32)
    ptx.simulate(k, 3, 64, (x, expected, 32))
    assert out.tobytes() == expected.tobytes()
    assert ("while" not in k.code(64, x, out, 32)) == written_out


def test_a_loop_of_many_rounds_stays_a_loop(write):
    """63 rounds in text would be longer to compile than to run. Each reads what the next thread writes: no check."""
    k = write(SUM.format(loop=LONG)).k
    assert "while" in k.code(64, np.zeros(192, F), np.zeros(3, F), 32)


ROWS = """
@kernel
def k(x, step, n):
    row = cuda.blockIdx.x
    for j in range(cuda.threadIdx.x, 64, cuda.blockDim.x):
        for r in range(0, n, step):
            x[row, j] += float32(1)
"""


def test_threads_share_every_range_out_exactly_once(write):
    k = write(ROWS).k
    x = np.zeros((1000, 64), F)
    made = k[1000, 32].bind(x, 1, 3)
    ((call, arguments),) = made.shared
    assert len(made.tasks) > 4
    for size in (1, 2, 5):
        x[:] = 0
        arguments[-1][-1] = 0
        team = [threading.Thread(target=call, args=arguments) for _ in range(size)]
        [t.start() for t in team]
        [t.join() for t in team]
        assert (x == 3).all()
    before = threads()
    try:
        for size in (1, 2, 3):
            set_threads(size)
            x[:] = 0
            run([made, made])
            assert (x == 6).all()
    finally:
        set_threads(before)


def test_an_error_in_a_shared_range_reaches_the_caller(write):
    k = write(ROWS).k
    x = np.zeros((1000, 64), F)
    made = k[1000, 32].bind(x, 0, 3)
    assert len(made.shared) == 1 and isinstance(made.shared[0][1][-1], ctypes.Array)
    with pytest.raises(KernelError, match="step of zero"):
        run([made])
    run([k[1000, 32].bind(x, 1, 3)])
    assert (x == 3).all()


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(("seconds", "compiled"), [(math.inf, False), (0.5, False), (0.001, True)])
def test_only_what_was_short_last_time_is_shared_out_in_compiled_code(write, seconds, compiled, size):
    """Between tasks Ctrl-C is heard; inside compiled code it is not."""
    k = write(ROWS).k
    x = np.zeros((1000, 64), F)
    made = k[1000, 32].bind(x, 1, 3)
    made.seconds = seconds
    before = threads()
    set_threads(size)
    try:
        run([made])
    finally:
        set_threads(before)
    taken = made.shared[0][1][-1][-1]
    assert (x == 3).all() and (taken > len(made.tasks) if compiled else taken == 0)
    assert 0 < made.seconds < 10


def test_helpers_join_jobs_of_compiled_code_and_python_tasks_in_one_run(write):
    """Hundreds of launches of both kinds in turn, the same bits every time, and work for every thread."""
    module = write(ROWS)
    x, y = np.zeros((256, 64), F), np.zeros((256, 64), F)
    quick, slow = module.k[256, 32].bind(x, 1, 5), module.k[256, 32].bind(y, 1, 5)
    who = set()

    def note(k):
        who.add(threading.get_ident())
        time.sleep(0.0005)

    before = threads()
    set_threads(3)
    try:
        for _ in range(60):
            quick.seconds, slow.seconds = 0.0, math.inf
            run([quick, slow, Launch("note", [(note, (0,))] * 3), quick])
    finally:
        set_threads(before)
    assert (x == 600).all() and (y == 300).all()
    assert len(who) > 1


def test_a_helper_that_slept_finds_its_way_back(write):
    k = write(ROWS).k
    x = np.zeros((4096, 64), F)
    made = k[4096, 32].bind(x, 1, 50)
    before = threads()
    set_threads(2)
    try:
        run([made])
        members = team._current_team().members
        for _ in range(5):
            end = time.monotonic() + 10
            while not members[0].asleep and time.monotonic() < end:
                time.sleep(0.001)
            assert members[0].asleep
            run([made])
    finally:
        set_threads(before)
    assert (x == 300).all()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_launches_that_do_not_wait_for_each_other_are_one_job(write, size):
    k = write(ROWS).k
    arrays = [np.zeros((300 * (n + 1), 64), F) for n in range(3)]
    (both,) = together(*[[k[len(a), 32].bind(a, 1, n + 1)] for n, a in enumerate(arrays)])
    both.seconds, before = 0.0, threads()
    set_threads(size)
    try:
        for _ in range(20):
            run([both])
    finally:
        set_threads(before)
    assert len(both.shared) == 3 and [(a == 20 * (n + 1)).all() for n, a in enumerate(arrays)] == [True] * 3


def test_an_error_in_one_part_of_a_job_reaches_the_caller(write):
    k = write(ROWS).k
    right, wrong = np.zeros((300, 64), F), np.zeros((300, 64), F)
    (both,) = together([k[300, 32].bind(wrong, 0, 3)], [k[300, 32].bind(right, 1, 3)])
    both.seconds, before = 0.0, threads()
    set_threads(2)
    try:
        with pytest.raises(KernelError, match="step of zero"):
            run([both])
    finally:
        set_threads(before)
    assert (right == 3).all()
