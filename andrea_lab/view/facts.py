"""What a run directory tells beside its log: configuration, segments, checkpoints, who is at work, how it ended.

Everything is found out by looking: nothing is locked, opened for writing or waited for. What cannot be read is named in
a list of problems, and the rest goes on.
"""

import os
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from andrea_lab import strict_json
from andrea_lab.checkpoint import rotation
from andrea_lab.checkpoint.files import REAL
from andrea_lab.checkpoint.lock import Holder, seen_at_work
from andrea_lab.checkpoint.single import HEADER, step_of
from andrea_lab.checkpoint.verify import scan
from andrea_lab.run import segments
from andrea_lab.run.directory import RunDirectory
from andrea_lab.run.fork import origin

LARGEST = 16 * 2**20  # bytes of a file that is read whole
MOST = 500  # marks of one kind, and segments, that are told: the newest
EXACT = 2**53  # whole numbers below are exact in every reader of JSON
SETTLED = 2.0  # seconds after which a folder's time tells that nothing changed in it
ABROAD = 60.0  # seconds without a new line after which a run on another machine is not taken for at work
ENDS = {"finished", "stopped", "diverged", "save failed", "engine died", "aborted", "broke down"}
OVER = ENDS | {"killed"}  # states in which nothing comes any more

Json = dict[str, Any]


class Facts:
    """Looks at one run directory; `look` finds out what is new, `told` is the result.

    vocab, steps: stand for what config.json says, where given.
    """

    def __init__(self, run: RunDirectory, vocab: int | None = None, steps: int | None = None):
        self.run, self.given = run, {"vocab": vocab, "steps": steps}
        self.config: Json = {"vocab": None, "steps": None, "threshold": None}
        self.fork: Json | None = None
        self.segments: list[segments.Segment] = []
        self.saved: dict[int, str | None] = {}  # steps that have a weight file: why it is pinned, None where it is not
        self.params: int | None = None
        self.engine: Holder | None = None
        self.proxy: Holder | None = None
        self.problems: dict[str, str] = {}  # by file
        self._seen: dict[Path, tuple | None] = {}

    def look(self) -> None:
        """Look at what changed since the last time. Never raises for what is found in the folder."""
        self._look()
        if not (self.engine or self.proxy) and self.segments and not self.segments[-1].end:
            self._look()  # it was killed, unless it began between the looks at locks and at segments

    def _look(self) -> None:
        # Locks first: a run records its end before it lets go of them, so that it never seems to be killed.
        self.engine, self.proxy = (seen_at_work(self.run.path, role) for role in ("engine", "proxy"))
        self._file(self.run.config, self._read_config)
        self._file(self.run.fork, self._read_fork)
        self._file(self.run.segments, self._read_segments)
        self._folder()

    # ------------------------------------------------------------------------------------------------ reading

    def _file(self, path: Path, read: Callable[[bool], None]) -> None:
        """Call `read` when a file of this name has changed, with whether it is there."""
        with self._named(path):
            key = _identity(path)
            if key == self._seen.get(path, ()):
                return
            self._seen[path] = key
            self.problems.pop(path.name, None)
            if key is not None and key[1] > LARGEST:
                raise ValueError(f"found {key[1]:,} bytes, expected at most {LARGEST:,}")
            read(key is not None)

    @contextmanager
    def _named(self, path: Path):
        """Make a problem of what goes wrong inside, under the name of the file."""
        try:
            yield
        except (OSError, ValueError, RecursionError) as error:
            found = getattr(error, "strerror", None) or str(error) or type(error).__name__
            text = found.removeprefix(f"{path}: ")
            text = text if text.startswith("found ") else f"found {text}"
            self.problems[path.name] = f"{path.name}: {text}"

    def _read_config(self, there: bool) -> None:
        self.config = {"vocab": None, "steps": None, "threshold": None}
        if not there:
            return
        with REAL.open(self.run.config) as file:
            try:
                config = strict_json.parse(file.readall(), constant=float)
            except ValueError:
                raise ValueError("found text that is no JSON, expected the run's configuration") from None
        model, train = (_object(_object(config).get(key)) for key in ("model", "train"))
        self.config["vocab"] = _positive(model.get("vocab"), int)
        self.config["steps"] = _positive(train.get("steps"), int)
        self.config["threshold"] = _positive(train.get("clip"), int, float)

    def _read_fork(self, there: bool) -> None:
        self.fork = None
        self.fork = origin(self.run) if there else None

    def _read_segments(self, there: bool) -> None:
        self.segments = segments.read(self.run) if there else []

    def _folder(self) -> None:
        """The weight files and pins, when the folder's list of names may have changed."""
        path = self.run.path
        with self._named(path):
            found = os.stat(path) if path.exists() else None
            key = found and (found.st_ino, found.st_mtime_ns)
            if key == self._seen.get(path, ()) and (not found or time.time() - found.st_mtime > SETTLED):
                return
            self._seen[path] = key
            self.problems.pop(path.name, None)
            files = scan(path) if found else []
            pinned = rotation.pins(path) if found else {}
            self.saved = {step: pinned.get(step) for step in map(step_of, (file.name for file in files))}
            self.params = (files[-1].stat().st_size - HEADER.size) // 12 if files else None

    # ------------------------------------------------------------------------------------------------ telling

    def told(self, unreadable: int, problem: str | None, changed: float, segments_seen: dict[int, int]) -> Json:
        """The facts as a frame carries them.

        unreadable, problem, changed: of the log. segments_seen: {segment: its first step}, by the log's records.
        """
        state, why = self._state(changed, bool(segments_seen))
        problems = [f"{self.run.log.name}: found {problem}, expected a loss log"] if problem else []
        fork = self.fork and {"from": self.fork["from"], "step": self.fork["step"]}
        at_work = self.engine or self.proxy
        return {
            "name": self.run.name,
            **{key: self.given[key] or self.config[key] for key in ("vocab", "steps")},
            "threshold": self.config["threshold"],
            "params": self.params,
            "state": state,
            "why": why,
            "segments": [_segment(each) for each in self.segments[-MOST:]],
            "marks": self._marks(segments_seen),
            "fork": fork,
            "unreadable": unreadable,
            "problems": problems + [self.problems[name] for name in sorted(self.problems)],
            "engine": at_work and str(at_work),
            "control": self.engine is not None and os.access(self.run.path, os.W_OK),
        }

    def _state(self, changed: float, logged: bool) -> tuple[str, str | None]:
        """The word for what the run does or how it ended, and the reason that was recorded with the end."""
        last = self.segments[-1] if self.segments else None
        ended = last is not None and bool(last.end)
        for holder in filter(None, (self.engine, self.proxy)):
            if holder.here or (not ended and time.time() - changed < ABROAD):
                return "training", None
        if last is None:
            return ("not recorded" if logged and self.fork is None else "waiting"), None
        if not ended:
            return ("unknown" if self.engine or self.proxy else "killed"), None
        outcome = _outcome(last)
        return outcome if outcome in ENDS else "unknown", _text(last.end.get("reason"))

    def _marks(self, segments_seen: dict[int, int]) -> list[Json]:
        saved = sorted(self.saved.items())[-MOST:]
        marks = [_mark(step, "checkpoint" if why is None else "pinned", why or "") for step, why in saved]
        begun = segments_seen | {each.number: each.begin.get("from_step") for each in self.segments}
        begun.pop(min(begun, default=0), None)  # the first segment is no resume
        marks += [_mark(step, "resume", f"segment {n}") for n, step in sorted(begun.items())[-MOST:] if _step(step)]
        asked = [wish for each in self.segments for wish in each.asked][-MOST:]
        marks += [_mark(a["step"], f"{a['wish']} asked") for a in asked
                  if _step(a.get("step")) and a.get("wish") in ("save", "stop", "abort")]  # fmt: skip
        if self.fork:
            marks.append(_mark(self.fork["step"], "fork", f"fork of {self.fork['from']}"))
        return sorted(marks, key=lambda mark: mark["step"])


def _segment(each: segments.Segment) -> Json:
    from_step, times = each.begin.get("from_step"), (_text(each.begin.get("time")), _text(each.end.get("time")))
    known = {"segment": each.number, "from_step": from_step if _step(from_step) else None, "time": times[0]}
    return known | {"outcome": _outcome(each), "end_time": times[1]}


def _outcome(each: segments.Segment) -> str | None:
    return "stopped" if each.outcome == "interrupted" else _text(each.outcome)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _mark(step: int, kind: str, label: str = "") -> Json:
    return {"step": step, "kind": kind, "label": label or kind}


def _identity(path: Path) -> tuple | None:
    """What tells a file from any other state of it; None when it is not there."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _positive(value: Any, *kinds: type) -> Any:
    """The number, if it is one of these kinds and above 0; else None."""
    return value if type(value) in kinds and 0 < value < EXACT else None


def _step(value: Any) -> bool:
    return type(value) is int and 0 <= value < EXACT
