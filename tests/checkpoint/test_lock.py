"""Run locks: one holder at a time, named; gone with its process, however that ends; kept alive by no child."""

import builtins
import fcntl
import importlib.util
import json
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from andrea_lab.checkpoint import lock
from andrea_lab.checkpoint.files import Files
from andrea_lab.checkpoint.lock import Holder, LockError, RunLock, holder, lock_path, process_start, seen_at_work

WAIT = 60  # seconds for another process, which takes a few hundredths


@contextmanager
def child(code: str, *args):
    """A Python process that runs `code`; its first line of output has come when the block begins."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        process.first = process.stdout.readline().strip()
        yield process
    finally:
        process.kill()
        process.communicate(timeout=WAIT)


HOLD = """
    import sys
    from andrea_lab.checkpoint.lock import RunLock
    lock = RunLock(sys.argv[1], "engine").acquire()
    print("held", flush=True)
    sys.stdin.read()
    lock.release()
"""


def record(folder: Path, **changes) -> Holder:
    """Write a record as another program might; this process, but for `changes`."""
    us = Holder(os.getpid(), process_start(os.getpid()), "engine", lock.socket.gethostname(), "2026-01-01 00:00:00 UTC")
    us = replace(us, **changes)
    lock_path(folder, "engine").write_text(json.dumps(asdict(us)))
    return us


@contextmanager
def kernel_lock(folder: Path, how=fcntl.LOCK_EX):
    """The bare lock, with whatever record is there."""
    with open(lock_path(folder, "engine"), "ab") as file:
        fcntl.flock(file.fileno(), how)
        yield


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(lock, "PATIENCE", 0.1)


def test_a_second_engine_is_refused_with_the_first_ones_number_and_since_when(tmp_path):
    with child(HOLD, tmp_path) as process:
        assert process.first == "held"
        found = holder(tmp_path, "engine")
        assert (found.pid, found.role, found.alive, found.here) == (process.pid, "engine", True, True)
        with pytest.raises(LockError) as error:
            RunLock(tmp_path, "engine").acquire()
        assert str(error.value) == (
            f"{tmp_path}: found engine {process.pid} (since {found.since}) at work, expected no other"
        )
        assert holder(tmp_path, "engine") == found


def test_engine_and_proxy_lock_apart(tmp_path):
    with RunLock(tmp_path, "engine"), RunLock(tmp_path, "proxy"):
        assert holder(tmp_path, "engine").role == "engine" and holder(tmp_path, "proxy").role == "proxy"
    with pytest.raises(ValueError, match="role: found 'x', expected one of engine, proxy"):
        RunLock(tmp_path, "x")


def test_two_locks_in_one_process_exclude_each_other(tmp_path):
    with RunLock(tmp_path, "engine") as first:
        with pytest.raises(LockError, match=rf"engine {os.getpid()} \(since .*\) at work in this very process"):
            RunLock(tmp_path, "engine").acquire()
        assert first.acquire() is first  # the holder itself may ask again
    RunLock(tmp_path, "engine").acquire().release()


def test_a_released_lock_is_free_and_names_nobody(tmp_path):
    held = RunLock(tmp_path, "engine").acquire()
    assert held.held
    held.release()
    held.release()
    assert not held.held and holder(tmp_path, "engine") is None
    assert lock_path(tmp_path, "engine").read_bytes() == b""
    with child(HOLD, tmp_path) as process:
        assert process.first == "held"
        process.communicate("", timeout=WAIT)
    assert process.returncode == 0 and holder(tmp_path, "engine") is None


def test_a_lock_that_nobody_refers_to_is_free(tmp_path):
    RunLock(tmp_path, "engine").acquire()
    RunLock(tmp_path, "engine").acquire().release()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_kernel_drops_the_lock_of_a_killed_process(tmp_path, number):
    with child(HOLD, tmp_path) as process:
        process.send_signal(number)
        process.wait(WAIT)
        assert lock_path(tmp_path, "engine").stat().st_size > 0  # its record is still there
        assert holder(tmp_path, "engine") is None
        with RunLock(tmp_path, "engine"):
            assert holder(tmp_path, "engine").pid == os.getpid()


def test_a_killed_process_that_nobody_has_waited_for_holds_nothing(tmp_path):
    with child(HOLD, tmp_path) as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, but still on the list of processes
        assert process_start(process.pid) is not None
        assert holder(tmp_path, "engine") is None
        RunLock(tmp_path, "engine").acquire().release()


GRANDCHILD = """
    import os, subprocess, sys, time
    from andrea_lab.checkpoint.lock import RunLock
    lock = RunLock(sys.argv[1], "engine").acquire()
    read, write = os.pipe()
    os.set_inheritable(write, True)
    if sys.argv[2] == "fork":
        number = os.fork()
        if number == 0:
            assert not lock.held
            lock.release()
            del lock
            os.write(write, b"x")
            time.sleep(600)
    else:
        command = [sys.executable, "-c", f"import os, time; os.write({write}, b'x'); time.sleep(600)"]
        number = subprocess.Popen(command, close_fds=False).pid
    os.close(write)
    print(number if os.read(read, 1) else "died", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_child_neither_keeps_the_lock_nor_drops_it(tmp_path, how):
    with child(GRANDCHILD, tmp_path, how) as process:
        grandchild = int(process.first)
        try:
            assert holder(tmp_path, "engine").pid == process.pid
            with pytest.raises(LockError, match=f"engine {process.pid}"):
                RunLock(tmp_path, "engine").acquire()
            process.kill()
            process.wait(WAIT)
            assert process_start(grandchild) is not None
            with RunLock(tmp_path, "engine"):
                assert holder(tmp_path, "engine").pid == os.getpid()
        finally:
            os.kill(grandchild, signal.SIGKILL)


def test_a_number_given_to_a_later_process_is_not_its_holder(tmp_path, impatient):
    """The record of a dead engine, whose number this process has now; someone unnamed holds the lock."""
    record(tmp_path, started=process_start(os.getpid()) - 100)
    assert holder(tmp_path, "engine") is None
    with kernel_lock(tmp_path):
        assert holder(tmp_path, "engine") is None
        with pytest.raises(LockError, match=f"the lock held, though engine {os.getpid()} .*, is not a process of this"):
            RunLock(tmp_path, "engine").acquire()
    RunLock(tmp_path, "engine").acquire().release()


def test_a_record_without_a_lock_is_no_holder_and_no_obstacle(tmp_path):
    us = record(tmp_path)
    assert us.alive and holder(tmp_path, "engine") is None
    RunLock(tmp_path, "engine").acquire().release()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"pid": 1}', "[" * 4000, "\0" * 100, '{"pid": true, "started": 1.0}', "\xff"]
    + ['{"pid": "1", "started": 1.0, "role": "engine", "host": "x", "since": "y"}'],
)
def test_what_is_no_record_names_nobody_and_is_no_obstacle(tmp_path, text, impatient):
    lock_path(tmp_path, "engine").write_text(text, "latin-1")
    with kernel_lock(tmp_path):
        assert holder(tmp_path, "engine") is None
        with pytest.raises(LockError, match="found an unnamed engine at work, expected no other"):
            RunLock(tmp_path, "engine").acquire()
    with RunLock(tmp_path, "engine"):
        assert holder(tmp_path, "engine").pid == os.getpid()


def test_a_holder_on_another_machine_is_believed_while_the_lock_is_held(tmp_path):
    far = record(tmp_path, host="elsewhere.invalid", pid=1, started=0.0)
    assert holder(tmp_path, "engine") is None
    with kernel_lock(tmp_path):
        assert holder(tmp_path, "engine") == far and not far.here and not far.alive
        with pytest.raises(LockError, match=r"engine 1 on elsewhere\.invalid \(since"):
            RunLock(tmp_path, "engine").acquire()


def test_numbers_that_are_no_process(tmp_path):
    assert [process_start(number) for number in (-1, 2**31 - 1, 2**80)] == [None] * 3
    assert not record(tmp_path, pid=2**80).alive


def test_a_clock_that_is_set_moves_no_start(monkeypatch):
    import psutil

    before, boot = process_start(os.getpid()), psutil.boot_time()
    monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: boot + 3600)
    assert process_start(os.getpid()) == before


def test_of_many_that_start_at_once_one_is_let_in(tmp_path):
    code = """
        import sys
        from andrea_lab.checkpoint.lock import LockError, RunLock
        lock = RunLock(sys.argv[1], "engine")
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            lock.acquire()
            print("held", flush=True)
        except LockError as error:
            print(error, flush=True)
        sys.stdin.read()
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(child(code, tmp_path)) for _ in range(4)]
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        said = [process.stdout.readline().strip() for process in processes]
        winner = processes[said.index("held")].pid
        said.remove("held")
        assert len(said) == 3 and all(f"found engine {winner} (since" in line for line in said)


def test_one_waits_for_a_holder_that_ends(tmp_path):
    """It ends at the tenth look at the lock; whoever does not wait has given up by then."""
    looks = []

    class Watched(RunLock):
        def _try(self):
            looks.append(1)
            if len(looks) == 10:
                process.communicate("", timeout=WAIT)
            return super()._try()

    with child(HOLD, tmp_path) as process:
        with pytest.raises(LockError, match="at work"):
            Watched(tmp_path, "engine").acquire()
        assert len(looks) < 10
        looks.clear()
        Watched(tmp_path, "engine").acquire(wait=WAIT).release()
    assert len(looks) >= 10


def test_waiting_ends(tmp_path):
    with RunLock(tmp_path, "engine"), pytest.raises(LockError, match="at work"):
        RunLock(tmp_path, "engine").acquire(wait=0.1)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_look_at_the_lock_does_not_make_an_engine_give_up(tmp_path, recorded):
    """Whoever asks for the holder shares the lock for a moment; one that starts just then tries again."""
    looks = []
    if recorded:
        record(tmp_path)

    class Watched(RunLock):
        def _try(self):
            if not looks:
                with kernel_lock(tmp_path, fcntl.LOCK_SH):
                    looks.append(super()._try())
                return looks[0]
            return super()._try()

    with Watched(tmp_path, "engine") as held:
        assert held.held and looks == [False]


def test_a_lock_file_that_is_removed_does_not_let_two_in(tmp_path):
    """The name may be taken away between opening and locking; then the lock on the old file counts for nothing."""
    removed = []

    class Removing(Files):
        def append(self, path):
            fd = super().append(path)
            if not removed:
                os.unlink(path)
                removed.append(path)
            return fd

    with RunLock(tmp_path, "engine", Removing()), pytest.raises(LockError, match=f"engine {os.getpid()}"):
        RunLock(tmp_path, "engine").acquire()


def test_a_folder_that_cannot_be_locked_is_named(tmp_path):
    with pytest.raises(LockError, match=r"gone/engine\.lock: found No such file or directory, expected a folder where"):
        RunLock(tmp_path / "gone", "engine").acquire()
    (tmp_path / "file").touch()
    with pytest.raises(LockError, match="found Not a directory"):
        RunLock(tmp_path / "file", "engine").acquire()
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "engine.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(LockError, match="symbolic links"):
        RunLock(tmp_path, "engine").acquire()
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("operation", ["append", "truncate", "write"])
def test_a_disk_that_fails_is_named_and_the_lock_is_free(tmp_path, operation):
    def fail(*_):
        raise OSError(30, "Read-only file system")

    files = Files()
    setattr(files, operation, fail)
    with pytest.raises(LockError, match=r"engine\.lock: found Read-only file system, expected a folder where a lock"):
        RunLock(tmp_path, "engine", files).acquire()
    RunLock(tmp_path, "engine").acquire().release()


def test_a_record_that_cannot_be_taken_away_is_not_believed(tmp_path):
    held = RunLock(tmp_path, "engine").acquire()

    def fail(*_):
        raise OSError(5, "Input/output error")

    held.files = Files()
    held.files.truncate = fail
    held.release()
    assert lock_path(tmp_path, "engine").stat().st_size and holder(tmp_path, "engine") is None
    RunLock(tmp_path, "engine").acquire().release()


def test_a_system_without_flock_is_named_and_the_module_loads(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **keys):
        if name == "fcntl":
            raise ImportError(name)
        return real(name, *args, **keys)

    monkeypatch.setattr(builtins, "__import__", without)
    spec = importlib.util.spec_from_file_location("lock_elsewhere", lock.__file__)
    elsewhere = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "lock_elsewhere", elsewhere)
    spec.loader.exec_module(elsewhere)
    with pytest.raises(elsewhere.LockError, match="found a system without flock, expected one where a run can be"):
        elsewhere.RunLock(tmp_path, "engine").acquire()


def test_a_holder_is_seen_without_asking_for_the_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", None)  # a look that asked for the lock would fail
    assert seen_at_work(tmp_path, "engine") is None
    with child(HOLD, tmp_path) as process:
        assert seen_at_work(tmp_path, "engine").pid == process.pid
        process.communicate("", timeout=WAIT)
        assert seen_at_work(tmp_path, "engine") is None, "the record went with the lock"


def test_a_record_of_a_process_without_the_lock_is_not_believed(tmp_path, monkeypatch):
    us = record(tmp_path)
    assert seen_at_work(tmp_path, "engine") is None
    with kernel_lock(tmp_path):
        assert seen_at_work(tmp_path, "engine") == us
        record(tmp_path, started=us.started + 100)
        assert seen_at_work(tmp_path, "engine") is None, "an earlier process of this number"
    record(tmp_path)
    monkeypatch.setattr(lock, "LOCKS", tmp_path / "no list of locks")
    assert seen_at_work(tmp_path, "engine") == us
    away = record(tmp_path, host="elsewhere")
    assert seen_at_work(tmp_path, "engine") == away


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b"\xff{"), lambda path: path.mkdir()])
def test_what_is_no_record_is_nobody(tmp_path, spoil):
    spoil(lock_path(tmp_path, "engine"))
    assert seen_at_work(tmp_path, "engine") is None
