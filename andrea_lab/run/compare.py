"""Two runs side by side: from which step on they differ, in what, and which of them converges.

Made for a fork and its parent, or two forks of one checkpoint, which saw the same batches; any two runs that have steps
in common will do. Everything comes from the loss logs, the last entry of a step being the true one.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from andrea_lab.run.average import averaged, keep_of
from andrea_lab.run.directory import RunDirectory, RunError
from andrea_lab.run.fork import differences, origin
from andrea_lab.run.losslog import FREE, first_difference, read_log

SIGMAS = 3.0  # a smoothed loss has risen when it is so many standard errors above where it began

Entries = dict[int, dict[str, Any]]


def span_of(steps: int) -> int:
    """How many steps a smoothed loss looks back: a twentieth of them, within 8 and 200."""
    return min(max(steps // 20, 8), 200)


def smooth(losses: Sequence[float], span: int) -> list[float]:
    """The debiased exponential moving average; losses that are not finite are passed over (nan before the first)."""
    return [total / weight if weight else math.nan for total, weight in averaged(losses, keep_of(span))]


def compare(a: Path | str, b: Path | str) -> dict[str, Any]:
    """What the logs of two run directories say about each other, as JSON values.

    `a`, `b`: {run, first, last, torn, diverged_at, fork, smoothed, rose}. `smoothed` is the loss at the last common
    step, in nats per token, averaged over common steps alone, so that neither run has the longer memory; `rose` says
    whether it is above where the run began. `common`: {first, last, steps, span}. `config`: {field: [a's, b's]} where
    they differ. `first_difference`: {step, field, a, b}, and `first_loss_difference`: a step; None where there is none.
    `converges`: "a", "b", "same" or "neither", and `why`, a sentence. Of two runs that stay finite and do not rise, the
    lower one converges.

    Raises RunError for a folder that is no run or runs without a common step, LogError for a log that cannot be read.
    """
    runs = [RunDirectory.open(a), RunDirectory.open(b)]
    logs = [read_log(run.log) for run in runs]
    entries = [{entry["step"]: entry for entry in log.canonical()} for log in logs]
    common = sorted(entries[0].keys() & entries[1].keys())
    if not common:
        spans = " and ".join(_extent(found) for found in entries)
        raise RunError(f"{runs[0].path} and {runs[1].path}: found {spans}, expected a step in common")
    span = span_of(len(common))
    about = [
        {"run": str(run.path), "first": min(found), "last": max(found), "torn": len(log.torn)}
        | {"diverged_at": _diverged_at(found), "fork": origin(run)}
        | _level(found, other, common, span)
        for run, log, found, other in zip(runs, logs, entries, reversed(entries), strict=True)
    ]
    converges, why = _judge(about, [run.name for run in runs], common[-1])
    different = [step for step in common if _loss(entries[0][step]) != _loss(entries[1][step])]
    return {
        "a": about[0],
        "b": about[1],
        "common": {"first": common[0], "last": common[-1], "steps": len(common), "span": span},
        "config": _config_changes(*runs),
        "first_difference": _first_difference(*entries, common),
        "first_loss_difference": different[0] if different else None,
        "converges": converges,
        "why": why,
    }


def _extent(entries: Entries) -> str:
    return f"steps {min(entries)} to {max(entries)}" if entries else "no step"


def _loss(entry: dict[str, Any]) -> float | str:
    """The loss for comparing: nan is equal to nan."""
    value = entry.get("loss")
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else str(value)


def _number(entry: dict[str, Any]) -> float:
    value = _loss(entry)
    return math.nan if isinstance(value, str) else value


def _diverged_at(entries: Entries) -> int | None:
    """The first step whose loss or gradient norm is not finite."""
    for step in sorted(entries):
        values = (entries[step].get("loss"), entries[step].get("grad_norm"))
        if any(isinstance(value, float) and not math.isfinite(value) for value in values):
            return step
    return None


def _level(entries: Entries, other: Entries, common: list[int], span: int) -> dict[str, Any]:
    """{"smoothed", "rose"} of one run.

    Where it began is the mean of the last `span` losses up to the first common step. A fork's own log begins there;
    where both runs agree on that step, the one with the longer log before it speaks for both.
    """
    losses = [loss for step in common if math.isfinite(loss := _number(entries[step]))]
    end = smooth(losses, span)[-1] if losses else math.nan
    before = [_number(found[step]) for found in [_past(entries, other, common[0])] for step in sorted(found)][-span:]
    before = [loss for loss in before if math.isfinite(loss)]
    if not losses or not before:
        return {"smoothed": _plain(end), "rose": False}
    error = _noise(losses) * math.sqrt(1 / len(before) + 1 / min(span, len(losses)))
    return {"smoothed": _plain(end), "rose": end > sum(before) / len(before) + SIGMAS * error}


def _past(entries: Entries, other: Entries, first: int) -> Entries:
    """The entries up to step `first`, of whichever run tells more of the same past."""
    mine, others = ({step: entry for step, entry in found.items() if step <= first} for found in (entries, other))
    shared = _loss(mine[first]) == _loss(others[first])
    return others if shared and len(others) > len(mine) else mine


def _noise(losses: list[float]) -> float:
    """The standard deviation of a loss around its trend, from neighbours: their difference has twice the variance."""
    steps = [(y - x) ** 2 for x, y in zip(losses, losses[1:], strict=False)]
    return math.sqrt(sum(steps) / (2 * len(steps))) if steps else 0.0


def _plain(value: Any) -> Any:
    """A value that JSON can hold: a number that is not finite becomes its word."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _first_difference(a: Entries, b: Entries, common: list[int]) -> dict[str, Any] | None:
    for step in common:
        if not _may_differ(a[step], b[step]):
            continue
        if (field := first_difference(a[step], b[step])) is not None:
            return {"step": step, "field": field, "a": _plain(a[step].get(field)), "b": _plain(b[step].get(field))}
    return None


def _may_differ(x: dict[str, Any], y: dict[str, Any]) -> bool:
    """False when all fields that count are equal, at a hundredth of the price of comparing their texts."""
    return x.keys() != y.keys() or any(x[name] != y[name] for name in x if name not in FREE)


def _judge(about: list[dict[str, Any]], names: list[str], last: int) -> tuple[str, str]:
    """Which run converges, and the sentence that says why."""
    notes, fit = [], []
    for key, run, name in zip("ab", about, names, strict=True):
        title = f"{key.upper()} ({name})"
        if run["diverged_at"] is not None:
            notes.append(f"{title} diverged at step {run['diverged_at']}")
        elif isinstance(run["smoothed"], str):
            notes.append(f"{title} has no loss in common")
        elif run["rose"]:
            notes.append(f"{title} rose to {run['smoothed']:.3f}, above where it began")
        else:
            fit.append(key)
    if not fit:
        return "neither", "neither converges: " + ", ".join(notes)
    if len(fit) == 1:
        return fit[0], f"{fit[0].upper()} converges: {notes[0]}"
    low, high = sorted(zip("ab", about, names, strict=True), key=lambda item: item[1]["smoothed"])
    if low[1]["smoothed"] == high[1]["smoothed"]:
        return "same", f"both have the smoothed loss {low[1]['smoothed']:.3f} at step {last}"
    gap = high[1]["smoothed"] - low[1]["smoothed"]
    return low[0], (
        f"{low[0].upper()} ({low[2]}) is lower by {gap:.3g} nats per token at step {last}: "
        f"{low[1]['smoothed']:.3f} against {high[1]['smoothed']:.3f}"
    )


def _config_changes(a: RunDirectory, b: RunDirectory) -> dict[str, list[Any]]:
    """{"train.lr": [a's, b's], ...}: the fields of two config.json that differ; empty where one cannot be read."""
    try:
        return dict(differences(*(json.loads(run.config.read_bytes()) for run in (a, b))))
    except (OSError, ValueError, RecursionError):
        return {}
