"""The record of a run's segments, its uninterrupted stretches: one line when one begins, one when it ends.

Between the two a line for each save, stop or abort that was asked for from outside and met. A segment that was killed
has no end. The number of a segment only ever rises.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from andrea_lab.checkpoint.files import REAL, Files
from andrea_lab.run.directory import RunDirectory, RunError
from andrea_lab.run.lines import append_line, forwards, good
from andrea_lab.run.losslog import last_entry


@dataclass
class Segment:
    """One segment: the facts known when it began, and those known when it ended; outcome None: killed or at work.

    asked: the wishes that were met, in their order, each with "wish", "step" and "time".
    """

    number: int
    begin: dict[str, Any] = field(default_factory=dict)
    end: dict[str, Any] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)

    @property
    def outcome(self) -> str | None:
        return self.end.get("outcome")


def begin(run: RunDirectory, *, files: Files = REAL, **facts: Any) -> int:
    """Record that a segment begins and return its number, one more than any segment the run knows of.

    facts: from_step, from_file, rejected, target, gemm, cpu, versions, threads, pid; plain JSON. Raises OSError.
    """
    last = last_entry(run.log) or {}
    known = [segment.number for segment in read(run)]
    logged = last.get("segment")
    number = max([*known, logged if type(logged) is int else 0, 0]) + 1
    _append(run, "begin", number, facts, files)
    return number


def end(run: RunDirectory, segment: int, outcome: str, *, files: Files = REAL, **facts: Any) -> None:
    """Record how a segment ended, "finished", "interrupted" or a word for the error, with facts such as the audit."""
    _append(run, "end", segment, {"outcome": outcome} | facts, files)


def note(run: RunDirectory, segment: int, wish: str, step: int, *, files: Files = REAL) -> None:
    """Record that a wish, "save", "stop" or "abort", was met after `step`. Raises OSError."""
    _append(run, "asked", segment, {"wish": wish, "step": step}, files)


def read(run: RunDirectory) -> list[Segment]:
    """All segments by number; lines that a crash tore are passed over. Empty without a record. Raises RunError."""
    try:
        lines = forwards(run.segments)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"{run.segments}: found {error.strerror or error}, expected the record of segments") from None
    segments: dict[int, Segment] = {}
    for line in good(lines):
        number, event = line.pop("segment", None), line.pop("event", None)
        if type(number) is not int or event not in ("begin", "end", "asked"):
            continue
        segment = segments.setdefault(number, Segment(number))
        if event == "asked":
            segment.asked.append(line)
        else:
            getattr(segment, event).update(line)
    return [segments[number] for number in sorted(segments)]


def _append(run: RunDirectory, event: str, number: int, facts: dict[str, Any], files: Files) -> None:
    time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    line = {"schema": 1, "event": event, "segment": number, "time": time} | facts
    append_line(run.segments, json.dumps(line, allow_nan=False), files)
