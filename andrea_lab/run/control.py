"""Asking a running engine to save, to stop or to give up, from another process: by a signal or by a control file."""

import signal
from pathlib import Path
from typing import Literal

from andrea_lab.checkpoint.files import REAL, Files
from andrea_lab.checkpoint.lock import Holder, holder
from andrea_lab.checkpoint.wishes import SIGNALS, leave_file
from andrea_lab.run.directory import RunDirectory, RunError

Wish = Literal["save", "stop", "abort"]


def send(
    run_dir: RunDirectory | Path | str, wish: Wish, by: Literal["signal", "file"] = "signal", files: Files = REAL
) -> str:
    """Ask the engine at work on `run_dir` for a wish; returns a line that says what was done.

    By signal: SIGUSR1 for "save", SIGTERM for "stop", to the process that holds the engine's lock, and only while it
    holds it and started when its record says. A file `control/<wish>`, read at the engine's next poll point, is written
    for "abort", since the first of two SIGINTs is a stop and might be met before the second comes; and for the others
    when asked for, where SIGUSR1 does not exist, when the engine is on another machine, and when its process has no
    handlers, so that a signal would end it. Raises RunError when no engine is at work, or it belongs to another user;
    OSError.
    """
    if wish not in SIGNALS:
        raise RunError(f"wish: found {wish!r}, expected one of {', '.join(SIGNALS)}")
    run = run_dir if isinstance(run_dir, RunDirectory) else RunDirectory(run_dir)
    at_work = _engine(run)
    by_signal = by == "signal" and wish != "abort" and hasattr(signal, "SIGUSR1")
    if not by_signal or not at_work.here or not _listens(at_work.pid):
        return f"wrote {leave_file(run.path, wish, files)} for {at_work}"
    _signal(run, at_work, SIGNALS[wish])
    return f"sent {SIGNALS[wish]} to {at_work}"


def _engine(run: RunDirectory) -> Holder:
    found = holder(run.path, "engine")
    if found is None:
        raise RunError(f"{run.path}: found no engine at work, expected one that holds {run.path / 'engine.lock'}")
    return found


def _signal(run: RunDirectory, at_work: Holder, name: str) -> None:
    import psutil

    try:
        process = psutil.Process(at_work.pid)  # remembers its start: never signals a later process of this number
        if not at_work.alive:
            raise psutil.NoSuchProcess(at_work.pid)
        process.send_signal(getattr(signal, name))
    except psutil.NoSuchProcess:
        raise RunError(f"{run.path}: found that {at_work} has just ended, expected it at work") from None
    except psutil.AccessDenied:
        raise RunError(f"{run.path}: found {at_work} of another user, expected your own: ask by control file") from None


def _listens(pid: int) -> bool:
    """Whether the process catches all the signals, as far as the system says; where it does not, it is believed.

    One that catches SIGINT alone is any Python: an engine in a thread, which hears control files only.
    """
    try:
        with REAL.open(Path(f"/proc/{pid}/status")) as file:
            status = file.readall().decode()
    except OSError:
        return True
    caught = next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:")), -1)
    return all(caught >> (getattr(signal, name) - 1) & 1 for name in SIGNALS.values())
