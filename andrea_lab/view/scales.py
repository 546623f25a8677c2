"""What a picture of runs shows, before anything is drawn: which steps, which losses, and how a long run is cut down."""

import math
from dataclasses import dataclass, field

import numpy as np

COLUMNS = 800  # a curve of more steps is drawn by the least and the greatest of so many columns
CELLS = 250  # a strip of more steps is drawn by shares
FENCE = 3.0  # interquartile ranges above the third quartile, plus half a nat: what lies beyond is a spike
LEAST = 0.4  # nats that a frame shows
BEFORE = 0.25  # of the width may show what was before the first fork
PLANNED = 0.1  # of the planned steps must be done for the axis to show the plan


@dataclass
class Line:
    """One run as it is drawn: its steps in rising order, their losses as logged, the smoothed ones, in nats."""

    name: str
    colour: str
    steps: np.ndarray
    loss: np.ndarray
    smoothed: np.ndarray
    rewound: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    forked_at: int | None = None

    def __len__(self):
        return len(self.steps)


def window(lines: list[Line], planned: int | None = None) -> tuple[float, float]:
    """The steps to show: all, or from a little before the first fork, so that a long past does not press the rest.

    `planned` steps end the axis of a run alone that has done a good part of them.
    """
    lines = [line for line in lines if len(line)]
    if not lines:
        return 0.0, float(planned or 20)
    last = max(int(line.steps[-1]) for line in lines)
    first = min(int(line.steps[0]) for line in lines)
    forks = [line.forked_at for line in lines if line.forked_at is not None]
    if forks and len(lines) > 1:
        first = max(first, round(min(forks) - (last - min(forks)) * BEFORE / (1 - BEFORE)))
    left = 0.0 if first <= max(1, 0.1 * last) else float(first)
    end = planned if len(lines) == 1 and planned and PLANNED * planned <= last <= planned else last
    return left, end + max((end - left) * 0.01, 0.5)  # the last step stands clear of the edge


def limits(lines: list[Line], left: float, uniform: float | None) -> tuple[float, float]:
    """The losses to show: all but spikes, with the loss of a uniform guess unless it is far above them."""
    usual, ends = [], []
    for line in lines:
        loss = line.loss[(line.steps >= left) & np.isfinite(line.loss)]
        if len(loss):
            quarter, three = np.quantile(loss, (0.25, 0.75))
            fence = three + FENCE * (three - quarter) + 0.5
            if uniform:  # who is so far above a guess has diverged
                fence = max(min(fence, 2 * uniform), float(loss.min()))
            inside = loss[loss <= fence]
            low, high = float(inside.min()), float(inside.max())
            cap = high + 0.75 * (high - low) + 0.5  # a spike not far above the rest is shown whole
            usual.append(low)
            ends.append(float(loss[loss <= cap].max()))
    low, high = (min(usual), max(ends)) if usual else (uniform or 0.5, uniform or 0.5)
    if uniform and high < uniform <= high + (high - low) + 0.5:
        high = uniform
    low, high = min(low, (low + high - LEAST) / 2), max(high, (low + high + LEAST) / 2)
    unit = 0.5 if high - low > 1.5 else 0.1
    return max(unit * math.floor((low - unit / 5) / unit), 0.0), unit * math.ceil((high + unit / 5) / unit)


def decades(values: np.ndarray) -> tuple[float, float]:
    """The powers of ten around positive values."""
    low, high = math.floor(math.log10(values.min())), math.ceil(math.log10(values.max()))
    return 10.0**low, 10.0 ** max(high, low + 1)


def envelope(steps, values, left: float, right: float):
    """Least and greatest value in each of COLUMNS equal columns of [left, right].

    Returns (x, low, high), one row per column that holds a step, so a spike one step wide is as tall in the picture as
    in the log. Non-finite values are passed over; a column of nothing else is NaN.
    """
    if len(steps) == 0:
        return np.empty(0), np.empty(0), np.empty(0)
    column = np.clip(((steps - left) * (COLUMNS / max(right - left, 1e-9))).astype(np.int64), 0, COLUMNS - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    finite = np.where(np.isfinite(values), values, np.nan)
    low, high = np.fmin.reduceat(finite, starts), np.fmax.reduceat(finite, starts)
    return left + (column[starts] + 0.5) * ((right - left) / COLUMNS), low, high


def zigzag(steps, values, left: float, right: float):
    """(x, y) of a curve: all its points, or, of more than COLUMNS, up and down between least and greatest."""
    if len(steps) <= COLUMNS:
        return steps, np.where(np.isfinite(values), values, np.nan)
    x, low, high = envelope(steps, values, left, right)
    return np.repeat(x, 2), np.stack([low, high], 1).ravel()


def shares(steps: np.ndarray, kinds: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """How the steps of each cell of a strip divide among `count` kinds.

    Returns (edges, share): edges (cells + 1) in steps, share (count, cells), each cell's sum 1, or 0 without a step.
    """
    steps, first, last = steps.astype(np.int64), int(steps[0]), int(steps[-1])
    cells = min(last - first + 1, CELLS)
    cell = np.minimum((steps - first) * cells // (last - first + 1), cells - 1)
    found = np.zeros((count, cells))
    np.add.at(found, (kinds, cell), 1.0)
    return np.linspace(first - 0.5, last + 0.5, cells + 1), found / np.maximum(found.sum(axis=0), 1.0)


def thinned(steps: np.ndarray, left: float, right: float, places: int) -> np.ndarray:
    """Those of rising steps that lie in [left, right], at most one in each of `places` equal parts of it."""
    steps = steps[(steps >= left) & (steps <= right)]
    return steps[np.diff(((steps - left) * (places / max(right - left, 1e-9))).astype(np.int64), prepend=-1) > 0]


def threshold(norm: np.ndarray, clip: np.ndarray) -> float | None:
    """The gradient norm at which steps were clipped, from the factors that clipping used; None where none was."""
    clipped = np.isfinite(norm) & (norm > 0) & np.isfinite(clip) & (clip > 0) & (clip < 1)
    return float(np.median(norm[clipped] * clip[clipped])) if clipped.any() else None
