"""A small program in a process of its own, held in the middle of each step while signals are sent to it.

The program prints a line that begins with "step" and then reads a line: there it is held. So a signal meets it where
the notebook wants it to, whatever the machine is doing.
"""

import signal
import subprocess
import sys
from contextlib import suppress

MARK = "step"


def play(program: str, *plan: int | str) -> str:
    """Run a Python program by a plan and return what was said, a line each, the last one being how it ended.

    plan: a number lets the program go on so many times, a signal's name sends that signal while it is held. After the
    plan it is not held any more. Lines with which it says that it is held are left out; of an exception that ends it
    the last line is given. Raises ValueError for a signal that this system does not have.
    """
    for name in plan:
        if isinstance(name, str) and not hasattr(signal, name):
            raise ValueError(f"signal: found {name!r}, expected one of this system's, such as 'SIGTERM'")
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    child = subprocess.Popen([sys.executable, "-c", program], text=True, bufsize=1, **pipes)
    with child:
        said: list[str] = []
        at = _until_held(child, said)
        for what in plan:
            if isinstance(what, str):
                said.append(f"in {at}: {what}" if at else f"{what} comes too late")
                child.send_signal(getattr(signal, what))
                continue
            for _ in range(what):
                with suppress(BrokenPipeError):
                    child.stdin.write("\n")
                at = _until_held(child, said)
        with suppress(BrokenPipeError):
            child.stdin.close()
        while _until_held(child, said):
            pass
        words = child.stderr.read().split("\n")
    return "\n".join([*said, *words[-2:-1], _ending(child.returncode)])


def _until_held(child: subprocess.Popen, said: list[str]) -> str:
    """Note what the program says until it is held; returns the line with which it says so, "" when it has ended."""
    for line in child.stdout:
        if line.startswith(MARK):
            return line.rstrip()
        said.append(line.rstrip())
    return ""


def _ending(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
