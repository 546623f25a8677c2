"""Several ways to do one piece of work, timed fairly: by turns, in rounds, after each has proved its result."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial
from statistics import geometric_mean, median

import numpy as np

TURN = 0.01  # seconds: a shorter piece of work is repeated within its turn
WARM = 0.01  # seconds of calls before a turn's clock starts
MOST = 50  # repetitions in a turn


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def warm(work: Callable[[], object]) -> float:
    """Call for about WARM seconds, at least once; how long the last call took."""
    start = time.perf_counter()
    while True:
        last = seconds(work)
        if time.perf_counter() - start >= WARM:
            return last


def interleave(
    sides: dict[str, Callable[[], object]], rounds: int, pause: float = 0.05, prepare: Callable[[str], object] = str
) -> dict[str, float]:
    """The median time of each side, ms. Every round visits all sides, odd rounds in reverse order.

    A turn is a pause (threads of the side before stop spinning), `prepare(side)`, calls for about WARM seconds that do
    not count (its own threads wake up), then calls for about TURN seconds, whose median is the turn's time.
    """
    repeats = {name: max(1, min(MOST, round(TURN / max(warm(work), 1e-6)))) for name, work in sides.items()}

    def turn(name: str) -> float:
        time.sleep(pause)
        prepare(name)
        warm(sides[name])
        return median(seconds(sides[name]) for _ in range(repeats[name]))

    turns = by_turns({name: partial(turn, name) for name in sides}, rounds)
    return {name: median(times) * 1e3 for name, times in turns.items()}


def by_turns(sides: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """What each side returns in each round. Odd rounds go in reverse order, so that nobody always comes first."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    gc.collect()
    gc.disable()
    try:
        for r in range(rounds):
            for name in list(sides) if r % 2 == 0 else reversed(sides):
                found[name].append(sides[name]())
    finally:
        gc.enable()
    return found


def relative_error(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest ||a - b|| / ||b|| over pairs of arrays; NaN when a result is not finite."""
    errors = [0.0]
    for a, b in zip(found, expected, strict=True):
        size = np.linalg.norm(b)
        errors.append(float(np.linalg.norm(a - b) / size) if size else float(np.abs(a).max()))
    return float("nan") if any(np.isnan(errors)) else max(errors)


def mean_ratio(ratios: list[float]) -> float:
    """The geometric mean: half as fast and twice as fast cancel out."""
    return geometric_mean(ratios)
