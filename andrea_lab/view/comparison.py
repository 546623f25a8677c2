"""The loss curves of several runs in one picture: made to see where a fork leaves its parent, and which is lower."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from andrea_lab.checkpoint.files import replace_with
from andrea_lab.run.compare import smooth, span_of
from andrea_lab.run.directory import RunDirectory, RunError
from andrea_lab.run.fork import origin
from andrea_lab.run.losslog import read_log
from andrea_lab.view.history import envelope
from andrea_lab.view.palette import GRID, INK, NOTE, RUN_COLOURS
from andrea_lab.view.style import Picture, figure, picture

WIDTH, HEIGHT = 9.0, 4.5  # inches at 100 dots
COLUMNS = 800  # a longer curve shows the least and the greatest of each column
FENCE = 3.0  # interquartile ranges above the third quartile, plus half a nat: what lies beyond leaves the frame
LONGEST = 28  # letters of a name in the legend
BEFORE = 0.25  # of the width may show what was before the first fork


@dataclass
class Line:
    """One run as it is drawn: its steps, their losses (nan where not finite) and the smoothed ones."""

    name: str
    steps: np.ndarray
    loss: np.ndarray
    forked_at: int | None
    vocab: int | None
    smoothed: np.ndarray | None = None


def comparison(runs: list[Path | str]) -> Picture:
    """The curves of two to six run directories. Raises RunError and LogError, one line each."""
    if not 2 <= len(runs) <= len(RUN_COLOURS):
        raise RunError(f"comparison: found {len(runs)} runs, expected 2 to {len(RUN_COLOURS)}")
    lines = [_line(RunDirectory.open(run), name) for run, name in zip(runs, _names(runs), strict=True)]
    span = span_of(min(len(line.loss) for line in lines))  # one for all: else the longer run looks calmer
    for line in lines:
        line.smoothed = np.array(smooth(line.loss, span))
    left, right = _window(lines)
    drawn, axes = figure(width=WIDTH, height=HEIGHT)
    bottom, top = _frame(lines, left, right)
    axes.set(xlim=(left, right), ylim=(bottom, top), ylabel="loss (nats per token)")
    axes.set_xlabel("step (one optimiser update)", loc="left")
    axes.grid(color=GRID, lw=0.8)
    notes = []
    for line, colour in zip(lines, RUN_COLOURS, strict=False):
        notes += _curve(axes, line, colour, (left, right, top))
    _marks(axes, lines, (left, right, bottom, top))
    axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1), ncols=len(lines), fontsize=8.5, frameon=False)
    below = {"xycoords": "axes fraction", "textcoords": "offset points", "xytext": (0, -30), "fontsize": 8.5}
    axes.annotate("; ".join(notes), (1, 0), color=NOTE, ha="right", **below)
    return picture(drawn, _words(lines, notes))


def save_comparison(runs: list[Path | str], path: Path | str) -> Path:
    """Write the picture to the PNG file `path`, which is returned. Raises RunError, LogError, OSError."""
    path = Path(path)
    png = comparison(runs).png
    replace_with(path, lambda write: write(memoryview(png)), size=len(png))
    return path


def _names(runs: list[Path | str]) -> list[str]:
    """The runs' own names, or as much of their paths as tells them apart."""
    paths = [Path(run).resolve() for run in runs]
    most = max(len(path.parts) for path in paths)
    for parts in range(1, most + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


def _line(run: RunDirectory, name: str) -> Line:
    entries = list(read_log(run.log).canonical())
    if not entries:
        raise RunError(f"{run.log}: found no step, expected at least one")
    values = [entry.get("loss") for entry in entries]
    loss = [value if isinstance(value, int | float) and math.isfinite(value) else math.nan for value in values]
    forked = origin(run)
    steps = np.array([entry["step"] for entry in entries])
    at = None if forked is None else forked["step"]
    return Line(name, steps, np.array(loss), at, _vocab(run))


def _vocab(run: RunDirectory) -> int | None:
    """The size of the vocabulary as the run's config.json has it, None where it does not say."""
    try:
        vocab = json.loads(run.config.read_bytes())["model"]["vocab"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return vocab if isinstance(vocab, int) and vocab > 0 else None


def _window(lines: list[Line]) -> tuple[float, float]:
    """The steps to show: all, or from a little before the first fork, so that a long past does not press the rest."""
    last = max(int(line.steps[-1]) for line in lines)
    forks = [line.forked_at for line in lines if line.forked_at is not None]
    first = min(int(line.steps[0]) for line in lines)
    if forks:
        first = max(first, round(min(forks) - (last - min(forks)) * BEFORE / (1 - BEFORE)))
    left = 0 if first <= 1 else first
    return left, last + max((last - left) * 0.02, 0.5)


def _frame(lines: list[Line], left: float, right: float) -> tuple[float, float]:
    """The losses to show, in halves of a nat: all but spikes, and the line of a uniform guess."""
    shown = [line.loss[(line.steps >= left) & np.isfinite(line.loss)] for line in lines]
    usual = []
    for loss in shown:
        if len(loss):
            quarter, three = np.quantile(loss, (0.25, 0.75))
            usual.append(loss[loss <= three + FENCE * (three - quarter) + 0.5])
    values = np.concatenate(usual) if usual else np.zeros(1)
    uniform = [math.log(line.vocab) for line in lines if line.vocab]
    low, high = float(values.min()), max(float(values.max()), *uniform, 0.0)
    return 0.5 * math.floor(max(low - 0.05, 0.0) * 2), 0.5 * math.ceil((high + 0.2) * 2)


def _curve(axes, line: Line, colour: str, frame: tuple[float, float, float]) -> list[str]:
    """One run's losses, faint, and smoothed; returns what must be said of it."""
    left, right, top = frame
    shown = line.steps >= left
    steps, loss = line.steps[shown], line.loss[shown]
    smooth_line = {"lw": 2.0, "label": _label(line.name)}
    for values, how in ((loss, {"lw": 0.7, "alpha": 0.3}), (line.smoothed[shown], smooth_line)):
        if len(steps) > COLUMNS:
            x, low, high = envelope(steps, values, left, right, COLUMNS)
            axes.plot(np.repeat(x, 2), np.stack([low, high], 1).ravel(), color=colour, **how)
        else:
            axes.plot(steps, values, color=colour, **how)
    notes, bad = [], steps[~np.isfinite(loss)]
    above = steps[np.isfinite(loss) & (loss > top)]
    if len(bad):
        axes.plot([bad[0]], [top], "X", color=colour, ms=9, mec=INK, mew=0.8, clip_on=False)
        notes.append(f"{line.name} is not finite, first at step {bad[0]}")
    if len(above):
        axes.plot(above[:: max(1, len(above) // 200)], np.full(len(above[:: max(1, len(above) // 200)]), top), "^",
                  color=colour, ms=5, clip_on=False)  # fmt: skip
        notes.append(f"{line.name}: {len(above)} above the frame")
    return notes


def _label(name: str) -> str:
    """A name as the legend takes it: no formula, not hidden by a first underscore, not too long."""
    short = name if len(name) <= LONGEST else "..." + name[3 - LONGEST :]
    return " " * short.startswith("_") + short.replace("$", r"\$")


def _marks(axes, lines: list[Line], frame: tuple[float, float, float, float]) -> None:
    """The line of a uniform guess and the steps at which runs were forked."""
    left, right, bottom, top = frame
    clear = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # no line goes through the words
    near = {"textcoords": "offset points", "fontsize": 8.5, "color": INK, "bbox": clear}
    vocabs = {line.vocab for line in lines if line.vocab}
    for vocab in sorted(vocabs):
        axes.axhline(math.log(vocab), color=INK, lw=1, ls=(0, (4, 3)))
        text = f"ln V = {math.log(vocab):.2f}, a uniform guess over V = {vocab}"
        axes.annotate(text, (left, math.log(vocab)), xytext=(4, 3), **near)
    for step in sorted({line.forked_at for line in lines if line.forked_at is not None}):
        if left <= step <= right:
            axes.axvline(step, color=INK, lw=1, ls=(0, (1, 2)))
            axes.annotate(f"fork at step {step}", (step, bottom), xytext=(4, 4), **near)


def _words(lines: list[Line], notes: list[str]) -> str:
    """The picture in a sentence."""
    parts = [f"{line.name} from step {line.steps[0]} to {line.steps[-1]}, smoothed loss {line.smoothed[-1]:.2f}"
             for line in lines]  # fmt: skip
    forks = [f"{line.name} forked at step {line.forked_at}" for line in lines if line.forked_at is not None]
    return "loss curves: " + "; ".join(parts + forks + notes)
