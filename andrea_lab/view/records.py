"""The records of a loss log in columns that grow: what the feed keeps, 36 bytes a record, in file order."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

import numpy as np

from andrea_lab.view.frame import COLUMNS, FLOATS

LEAST = 1024  # records for which there is room from the start
GROWTH = 8  # a column that is full grows by this part of itself
LARGEST = 2**31 - 1  # step or segment
MOST_SOURCES, LONGEST_NAME = 200, 80  # further sources share a name, longer names are cut: all go into every frame
OTHERS = "(others)"
ALL = itemgetter(*(name for name, _ in COLUMNS))

Columns = dict[str, np.ndarray]


class Records:
    """Columns by name, `count` records long, and the names of the sources that the column "source" counts.

    `part` gives views. What was appended is never written to again, so a view stays as it is while more is appended.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.count = 0
        self.sources: list[str] = []
        self._ids: dict[str, int] = {}
        self._arrays = {name: np.empty(0, kind) for name, kind in COLUMNS}

    def part(self, first: int, last: int) -> Columns:
        """Records first ... last - 1."""
        last = min(last, self.count)
        return {name: array[first:last] for name, array in self._arrays.items()}

    def add(self, entries: list[dict[str, Any]]) -> int:
        """Append what fits of these entries of a log; returns how many did not.

        An entry fits when its step, and its segment if it has one, is a whole number from 0 to LARGEST. A value that is
        missing or no number is NaN; one too large for a float32 is an infinity.
        """
        if not entries:
            return 0
        steps, segments, sources, *values = _turned(entries)
        segments = [segment or 0 for segment in segments]
        if not (_counts(steps) and _counts(segments)):
            fit = [e for e in entries if _counts([e.get("step")]) and _counts([e.get("segment") or 0])]
            return len(entries) - len(fit) + self.add(fit)
        columns = {"step": steps, "segment": segments, "source": self._source_ids(sources)}
        columns |= {name: _numbers(column) for name, column in zip(FLOATS, values, strict=True)}
        self._append(columns, len(entries))
        return 0

    def _source_ids(self, names: Sequence[Any]) -> list[int]:
        try:
            return [self._ids[name] for name in names]
        except (KeyError, TypeError):  # one not seen before, or something that is no name
            return [self._source_id(name) for name in names]

    def _source_id(self, name: Any) -> int:
        name = "?" if name is None else str(name)
        if len(name) > LONGEST_NAME:
            name = name[: LONGEST_NAME - 3] + "..."
        if name not in self._ids:
            if len(self.sources) >= MOST_SOURCES:
                name = OTHERS
            if name not in self.sources:
                self.sources.append(name)
            self._ids[name] = self.sources.index(name)
        return self._ids[name]

    def _append(self, columns: Mapping[str, Any], count: int) -> None:
        end = self.count + count
        if end > len(self._arrays["step"]):
            room = max(end + end // GROWTH, LEAST)
            for name, kind in COLUMNS:
                grown = np.empty(room, kind)
                grown[: self.count] = self._arrays[name][: self.count]
                self._arrays[name] = grown
        for name in self._arrays:
            self._arrays[name][self.count : end] = columns[name]
        self.count = end


def _turned(entries: list[dict[str, Any]]) -> Iterable[Sequence[Any]]:
    """The values of each column; None where an entry has none."""
    with suppress(KeyError):
        return zip(*map(ALL, entries), strict=True)
    return ([entry.get(name) for entry in entries] for name, _ in COLUMNS)


def _counts(values: Sequence[Any]) -> bool:
    """Whether all values are whole numbers from 0 to LARGEST."""
    return set(map(type, values)) <= {int} and (not values or (min(values) >= 0 and max(values) <= LARGEST))


def _numbers(values: Sequence[Any]) -> np.ndarray:
    """The values as float32."""
    if not set(map(type, values)) <= {float, int, type(None)}:
        values = [value if type(value) in (float, int) else None for value in values]
    with np.errstate(over="ignore"):
        try:
            return np.array(values, np.float64).astype(np.float32)
        except OverflowError:  # a whole number beyond float64
            return np.array([_float(value) for value in values]).astype(np.float32)


def _float(value: float | int | None) -> float:
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        return np.copysign(np.inf, 1 if value > 0 else -1)
