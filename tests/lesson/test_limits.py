"""A process with limits: whatever it does, the parent is told in a word, and the next one works."""

import os
import signal
import sys
import threading
import time

import pytest

from andrea_lab.lesson import limits

# The module alone, without the package around it, which takes a second to load.
START = f"""import importlib.util, os, resource, signal, sys, time
spec = importlib.util.spec_from_file_location("limits", {limits.__file__!r})
limits = importlib.util.module_from_spec(spec)
spec.loader.exec_module(limits)
"""


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    monkeypatch.setattr(limits, "PATIENCE", 1)


def child(body, seconds=20.0):
    """The answer of a process that runs `body`, the text of a function of a message, under the limits."""
    code = f"{START}def answer(message):\n    {body}\nlimits.serve(answer)\n"
    return limits.run({"n": 3}, seconds, (sys.executable, "-c", code))


def ended(body, seconds=20.0):
    with pytest.raises(limits.Ended) as caught:
        child(body, seconds)
    return caught.value.reason


def test_an_answer_comes_back_whatever_the_child_prints():
    assert child("print('x' * 1000); return {'twice': 2 * message['n']}") == {"twice": 6}


def test_memory_is_limited():
    assert ended("b = bytearray(limits.MEMORY + (64 << 20))") == "memory"
    assert ended("os.kill(os.getpid(), signal.SIGKILL)") == "memory"


def test_the_size_of_a_file_is_limited():
    assert ended("f = open('big', 'wb'); [f.write(bytes(1 << 20)) for _ in range(40)]") == "disk"


def test_a_process_that_sleeps_or_spins_is_ended():
    start = time.monotonic()
    assert ended("time.sleep(60)", seconds=2.0) == "time"
    assert ended("resource.setrlimit(resource.RLIMIT_CPU, (1, 2))\n    while True: pass") == "time"
    assert time.monotonic() - start < 20


def test_a_crash_is_a_crash():
    assert ended("os.kill(os.getpid(), signal.SIGSEGV)") == "crash"
    assert ended("os.abort()") == "crash"
    assert ended("sys.exit(3)") == "crash"
    assert ended("raise ValueError('no')") == "crash"


def test_the_folder_of_a_child_is_its_own_and_is_taken_away():
    where = child("open('litter', 'w').close(); return os.getcwd()")
    assert where != os.getcwd() and not os.path.exists(where)


def test_children_of_a_child_end_with_it(tmp_path):
    pid = tmp_path / "pid"
    body = f"p = os.fork()\n    if p == 0: time.sleep(60)\n    open({str(pid)!r}, 'w').write(str(p)); time.sleep(60)"
    assert ended(body, seconds=2.0) == "time"
    deadline = time.monotonic() + 5
    while _alive(int(pid.read_text())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(int(pid.read_text()))


def test_ctrl_c_ends_the_child_and_comes_through(tmp_path):
    def press():
        deadline = time.monotonic() + 20
        while not pid.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    pid = tmp_path / "pid"
    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        child(f"open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)", seconds=60.0)
    assert not _alive(int(pid.read_text()))


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
