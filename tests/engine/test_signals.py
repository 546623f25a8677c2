"""Wishes from outside: what each signal and control file means, and that handlers do nothing but note it."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from andrea_lab.engine import signals as module
from andrea_lab.engine.signals import Aborted, Signals

ROOT = Path(__file__).parents[2]
HEARD = [name for name in ("SIGTERM", "SIGINT", "SIGUSR1", "SIGHUP") if hasattr(signal, name)]


def send(name: str) -> None:
    os.kill(os.getpid(), getattr(signal, name))


def handlers() -> list:
    return [signal.getsignal(getattr(signal, name)) for name in HEARD]


@pytest.mark.parametrize(
    ("name", "wish"), [("SIGTERM", "stop"), ("SIGHUP", "stop"), ("SIGINT", "stop"), ("SIGUSR1", "save")]
)
def test_what_each_signal_means(name, wish):
    with Signals() as signals:
        assert signals.poll() == [] and signals.degraded is None and signals.stop_since is None
        before = time.monotonic()
        send(name)
        assert signals.poll() == [wish] and signals.count == 1
        assert (signals.stop_since is not None) == (wish == "stop")
        assert signals.stop_since is None or before <= signals.stop_since <= time.monotonic()
        assert signals.poll() is signals.poll(), "polling hands out one list"
        signals.clear(wish)
        assert signals.poll() == [] and signals.stop_since is None


def test_many_of_a_kind_are_one_wish_and_kinds_add_up():
    with Signals() as signals:
        for _ in range(50):
            send("SIGUSR1")
        send("SIGTERM")
        send("SIGTERM")
        assert signals.poll() == ["save", "stop"]
        signals.clear("save")
        assert signals.poll() == ["stop"]


def test_sigint_twice_within_two_seconds_aborts_and_later_does_not(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    with Signals() as signals:
        send("SIGINT")
        now[0] += 2.1
        send("SIGINT")
        assert signals.poll() == ["stop"] and signals.stop_since == 100.0
        now[0] += 1.9
        send("SIGINT")
        for _ in range(2):
            with pytest.raises(Aborted, match="nothing was saved"):
                signals.poll()
    assert issubclass(Aborted, KeyboardInterrupt)


def test_handlers_of_before_are_back_also_after_an_error_and_a_second_block():
    before = handlers()
    with pytest.raises(ZeroDivisionError), Signals():
        assert all(old is not new for old, new in zip(before, handlers(), strict=True))
        raise ZeroDivisionError
    assert handlers() == before
    outer = Signals()
    with outer, outer:
        pass
    assert handlers() == before
    with Signals() as first:
        ours = handlers()
        with Signals() as second:
            send("SIGUSR1")
            assert second.poll() == ["save"] and first.poll() == []
        assert handlers() == ours
    assert handlers() == before


def test_a_block_entered_twice_hears_until_the_outer_one_ends():
    with Signals() as signals:
        with signals:
            pass
        send("SIGTERM")
        assert signals.poll() == ["stop"]


def test_a_process_that_is_about_to_end_can_stop_listening_for_good():
    before = handlers()
    try:
        with Signals() as signals:
            signals.deafen()
        assert handlers() == [signal.SIG_IGN] * len(HEARD)
        send("SIGTERM")
    finally:
        for name, handler in zip(HEARD, before, strict=True):
            signal.signal(getattr(signal, name), handler)


def test_sighup_that_was_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            send("SIGHUP")
            assert signals.poll() == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_without_sigusr1_everything_else_works(monkeypatch, tmp_path):
    monkeypatch.delattr(signal, "SIGUSR1")
    monkeypatch.delattr(signal, "SIGHUP")
    with Signals(tmp_path) as signals:
        (tmp_path / "save").touch()
        time.sleep(module.LOOK)
        assert signals.poll() == ["save"]
        send("SIGTERM")
        assert signals.poll() == ["save", "stop"]


def test_off_the_main_thread_the_control_file_and_ask_are_heard(tmp_path):
    before, found = handlers(), {}

    def elsewhere():
        with Signals(tmp_path) as signals:
            found["degraded"], found["handlers"] = signals.degraded, handlers()
            (tmp_path / "stop").touch()
            time.sleep(module.LOOK)
            found["polled"] = list(signals.poll())
            signals.ask("save")
            found["asked"] = list(signals.poll())

    thread = threading.Thread(target=elsewhere, name="worker 7")
    thread.start()
    thread.join(60)
    assert found["degraded"] == (
        "signals: found thread 'worker 7', expected the main thread: only control files are heard"
    )
    assert found["handlers"] == before == handlers()
    assert found["polled"] == ["stop"] and found["asked"] == ["stop", "save"]


def test_control_files_are_taken_once_and_old_ones_mean_nothing(tmp_path, monkeypatch):
    now = [1.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    control = tmp_path / "control"
    with Signals(control) as signals:
        assert signals.poll() == [], "the folder need not be there"
        control.mkdir()
        (control / "save").touch()
        assert signals.poll() == [], "it looks 20 times a second at most"
        now[0] += module.LOOK
        assert signals.poll() == ["save"] and not list(control.iterdir())
        signals.clear("save")
        now[0] += module.LOOK
        assert signals.poll() == []
        (control / "stop").touch()
        (control / "abort").mkdir()
        (control / "other").touch()
        now[0] += module.LOOK
        assert signals.poll() == ["stop"]
        (control / "abort").rmdir()
        (control / "abort").touch()
        now[0] += module.LOOK
        with pytest.raises(Aborted):
            signals.poll()
        (control / "stop").touch()
    with Signals(control) as signals:
        now[0] += module.LOOK
        assert signals.poll() == [] and not (control / "stop").exists(), "left for an earlier process"


def test_a_control_file_that_cannot_be_removed_counts_once(tmp_path):
    class Stubborn(type(module.REAL)):
        def remove(self, path):
            raise PermissionError(13, "Permission denied")

    with Signals(tmp_path, files=Stubborn()) as signals:
        (tmp_path / "save").touch()
        time.sleep(module.LOOK)
        assert signals.poll() == ["save"]
        signals.clear("save")
        time.sleep(module.LOOK)
        assert signals.poll() == []


def test_an_unknown_wish_is_refused():
    with pytest.raises(ValueError, match="wish: found 'sleep', expected one of save, stop, abort"):
        Signals().ask("sleep")


PRINTS = """
import os, signal, subprocess, sys, threading
from andrea_lab.engine.signals import Signals
with Signals() as signals:
    sender = "import os, signal, time\\nfor i in range(1000):\\n os.kill({pid}, signal.SIGUSR1)\\n time.sleep(0.0005)"
    child = subprocess.Popen([sys.executable, "-c", sender.format(pid=os.getpid())])
    lines = 0
    while child.poll() is None:
        print("a step went by", lines, flush=True)
        lines += 1
    print("and the rest")
    wishes = list(signals.poll())
    sys.stderr.write(f"{signals.count > 20} {wishes}")
"""

FORKS = """
import os, signal, sys
from andrea_lab.engine.signals import Signals
before = signal.getsignal(signal.SIGTERM)
with Signals() as signals:
    if not os.fork():
        os.kill(os.getpid(), signal.SIGUSR1)
        if signal.getsignal(signal.SIGTERM) != before or signals.poll():
            os._exit(3)
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(4)
    _, status = os.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    print(os.waitstatus_to_exitcode(status), signals.poll())
"""


def script(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_a_thousand_signals_while_it_prints_in_a_loop():
    done = script(PRINTS)
    assert (done.returncode, done.stderr) == (0, "True ['save']")
    assert done.stdout.endswith("and the rest\n")


def test_a_forked_worker_has_the_handlers_of_before_and_does_not_die_of_sigusr1():
    done = script(FORKS)
    assert (done.returncode, done.stdout) == (0, f"{-signal.SIGTERM} ['stop']\n"), done.stderr
