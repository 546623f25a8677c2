"""The loss log: one JSON object per step and line, appended, never rewritten.

Floats are float32 values written as the shortest decimal that reads back to the same float32. JSON has no word for
infinity or not-a-number: such a value is null, and the key "nonfinite" says which it was.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from andrea_lab.run.lines import Lines, backwards, forwards, good, parse

FREE = {"segment", "ms"}  # what may differ between a step and its repetition


class LogError(ValueError):
    """A log that cannot be read; the message is one line for the user."""


def shortest(value: float) -> str:
    """The shortest decimal that reads back to the same float32, as JSON wants it. `value` must be finite."""
    single = np.float32(value)
    text = str(single)
    if np.float32(float(text)) != single:  # read through float64 and rounded twice: spell out all digits
        text = repr(float(single))
    return text


def encode(entry: dict[str, Any]) -> str:
    """One entry as one line of JSON without the newline."""
    marks: dict[str, str] = {}
    parts = []
    for key, value in entry.items():
        if isinstance(value, float | np.floating):
            if math.isfinite(value):
                text = shortest(value)
            else:
                marks[key] = str(float(value))
                text = "null"
        else:
            text = json.dumps(value, allow_nan=False)
        parts.append(f"{json.dumps(key)}: {text}")
    if marks:
        parts.append(f'"nonfinite": {json.dumps(marks)}')
    return "{" + ", ".join(parts) + "}"


def decode(line: str | bytes) -> dict[str, Any]:
    """The entry of one line; marked values are floats again. Raises ValueError."""
    entry = parse(line if isinstance(line, bytes) else line.encode())
    if type(entry.get("step")) is not int:
        raise ValueError("an entry is an object with an integer step")
    marks = entry.pop("nonfinite", {})
    if not isinstance(marks, dict):
        raise ValueError("nonfinite is an object")
    for key, word in marks.items():
        if entry.get(key, "") is None and word in ("nan", "inf", "-inf"):
            entry[key] = float(word)
    return entry


class LossLog(Lines):
    """The writer. `append` returns when the entry is on the disk; a torn last line of an earlier writer is closed off.

    Opening reads the last byte alone. There is one writer at a time: the holder of the run's proxy lock.
    """

    def append(self, entry: dict[str, Any]) -> None:
        super().append(encode(entry))


@dataclass
class Log:
    """A log as read: all entries in file order, and the numbers of the lines that are no entry (torn by a crash)."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    torn: list[int] = field(default_factory=list)

    def canonical(self) -> Iterator[dict[str, Any]]:
        """The last entry of every step, by step."""
        last = {entry["step"]: entry for entry in self.entries}
        return iter([last[step] for step in sorted(last)])


def read_log(path: Path) -> Log:
    """Read a log; lines that a crash tore are left out and reported in `.torn`. Raises LogError."""
    log = Log()
    try:
        lines = forwards(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    for number, line in enumerate(lines, 1):
        try:
            if line:
                log.entries.append(decode(line))
        except ValueError:
            log.torn.append(number)
    if log.torn and not log.entries:
        raise LogError(f"{path}: found no entry in {len(log.torn)} lines, expected one JSON object a line")
    return log


def last_entry(path: Path) -> dict[str, Any] | None:
    """The last whole entry, read from the end of the file; None without one, or without a log. Raises LogError."""
    return next(_entries_backwards(path), None)


def entries_after(path: Path, step: int) -> dict[int, dict[str, Any]]:
    """What the log says came after `step`: {step: entry}, steps rising.

    A repetition adds a line only where it differs, and from there on it is another run: a line makes void what was
    logged of later steps before it. Read from the end of the file, and only as far back as a line of `step` or an
    earlier one. Raises LogError.
    """
    found: dict[int, dict[str, Any]] = {}
    lowest = math.inf
    for entry in _entries_backwards(path):
        if entry["step"] <= step:
            break
        if entry["step"] < lowest:
            lowest = entry["step"]
            found[lowest] = entry
    return dict(sorted(found.items()))


def _entries_backwards(path: Path) -> Iterator[dict[str, Any]]:
    try:
        yield from good(backwards(path), decode)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> LogError:
    return LogError(f"{path}: found {error.strerror or error}, expected a loss log")


class Audit:
    """Compares the steps that a resumed run repeats with `expected`, {step: entry as logged}.

    A step is a function of the weights before it and of (seed, source, draw), so its repetition must log the very same
    values; every field but segment and ms counts. One that differs means that the resume was not exact, or that target,
    processor or program are others.
    """

    def __init__(self, expected: dict[int, dict[str, Any]]):
        self.expected = expected
        self.equal = self.different = 0
        self.first: dict[str, Any] | None = None

    def see(self, entry: dict[str, Any]) -> str:
        """ "new" for a step that was not logged, "equal", or "different". An equal one need not be logged again."""
        logged = self.expected.get(entry["step"])
        if logged is None:
            return "new"
        name = first_difference(logged, entry)
        if name is None:
            self.equal += 1
            return "equal"
        self.different += 1
        if self.first is None:
            values = {"logged": _plain(logged.get(name)), "now": _plain(entry.get(name))}
            self.first = {"step": entry["step"], "field": name} | values
        return "different"

    def summary(self) -> dict[str, Any]:
        """Counts of steps logged before, repeated, equal, different; and the first difference, values as JSON."""
        replayed = self.equal + self.different
        counts = {"logged": len(self.expected), "replayed": replayed, "equal": self.equal, "different": self.different}
        return counts | {"first": self.first}


def first_difference(logged: dict[str, Any], now: dict[str, Any]) -> str | None:
    """The first field, in the order of `logged`, whose line of the log would read otherwise; None when all agree."""
    for name in {**logged, **now}:
        if name in FREE:
            continue
        if name not in logged or name not in now or _text(logged[name]) != _text(now[name]):
            return name
    return None


def _text(value: Any) -> str:
    return encode({"value": value})


def _plain(value: Any) -> Any:
    """The value as the log would show it, a non-finite one as its word, so that a summary is always JSON."""
    written = json.loads(_text(value))
    return written["nonfinite"]["value"] if "nonfinite" in written else written["value"]
