"""What a loss log says, kept in arrays that grow: the part of the live view that knows no picture.

The log only ever grows, so a reader needs one number, the offset of the first byte it has not yet understood. A line
without its newline is a write in progress and is left for the next call. A step may appear twice, when a run went back
and repeated steps: the last line of a step is the true one, the earlier value is kept aside.
"""

from array import array
from pathlib import Path

import numpy as np

from andrea_lab.run.average import averaged, keep_of
from andrea_lab.run.losslog import decode

FIELDS = ("loss", "grad_norm", "clip", "lr", "tokens", "ms")


class Tail:
    """The lines appended to `path` since the last call, each complete and decoded.

    A file that does not exist yet gives no lines; one that became shorter is read again from its start. A picture must
    never stop the training it shows, so a line that cannot be read is counted in `damaged` and passed over.
    """

    def __init__(self, path):
        self.path = Path(path)
        self.offset = 0
        self.damaged = 0

    def read(self) -> tuple[list[dict], bool]:
        """Return (new entries, restarted); `restarted` says that what was read before no longer counts."""
        try:
            with open(self.path, "rb") as file:
                size = file.seek(0, 2)
                restarted = size < self.offset
                if restarted:
                    self.offset = self.damaged = 0
                file.seek(self.offset)
                data = file.read(size - self.offset)
        except FileNotFoundError:
            restarted = self.offset > 0
            self.offset = self.damaged = 0
            return [], restarted
        end = data.rfind(b"\n") + 1
        entries = []
        for line in data[:end].split(b"\n"):
            if line.strip(b"\r\0 "):
                try:
                    entries.append(decode(line.decode()))
                except (ValueError, TypeError, AttributeError, RecursionError):
                    self.damaged += 1
        self.offset += end
        return entries, restarted


class History:
    """Steps in rising order with their values; `smooth` is the span, in steps, of the debiased moving average."""

    def __init__(self, smooth: int = 20):
        self.clear()
        self.respan(smooth)

    def clear(self):
        self.step, self.segment, self.source = array("q"), array("q"), array("q")
        self.columns = {name: array("d") for name in FIELDS}
        self.sources: list[str] = []
        self.replaced: list[tuple[int, float]] = []
        self._smooth, self._weight = array("d"), array("d")

    def respan(self, smooth: int):
        """Change the span of the moving average, which is then taken anew from the first step."""
        if smooth < 1:
            raise ValueError(f"smooth: found {smooth}, expected a number of steps >= 1")
        self.keep = keep_of(smooth)
        del self._smooth[:], self._weight[:]

    def __len__(self):
        return len(self.step)

    def add(self, entry: dict):
        """Take one log entry. A missing or null value, and one the log marks as non-finite, becomes NaN."""
        step, values = entry["step"], [_number(entry.get(name)) for name in FIELDS]
        segment, source = entry.get("segment") or 0, self._source_id(entry.get("source"))
        if not self.step or step > self.step[-1]:
            self.step.append(step)
            self.segment.append(segment)
            self.source.append(source)
            for name, value in zip(FIELDS, values, strict=True):
                self.columns[name].append(value)
            return
        at = int(np.searchsorted(np.array(self.step), step))
        known = self.step[at] == step
        if known:
            self.replaced.append((step, self.columns["loss"][at]))
        self._put(self.step, at, step, known)
        self._put(self.segment, at, segment, known)
        self._put(self.source, at, source, known)
        for name, value in zip(FIELDS, values, strict=True):
            self._put(self.columns[name], at, value, known)
        del self._smooth[at:], self._weight[at:]

    @staticmethod
    def _put(column, at, value, known):
        if known:
            column[at] = value
        else:
            column.insert(at, value)

    def _source_id(self, name) -> int:
        name = str(name) if name is not None else "?"
        if name not in self.sources:
            self.sources.append(name)
        return self.sources.index(name)

    def values(self, name: str) -> np.ndarray:
        """One column as float64, a copy: loss, grad_norm, clip, lr, tokens, ms."""
        return np.array(self.columns[name])

    def steps(self) -> np.ndarray:
        return np.array(self.step)

    def source_ids(self) -> np.ndarray:
        return np.array(self.source)

    def smoothed(self) -> np.ndarray:
        """Exponential moving average of the loss over the sum of its weights; non-finite losses are passed over."""
        loss = self.columns["loss"]
        last = (self._smooth[-1], self._weight[-1]) if self._smooth else (0.0, 0.0)
        for total, weight in averaged(loss[len(self._smooth) :], self.keep, *last):
            self._smooth.append(total)
            self._weight.append(weight)
        weights = np.array(self._weight)
        return np.divide(np.array(self._smooth), weights, out=np.full(len(weights), np.nan), where=weights > 0)

    def resumes(self) -> np.ndarray:
        """The steps at which a new segment of the run begins, the first segment left out."""
        segment = np.array(self.segment)
        return self.steps()[1:][np.diff(segment) > 0] if len(segment) > 1 else np.array([], int)


def _number(value) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def envelope(steps, values, first: float, last: float, width: int):
    """Smallest and largest value in each of `width` equal columns of [first, last].

    Returns (x, low, high), one row per column that holds a step, so a spike one step wide is as tall in the picture as
    in the log. Non-finite values are passed over; a column of nothing else is NaN.
    """
    if len(steps) == 0:
        return np.empty(0), np.empty(0), np.empty(0)
    column = np.clip(((steps - first) * (width / max(last - first, 1e-9))).astype(np.int64), 0, width - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    finite = np.where(np.isfinite(values), values, np.nan)
    low, high = np.fmin.reduceat(finite, starts), np.fmax.reduceat(finite, starts)
    return first + (column[starts] + 0.5) * ((last - first) / width), low, high
