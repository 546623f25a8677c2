"""Frames of runs that never were, of any length: for tests of what decodes and draws them, here and in a browser."""

from collections.abc import Callable
from typing import Any

import numpy as np

from andrea_lab.view.frame import COLUMNS, pack

MOST = 200_000  # records of one frame
SOURCES = ("kjv", "plays", "wikipedia", "code")
Columns = dict[str, np.ndarray]


def records(count: int, *, seed: int = 1, vocab: int = 257, sources: int = 3) -> Columns:
    """The columns of `count` steps from 1 on: a loss that falls from ln(vocab), noisy, each source a little apart."""
    rng = np.random.default_rng(seed)
    step = np.arange(1, count + 1)
    source = rng.integers(0, sources, count)
    scale = max(count / 12, 1)
    loss = 1.4 + (np.log(vocab) - 1.4) / (1 + step / scale) + 0.12 * source + rng.normal(0, 0.07, count)
    norm = 0.6 + 3 / (1 + step / scale) * rng.lognormal(0, 0.3, count)
    warm = np.minimum(1, step / max(count / 50, 1))
    columns = {"step": step, "segment": np.ones(count), "source": source, "loss": loss, "grad_norm": norm}
    columns |= {"clip": np.minimum(1, 1 / norm), "lr": 3e-4 * warm * (0.55 + 0.45 * np.cos(np.pi * step / count))}
    columns |= {"tokens": np.full(count, 1024), "ms": 100 * rng.lognormal(0, 0.08, count)}
    return {name: columns[name].astype(f"<{kind}") for name, kind in COLUMNS}


def with_bad(columns: Columns, *steps: int, value: float = np.nan) -> Columns:
    """The same with this loss, such as a nan or an infinity, at these steps."""
    return _changed(columns, steps, lambda loss: np.full_like(loss, value))


def with_spike(columns: Columns, *steps: int, height: float = 4.0) -> Columns:
    """The same with the loss `height` higher at these steps."""
    return _changed(columns, steps, lambda loss: loss + np.float32(height))


def with_rewind(columns: Columns, at: int, to: int, *, seed: int = 7) -> Columns:
    """The same run, gone back after step `at` to go on from step `to`, in another segment: steps to + 1 ... at twice.

    What comes later in the log counts; the first steps to + 1 ... at are the rewound branch.
    """
    first, again = columns["step"] <= at, columns["step"] > to
    other = {name: values[again].copy() for name, values in columns.items()}
    other["segment"] += 1
    other["loss"] += np.random.default_rng(seed).normal(0, 0.05, len(other["loss"])).astype("<f4")
    return {name: np.concatenate([values[first], other[name]]) for name, values in columns.items()}


def _changed(columns: Columns, steps: tuple[int, ...], change: Callable[[np.ndarray], np.ndarray]) -> Columns:
    at = np.isin(columns["step"], steps)
    return columns | {"loss": np.where(at, change(columns["loss"]), columns["loss"])}


def facts(name: str = "made", **more: Any) -> dict[str, Any]:
    """Facts of a run of 257 words at work, with what `more` says otherwise."""
    known = {"name": name, "vocab": 257, "steps": None, "threshold": 1.0, "params": 421_376, "state": "training"}
    known |= {"why": None, "segments": [], "marks": [], "fork": None, "unreadable": 0, "problems": []}
    return known | {"engine": "engine 123 (since 2026-11-01 12:00:00 UTC)", "control": False} | more


def frames(columns: Columns, most: int = MOST, generation: int = 1, **more: Any) -> list[bytes]:
    """The frames that hold all these records, at most `most` in each; at least one. `more` goes to the facts."""
    about, total = facts(**more), len(columns["step"])
    return [
        pack(
            {name: values[first : first + most] for name, values in columns.items()},
            run=about["name"],
            facts=about,
            sources=list(SOURCES[: int(columns["source"].max(initial=0)) + 1]),
            generation=generation,
            first=first,
            total=total,
        )
        for first in range(0, max(total, 1), most)
    ]


def run_frames(count: int = 1000, name: str = "made", seed: int = 1, **more: Any) -> list[bytes]:
    """An ordinary run of `count` steps: `records` in `frames`."""
    return frames(records(count, seed=seed), name=name, **more)


def eventful(count: int = 1000, name: str = "eventful", **more: Any) -> list[bytes]:
    """A run with a spike, losses that are not finite, a rewind, and marks of every kind."""
    made = with_spike(with_bad(records(count), count // 5, count // 5 + 1), count // 3)
    made = with_rewind(made, at=count * 3 // 5, to=count // 2)
    kinds = ("fork", "save asked", "checkpoint", "pinned", "stop asked", "resume")
    steps = (0, count // 4, count // 4, count // 3, count * 3 // 5, count // 2)
    marks = [{"step": step, "kind": kind, "label": kind} for step, kind in zip(steps, kinds, strict=True)]
    segments = [
        {"segment": 1, "from_step": 0, "time": "2026-11-01T12:00:00Z", "outcome": "stopped", "end_time": None},
        {"segment": 2, "from_step": count // 2, "time": "2026-11-01T13:00:00Z", "outcome": None, "end_time": None},
    ]
    known = {"marks": marks, "segments": segments, "steps": count, "unreadable": 1}
    return frames(made, name=name, **(known | more))
