"""What was asked of a running engine from outside: by signals, by control files, by another thread.

A signal's handler only notes that it came; whoever trains looks at poll points, where nothing is half done.

| asked by                                    | wish    | meaning                                            |
|---------------------------------------------|---------|----------------------------------------------------|
| SIGTERM, SIGHUP, SIGINT once, a file `stop` | `stop`  | finish the step (or drop it, see grace), save, end |
| SIGUSR1, a file `save`                      | `save`  | save at the end of the step in progress, go on     |
| SIGINT twice within 2 s, a file `abort`     | `abort` | end at the next poll point, save nothing           |

Systems without SIGUSR1, threads that may not handle signals, notebooks and network disks have the control files.
"""

import os
import signal
import threading
from pathlib import Path
from time import monotonic
from types import FrameType

from andrea_lab.checkpoint.files import REAL, Files
from andrea_lab.checkpoint.wishes import WISHES

TWICE = 2.0  # seconds within which a second SIGINT aborts
LOOK = 0.05  # seconds between two looks for control files

_entered: list["Signals"] = []


class Aborted(KeyboardInterrupt):
    """The run was told to end at once; nothing was saved, what was saved before is untouched."""


class Stopped(KeyboardInterrupt):
    """A stop was asked for before there was anything to save: nothing was written."""


class Signals:
    """Notes wishes from outside until they are cleared. A context manager: inside it signals are heard.

    control: the folder in which control files appear, usually `RUN/control`; it need not exist. SIGHUP stays ignored
    where it was ignored (nohup). Handlers of before are back after the block, and in a forked child. In a thread that
    may not handle signals `degraded` is a line that says so, and only control files and `ask` are heard. stop_since:
    when a stop was first asked for, by time.monotonic.
    """

    def __init__(self, control: Path | None = None, files: Files = REAL):
        self.files, self.control = files, control
        self.degraded: str | None = None
        self.stop_since: float | None = None
        self.count = 0  # signals that came, roughly: the system itself merges those of a kind
        self._asked = dict.fromkeys(WISHES, False)
        self._pending: list[str] = []
        self._last_interrupt = self._looked = 0.0
        self._paths: dict[str, Path] = {}
        self._stuck: set[str] = set()
        self._before: dict[int, object] = {}
        self._depth = 0  # blocks entered

    # ------------------------------------------------------------------------------------------------ wishes

    def ask(self, wish: str) -> None:
        """Note a wish; any thread may. Raises ValueError for one that is not known."""
        if wish not in self._asked:
            raise ValueError(f"wish: found {wish!r}, expected one of {', '.join(WISHES)}")
        if wish != "save" and self.stop_since is None:
            self.stop_since = monotonic()
        self._asked[wish] = True

    def clear(self, wish: str) -> None:
        """Forget a wish that was met."""
        self._asked[wish] = False
        if wish == "stop":
            self.stop_since = None

    def poll(self) -> list[str]:
        """The wishes not yet met: a list to read, the same object each time. Raises Aborted once that was asked for."""
        if self._paths and monotonic() - self._looked >= LOOK:
            self._look()
        if self._asked["abort"]:
            raise Aborted("aborted: nothing was saved, what was saved before is untouched")
        pending = self._pending
        for wish in ("save", "stop"):
            if self._asked[wish] is not (wish in pending):
                pending.append(wish) if self._asked[wish] else pending.remove(wish)
        return pending

    def _look(self) -> None:
        """Take the control files that are there. One that can not be removed counts once."""
        self._looked = monotonic()
        for wish, path in self._paths.items():
            if wish not in self._stuck and path.is_file():
                self._take(wish, path)
                self.ask(wish)

    def _take(self, wish: str, path: Path) -> None:
        try:
            self.files.remove(path)
        except OSError:
            self._stuck.add(wish)

    # ------------------------------------------------------------------------------------------------ signals

    def watch(self, control: Path) -> None:
        """Look for control files in this folder from now on; those that lie there were for another process and go."""
        self._paths = {wish: Path(control) / wish for wish in WISHES}
        for wish, path in self._paths.items():
            if path.is_file():
                self._take(wish, path)

    def __enter__(self) -> "Signals":
        self._depth += 1
        if self._depth > 1:
            return self
        if self.control is not None:
            self.watch(self.control)
        handlers = {"SIGTERM": self._on_stop, "SIGUSR1": self._on_save, "SIGINT": self._on_interrupt}
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            handlers["SIGHUP"] = self._on_stop
        try:
            for name, handler in handlers.items():
                number = getattr(signal, name, None)
                if number is not None:
                    self._before[number] = signal.signal(number, handler)
            _entered.append(self)
        except ValueError:  # the main thread of the main interpreter alone may
            name = threading.current_thread().name
            self.degraded = f"signals: found thread {name!r}, expected the main thread: only control files are heard"
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            if self in _entered:
                _entered.remove(self)
            self._restore()

    def deafen(self) -> None:
        """Ignore them from now on, also after the block: the process is about to end, and its exit code is settled."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)
        self._before.clear()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    # A handler may come between any two instructions of the main thread, another handler's included: each sets a mark
    # of its own and leaves the rest to `poll`. It prints nothing, for what it interrupts may be a print.

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.ask("stop")

    def _on_save(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.ask("save")

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        before, self._last_interrupt = self._last_interrupt, monotonic()
        self.ask("abort" if before and self._last_interrupt - before < TWICE else "stop")


def _forget_in_child() -> None:
    """In a forked worker: it does not save. Handlers of before return; SIGUSR1 to a whole group must not kill it."""
    heard = bool(_entered)
    while _entered:
        _entered.pop()._restore()
    if heard and hasattr(signal, "SIGUSR1") and signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
