"""The loss log: one JSON object per step and line, appended, never rewritten.

Floats are float32 values written as the shortest decimal that reads back to the same float32. JSON has no word for
infinity or not-a-number: such a value is null, and the key "nonfinite" says which it was.
"""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


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


def decode(line: str) -> dict[str, Any]:
    """The entry of one line; marked values are floats again. Raises ValueError."""
    entry = json.loads(line)
    if not isinstance(entry, dict) or not isinstance(entry.get("step"), int):
        raise ValueError("an entry is an object with an integer step")
    for key, word in entry.pop("nonfinite", {}).items():
        entry[key] = float(word)
    return entry


class LossLog:
    """The writer. `append` returns when the line is on the disk. A torn last line of an earlier one is closed off."""

    def __init__(self, path: Path):
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o644)
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            self._write(b"\n")

    def append(self, entry: dict[str, Any]) -> None:
        self._write((encode(entry) + "\n").encode())

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> "LossLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._fd, data) :]
        getattr(os, "fdatasync", os.fsync)(self._fd)


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
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise LogError(f"{path}: found {error.strerror}, expected a loss log") from None
    log = Log()
    for number, line in enumerate(lines, 1):
        if not line.strip(b"\r\0 "):
            continue
        try:
            log.entries.append(decode(line.decode()))
        except (ValueError, TypeError, AttributeError, RecursionError):
            log.torn.append(number)
    if log.torn and not log.entries:
        raise LogError(f"{path}: found no entry in {len(log.torn)} lines, expected one JSON object a line")
    return log
