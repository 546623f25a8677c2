"""The feed of one run: all that a picture of it needs, read from its run directory while it grows, and sent as frames.

A feed reads what is new and keeps the records; whoever shows a run asks it for frames of those he does not have yet.
Nothing in the folder can make it raise: a picture must never stop the training it shows.
"""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from andrea_lab.run.compare import span_of
from andrea_lab.run.directory import RunDirectory
from andrea_lab.view.facts import Facts
from andrea_lab.view.frame import pack
from andrea_lab.view.history import History
from andrea_lab.view.records import Records
from andrea_lab.view.tail import Tail

LIMIT = 16 * 2**20  # bytes of the log that one `read` takes
MOST = 200_000  # records in a frame
LOOK = 1.0  # seconds between two looks at what is not the log
YOUNG = 10.0  # seconds after the last line of the log in which a run may go on
MOST_SEGMENTS = 10_000  # that are told apart: more are garbage
SPAN = 20  # steps that a smoothed loss looks back when the length of the run is not known

Strip = Callable[[RunDirectory], dict[str, Any] | None]
STRIPS: list[Strip] = []


def register_strip(make: Strip) -> Strip:
    """Let `make(run)` add a strip below the curve of every run: a dict as frames carry it, or None for no strip.

    {"id", "label", "kind": "stack" or "lines", "names": [...], "rows": [[step, value, ...], ...]}. It is asked about
    once a second; what it raises is listed among the run's problems.
    """
    STRIPS.append(make)
    return make


class Feed:
    """Reads one run directory. Any thread may call any method.

    run_dir: need not exist yet. name: what the run is called in frames, by default the run's name. vocab, steps: in
    place of what config.json says. span: of the moving average in `history`, by default a twentieth of the planned
    steps, within 8 and 200.
    """

    def __init__(
        self,
        run_dir: Path | str,
        *,
        name: str | None = None,
        vocab: int | None = None,
        steps: int | None = None,
        span: int | None = None,
    ):
        self.run, self._name, self._span = RunDirectory(run_dir), name, span
        self._lock = threading.RLock()
        self._store = Records()
        self._tail, self._about = Tail(self._store), Facts(self.run, vocab, steps)
        self._first: dict[int, int] = {}  # each segment in the log: the step of its first record
        self._strips: tuple[list, list[str]] = [], []  # and what went wrong with them
        self._looked, self._shown = -1e9, self._now()
        self.version = 0  # rises with every change of what `frame` would give
        self._history: History | None = None

    @property
    def name(self) -> str:
        return self._name or sendable(self.run.name)

    @property
    def records(self) -> int:
        """How many records there are, those that no longer count included."""
        return self._store.count

    @property
    def generation(self) -> int:
        """Rises when the records of before no longer count: the log became shorter or was replaced."""
        return self._tail.generation

    @property
    def state(self) -> str:
        """The word for what the run does, or how it ended, as of the last `read`."""
        return self._shown[0]["state"]

    @property
    def lively(self) -> bool:
        """Whether the run is at work, or wrote to its log a moment ago."""
        with self._lock:
            return self.state == "training" or time.time() - self._tail.changed < YOUNG

    def read(self, limit: int = LIMIT, *, look: bool = False) -> bool:
        """Take what is new, of the log up to about `limit` bytes; returns whether there was anything.

        The other files are looked at once a second, and at once with `look`.
        """
        with self._lock:
            if due := look or monotonic() - self._looked >= LOOK:
                self._look()
            first, generation = self._store.count, self._tail.generation
            news = self._tail.read(self.run.log, limit)
            if self._tail.generation != generation:
                self._first, first = {}, 0
            if news:
                self._history = None
                self._note_segments(first)
            before = self._shown
            if due or news:
                self._shown = self._now()
            changed = news or before != self._shown
            self.version += changed
            return changed

    def catch_up(self) -> None:
        """Read to the end of the log, and look at everything else."""
        with self._lock:
            self.read(look=True)
            while self._tail.behind:
                self.read()

    def facts(self) -> dict[str, Any]:
        """What is known of the run as of the last `read`; plain JSON values, see `frame.py`."""
        with self._lock:
            return dict(self._shown[0])

    def frame(self, first: int = 0, most: int = MOST) -> bytes:
        """The records from number `first` on, at most `most` of them, with all facts."""
        with self._lock:
            first = min(max(first, 0), self._store.count)
            about, strips = self._shown
            return pack(
                self._store.part(first, first + most),
                run=self.name,
                facts=about,
                sources=self._store.sources,
                generation=self.generation,
                first=first,
                total=self._store.count,
                strips=strips,
            )

    def frames(self, first: int = 0) -> list[bytes]:
        """All records from number `first` on, in as many frames as it takes; at least one."""
        with self._lock:
            return [self.frame(at, MOST) for at in range(first, max(self._store.count, first + 1), MOST)]

    @property
    def history(self) -> History:
        """The records that count, as of the last `read`."""
        with self._lock:
            if self._history is None or self._history.span != self._smooth():
                columns = self._store.part(0, self._store.count)
                self._history = History(columns, list(self._store.sources), self._smooth())
            return self._history

    # ------------------------------------------------------------------------------------------------

    def _smooth(self) -> int:
        steps = self._shown[0]["steps"]
        return self._span or (span_of(steps) if steps else SPAN)

    def _look(self) -> None:
        """See what is new in all files but the log."""
        self._looked = monotonic()
        if not os.path.exists(self.run.log):  # it may be there by now under the name that it keeps
            self.run = self._about.run = RunDirectory(self.run.path)
        self._about.look()
        made, wrong = [], []
        for make in STRIPS:
            try:
                strip = json.loads(json.dumps(make(self.run), allow_nan=False))
                made += [strip] if strip is not None else []
            except Exception as error:  # whatever it is, a picture is not worth a run
                wrong.append(f"strip: {error}")
        self._strips = made, wrong

    def _note_segments(self, first: int) -> None:
        """Note where segments begin among the records from number `first` on."""
        new = self._store.part(first, self._store.count)
        numbers, at = np.unique(new["segment"], return_index=True)
        for number, index in zip(numbers.tolist(), at.tolist(), strict=True):
            if len(self._first) < MOST_SEGMENTS:
                self._first.setdefault(number, int(new["step"][index]))

    def _now(self) -> tuple[dict[str, Any], list]:
        """The facts and the strips as they stand."""
        tail, (strips, wrong) = self._tail, self._strips
        told = self._about.told(tail.unreadable, tail.problem, tail.changed, self._first)
        return told | {"name": self.name, "problems": told["problems"] + wrong}, strips


def sendable(name: str) -> str:
    """A name of the file system as text that every channel takes."""
    return name.encode(errors="replace").decode()
