"""Running something in a process of its own that may take only so much time, memory and disk.

The parent waits, and puts into a word how the child ended. The child limits itself once its libraries are loaded, and
answers in one JSON value on a pipe of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from typing import Any

from andrea_lab.paths import ROOT

SECONDS = 30  # of processor time
PATIENCE = 6  # how many times as long it may take by the clock, on a machine that is busy with other things
MEMORY = 2 << 30  # bytes beyond what the loaded libraries take
FILE = 16 << 20  # bytes of the largest file
CHILD = (sys.executable, "-m", "andrea_lab.lesson.child")
_ENVIRONMENT = {"ANDREA_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ANDREA_TARGET": "cpu", "PYTHONWARNINGS": "ignore"}
_ENDS = {signal.SIGXCPU: "time", signal.SIGKILL: "memory", signal.SIGXFSZ: "disk"}


class Ended(Exception):
    """The child gave no answer; `reason` is "time", "memory", "disk" or "crash"."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


def run(message: Any, seconds: float = SECONDS, command=CHILD) -> Any:
    """The child's answer to a message, both JSON values. Raises Ended. Ctrl-C ends the child too.

    seconds: of processor time; by the clock it may be PATIENCE times as many.
    """
    folders = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(folders)}
    with tempfile.TemporaryDirectory(prefix="andrea-check-") as folder:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        try:
            answer, _ = child.communicate(json.dumps([message, seconds]).encode(), timeout=PATIENCE * seconds)
        except subprocess.TimeoutExpired:
            raise Ended("time") from None
        finally:
            _end(child)
    try:
        found = json.loads(answer)
    except ValueError:
        raise Ended(_ENDS.get(-child.returncode, "crash") if child.returncode < 0 else "crash") from None
    if isinstance(found, dict) and "ended" in found:
        raise Ended(found["ended"])
    return found


def _end(child: subprocess.Popen) -> None:
    """Kill the child and whatever it started."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        pipe.close()


# ---------------------------------------------------------------- in the child


def serve(answer) -> None:
    """Read one message, limit this process, write `answer(message)`; what the work prints goes nowhere."""
    out = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    message, seconds = json.load(sys.stdin)
    limit(seconds)
    try:
        found = answer(message)
    except MemoryError:
        found = {"ended": "memory"}
    except OSError as error:
        if error.errno != 27:  # EFBIG
            raise
        found = {"ended": "disk"}
    os.write(out, json.dumps(found).encode())


def limit(seconds: float) -> None:
    """Hold this process to so many seconds of processor time, MEMORY more bytes, and files of FILE bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is an error then, not the end
    for what, most in (
        (resource.RLIMIT_CPU, int(seconds) + 1),
        (resource.RLIMIT_AS, _in_use() + MEMORY),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):  # a system that does not know this limit
            resource.setrlimit(what, (most, hard))


def _in_use() -> int:
    """Bytes of address space in use, 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0
