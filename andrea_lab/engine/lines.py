"""Requests and answers as lines of JSON on a pipe.

JSON has no infinity and no not-a-number: such a float travels as `{"nonfinite": "nan"}`.
"""

import json
import math
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from andrea_lab import strict_json
from andrea_lab.checkpoint.files import REAL, write_all
from andrea_lab.engine.errors import EngineError

LONGEST = 16 * 2**20  # bytes of a line
PIECE = 2**16


def to_line(value: dict[str, Any]) -> bytes:
    """One line of JSON, with its newline. Raises TypeError or ValueError for what JSON does not have."""
    return json.dumps(_marked(value), allow_nan=False).encode() + b"\n"


def from_line(line: bytes) -> dict[str, Any]:
    """The object of a line. Raises EngineError for anything else."""
    if len(line) > LONGEST:
        raise EngineError(f"line: found more than {LONGEST} bytes, expected fewer")
    try:
        value = strict_json.parse(line, _unmarked)
    except ValueError as error:
        raise EngineError(f"line: found {_shown(line)} ({str(error)[:80]}), expected a JSON object") from None
    if not isinstance(value, dict):
        raise EngineError(f"line: found {_shown(line)}, expected a JSON object")
    return value


def send(fd: int, value: dict[str, Any]) -> None:
    """Write one line. Raises OSError when nobody reads it."""
    write_all(REAL, fd, memoryview(to_line(value)))


class Lines:
    """The lines of a pipe, read ahead by a thread, so that whoever waits for one can look at other things meanwhile.

    A line that is too long comes cut, so that `from_line` refuses it. on_end is called by the thread after the last.
    """

    def __init__(self, fd: int, on_end: Callable[[], None] = lambda: None):
        self._fd, self._on_end, self._ended = fd, on_end, False
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        threading.Thread(target=self._run, name="lines", daemon=True).start()

    def get(self, seconds: float) -> bytes | None:
        """The next line, waited for so long; None at the end, and from then on. Raises TimeoutError."""
        if self._ended:
            return None
        try:
            line = self._queue.get(timeout=seconds)
        except Empty:
            raise TimeoutError from None
        self._ended = line is None
        return line

    def _run(self) -> None:
        with suppress(OSError):  # closed under our hands, or the other side died: the end as well
            self._read()
        self._queue.put(None)
        self._on_end()

    def _read(self) -> None:
        parts: list[bytes] = []
        size = 0
        while piece := os.read(self._fd, PIECE):
            *whole, rest = piece.split(b"\n")
            for line in whole:
                self._queue.put(b"".join((*parts, line)))
                parts, size = [], 0
            if rest and size <= LONGEST:
                parts.append(rest)
                size += len(rest)
        if parts:
            self._queue.put(b"".join(parts))


def _marked(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"nonfinite": str(float(value))}
    if isinstance(value, dict):
        return {key: _marked(each) for key, each in value.items()}
    return [_marked(each) for each in value] if isinstance(value, list | tuple) else value


def _unmarked(value: dict[str, Any]) -> Any:
    if value.keys() == {"nonfinite"} and value["nonfinite"] in ("nan", "inf", "-inf"):
        return float(value["nonfinite"])
    return value


def _shown(line: bytes) -> str:
    return f"{line[:40]!r}" + (" ..." if len(line) > 40 else "")
