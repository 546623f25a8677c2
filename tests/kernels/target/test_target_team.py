"""The threads that run launches: order, errors, interrupts, forks, and a run that allocates next to nothing."""

import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from kernels.target import Launch, run, set_threads, team, threads

F = np.float32
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def three_threads():
    before = threads()
    set_threads(3)
    yield
    set_threads(before)


def launch(name, function, count):
    return Launch(name, [(function, (k,)) for k in range(count)])


def test_launches_run_in_order_with_a_barrier_between():
    seen, lock = [], threading.Lock()

    def note(label):
        def task(k):
            time.sleep(0.0005 * (k % 3))
            with lock:
                seen.append(label)

        return task

    run([launch(f"l{n}", note(n), 7) for n in range(20)])
    assert seen == sorted(seen) and len(seen) == 140


def test_tasks_are_shared_among_threads():
    who = set()
    meet = threading.Barrier(3, timeout=20)

    def task(k):
        meet.wait()
        who.add(threading.get_ident())

    run([launch("meet", task, 3)])
    assert len(who) == 3 and threading.get_ident() in who


@pytest.mark.parametrize("count", [1, 8])
def test_an_error_in_a_task_reaches_the_caller_and_stops_the_run(count):
    after = []

    def broken(k):
        if k == count - 1:
            raise ValueError("task failed")
        time.sleep(0.001)

    with pytest.raises(ValueError, match="task failed"):
        run([launch("broken", broken, count), launch("after", after.append, 4)])
    assert not after
    run([launch("again", after.append, 4)])
    assert sorted(after) == [0, 1, 2, 3]


def test_seconds_by_name():
    timer = {}
    run(
        [launch("a", lambda k: time.sleep(0.01), 1), launch("b", lambda k: None, 5), launch("a", lambda k: None, 1)],
        timer,
    )
    assert set(timer) == {"a", "b"} and timer["a"] >= 0.01


def test_a_run_inside_a_run_works_on_the_calling_thread():
    seen = []
    run([launch("outer", lambda k: run([launch("inner", seen.append, 2)]), 2)])
    assert sorted(seen) == [0, 0, 1, 1]


def test_runs_from_several_threads_at_once():
    totals = np.zeros(4, np.int64)

    def worker(n):
        def task(k):
            totals[n] += 1

        for _ in range(20):
            run([launch("w", task, 1)])

    group = [threading.Thread(target=worker, args=(n,)) for n in range(4)]
    for t in group:
        t.start()
    for t in group:
        t.join()
    assert totals.tolist() == [20] * 4


def test_an_interrupt_leaves_no_task_running():
    running = [0]
    started = threading.Event()

    def slow(k):
        running[0] += 1
        started.set()
        for _ in range(20):
            time.sleep(0.005)
        running[0] -= 1

    def interrupt():
        started.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    killer = threading.Thread(target=interrupt)
    killer.start()
    with pytest.raises(KeyboardInterrupt):
        run([launch("slow", slow, 60)])
    killer.join()
    helpers = running[0] - 1  # the interrupted task of this thread never counts down
    assert helpers <= 0
    done = []
    run([launch("next", done.append, 6)])
    assert sorted(done) == list(range(6))


def test_a_run_allocates_next_to_nothing(write):
    module = write("\n@kernel\ndef k(x, n):\n    i = cuda.grid(1)\n    if i < n:\n        x[i] += float32(1)\n")
    x = np.zeros(200_000, F)
    launches = [module.k[(x.size + 255) // 256, 256].bind(x, x.size) for _ in range(100)]
    launches += [module.k[1, 32].bind(x, 32) for _ in range(40)]
    for _ in range(3):
        run(launches)
    tracemalloc.start()
    try:
        run(launches)
        first, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(5):
            run(launches)
        last, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - first < 16 * 1024
    assert last - first < 1024


def test_the_blas_librarys_threads_are_held_and_handed_back():
    from threadpoolctl import ThreadpoolController

    pools = ThreadpoolController().select(user_api="blas").lib_controllers
    before = [p.get_num_threads() for p in pools]
    inside = []

    def look(k):
        inside.append([p.get_num_threads() for p in pools])

    run([launch("ours", look, 1)])
    run([Launch("library", [(look, (0,))], blas=True), launch("ours", look, 1)])
    Launch("library", [(look, (0,))], blas=True).run()
    held = [1] * len(pools)
    assert inside == [before, held, held, held]
    assert [p.get_num_threads() for p in pools] == before


def test_helpers_keep_off_the_callers_processor():
    mine = os.sched_getaffinity(0)
    first = min(mine)
    set_threads(2)
    try:
        for here in (first, max(mine)):
            os.sched_setaffinity(0, {here})  # moves this thread there
            os.sched_setaffinity(0, mine)
            run([launch("work", lambda k: time.sleep(0.0002), 6)])
            team_now = team._current_team()
            helper = team_now.members[0].thread.native_id
            assert team_now.processor in mine
            assert os.sched_getaffinity(helper) == (mine - {team_now.processor} or mine)
    finally:
        os.sched_setaffinity(0, mine)


def test_more_threads_than_processors_are_left_where_they_are():
    mine = os.sched_getaffinity(0)
    set_threads(len(mine) + 1)
    run([launch("work", lambda k: None, 6)])
    members = team._current_team().members
    assert all(os.sched_getaffinity(member.thread.native_id) == mine for member in members)


def test_after_a_fork_the_child_has_threads_of_its_own(write):
    module = write("\n@kernel\ndef k(x, n):\n    i = cuda.grid(1)\n    if i < n:\n        x[i] += float32(1)\n")
    program = f"""
import os, sys, importlib.util
import numpy as np
from kernels.target import run, set_threads
spec = importlib.util.spec_from_file_location("m", {module.__file__!r})
m = importlib.util.module_from_spec(spec); spec.loader.exec_module(m)
set_threads(3)
x = np.zeros(1 << 20, np.float32)
launch = m.k[4096, 256].bind(x, x.size)
run([launch])
child = os.fork()
if child == 0:
    run([launch])
    os._exit(0 if (x == 2).all() else 1)
_, status = os.waitpid(child, 0)
run([launch])
print(os.waitstatus_to_exitcode(status), (x == 2).all())
"""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["0", "True"], done.stderr


def test_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(team, "_size", None)
    monkeypatch.setenv("ANDREA_THREADS", "5")
    assert threads() == 5
    for wrong in ("0", "many", "-2", "1.5", ""):
        monkeypatch.setenv("ANDREA_THREADS", wrong)
        with pytest.raises(Exception, match="ANDREA_THREADS is .*, expected a whole number of threads, at least 1"):
            threads()
    monkeypatch.delenv("ANDREA_THREADS")
    assert 1 <= threads() <= (os.cpu_count() or 1)
