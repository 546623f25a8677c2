"""Asking an engine at work, a real process here: the signal arrives, or nothing is sent and the reason is given."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import asdict, replace

import pytest

from andrea_lab.checkpoint.lock import RunLock, holder, lock_path, process_start
from andrea_lab.run import control
from andrea_lab.run.control import send
from andrea_lab.run.directory import RunError

WAIT = 60  # seconds for another process, which takes a few hundredths

ENGINE = """
    import signal, sys, time
    from andrea_lab.checkpoint.lock import RunLock
    heard = []
    for name in sys.argv[2:]:
        signal.signal(getattr(signal, name), lambda number, frame: heard.append(signal.Signals(number).name))
    lock = RunLock(sys.argv[1], "engine").acquire()
    print("at work", flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(0.005)
        while heard:
            print(heard.pop(0), flush=True)
"""
ALL = ("SIGUSR1", "SIGTERM", "SIGINT")


@pytest.fixture
def engine(run):
    """Starts a process that holds the engine's lock and prints the signals it hears, of those it was told to hear."""
    started = []

    def start(*names):
        command = [sys.executable, "-c", textwrap.dedent(ENGINE), run.path, *names]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[0].stdout.readline() == "at work\n"
        return started[0]

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=WAIT)


def test_each_wish_arrives_as_its_signal(run, engine):
    process = engine(*ALL)
    at_work = holder(run.path, "engine")
    assert send(run, "save") == f"sent SIGUSR1 to {at_work}" and process.stdout.readline() == "SIGUSR1\n"
    assert send(run.path, "stop") == f"sent SIGTERM to {at_work}" and process.stdout.readline() == "SIGTERM\n"
    assert process.poll() is None and not run.control.exists()


def test_an_abort_is_a_file_as_the_first_of_two_interrupts_would_be_a_stop(run, engine):
    process = engine(*ALL)
    assert send(run, "abort") == f"wrote {run.control / 'abort'} for {holder(run.path, 'engine')}"
    assert [file.name for file in run.control.iterdir()] == ["abort"]
    process.terminate()
    assert process.stdout.readline() == "SIGTERM\n"  # the first it heard


@pytest.mark.parametrize("wish", ["save", "stop", "abort"])
def test_without_an_engine_nothing_is_sent_or_written(run, wish):
    for by in ("signal", "file"):
        with pytest.raises(RunError, match=r"found no engine at work, expected one that holds .*engine\.lock"):
            send(run, wish, by)
    with RunLock(run.path, "proxy"), pytest.raises(RunError, match="found no engine at work"):
        send(run, wish)
    assert not run.control.exists()


def test_a_killed_engine_is_not_at_work(run, engine):
    process = engine(*ALL)
    process.kill()
    process.wait(WAIT)
    with pytest.raises(RunError, match="found no engine at work"):
        send(run, "stop")


def test_another_process_of_the_recorded_number_is_not_signalled(run, engine, monkeypatch):
    """The lock is held; its record names a process of ours that started at another time than it says."""
    process = engine(*ALL)
    at_work = holder(run.path, "engine")
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        for started in (process_start(bystander.pid) - 50, at_work.started - 50):
            false = replace(at_work, pid=bystander.pid, started=started)
            lock_path(run.path, "engine").write_text(json.dumps(asdict(false)))
            with pytest.raises(RunError, match="found no engine at work"):
                send(run, "stop")
        monkeypatch.setattr(control, "holder", lambda *_: false)  # it got the number just after we looked
        monkeypatch.setattr(control, "_listens", lambda pid: True)
        with pytest.raises(RunError, match="has just ended, expected it at work"):
            send(run, "stop")
        bystander.communicate(b"\n", WAIT)
        assert bystander.returncode == 0
    finally:
        bystander.kill()
        bystander.wait(WAIT)
    assert process.poll() is None


def test_an_engine_that_ends_just_then_is_reported(run, engine, monkeypatch):
    process = engine(*ALL)
    at_work = holder(run.path, "engine")
    process.kill()
    process.wait(WAIT)
    monkeypatch.setattr(control, "holder", lambda *_: at_work)
    with pytest.raises(RunError, match=f"found that engine {process.pid} .* has just ended, expected it at work"):
        send(run, "save")


@pytest.mark.parametrize("wish", ["save", "stop", "abort"])
def test_by_file(run, engine, wish):
    process = engine(*ALL)
    assert send(run, wish, by="file") == f"wrote {run.control / wish} for {holder(run.path, 'engine')}"
    assert [file.name for file in run.control.iterdir()] == [wish]
    send(run, wish, by="file")
    assert [file.name for file in run.control.iterdir()] == [wish]
    process.terminate()
    assert process.stdout.readline() == "SIGTERM\n"  # the first it heard


@pytest.mark.parametrize("wish", ["save", "stop", "abort"])
def test_a_system_without_the_signal_gets_a_file(run, engine, monkeypatch, wish):
    engine(*ALL)
    monkeypatch.delattr(signal, "SIGUSR1")
    assert send(run, wish).startswith("wrote ") and (run.control / wish).is_file()


DEAF = [("save", "SIGUSR1"), ("stop", "SIGTERM")]


@pytest.mark.parametrize("wish, deaf", DEAF if os.path.exists("/proc/self/status") else [])  # where it can be known
def test_a_process_that_would_die_of_the_signal_gets_a_file(run, engine, wish, deaf):
    process = engine(*(name for name in ALL if name != deaf))
    assert send(run, wish).startswith("wrote ") and (run.control / wish).is_file()
    assert process.poll() is None


def test_an_engine_elsewhere_gets_a_file(run, engine, monkeypatch):
    process = engine(*ALL)
    monkeypatch.setattr("andrea_lab.checkpoint.lock.socket.gethostname", lambda: "elsewhere.invalid")
    assert send(run, "stop").startswith(f"wrote {run.control / 'stop'} for engine {process.pid} on ")


def test_an_engine_of_another_user_is_reported(run, engine, monkeypatch):
    import psutil

    def denied(self, number):
        raise psutil.AccessDenied(self.pid)

    engine(*ALL)
    monkeypatch.setattr(psutil.Process, "send_signal", denied)
    with pytest.raises(RunError, match="of another user, expected your own: ask by control file"):
        send(run, "save")


def test_an_unknown_wish_is_refused(run):
    with pytest.raises(RunError, match="wish: found 'pause', expected one of save, stop, abort"):
        send(run, "pause")
