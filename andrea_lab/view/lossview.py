"""The loss view: one run, or several, as they train. Live on a page, a picture elsewhere, a line of text everywhere.

It reads run directories and nothing else, so it does not matter who trains: this kernel, another process, or nobody
any more. Once it is on screen a thread follows the run; nothing has to be called.
"""

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from andrea_lab.view.feed import Feed, sendable
from andrea_lab.view.history import History

if TYPE_CHECKING:
    from andrea_lab.view.follow import LossWidget
    from andrea_lab.view.style import Picture

MOST_RUNS = 6
VIEW = "application/vnd.jupyter.widget-view+json"


class LossView:
    """The live view of a run directory, or of up to six of them laid over each other.

    run_dir: a directory, or a list of them; they need not exist yet. vocab, steps: size of the vocabulary and planned
    number of steps; without them the run's config.json is asked, and what it does not say is not drawn. smooth: span of
    the moving average in steps; by default a twentieth of the planned steps, within 8 and 200, else 20. Raises
    ValueError.
    """

    def __init__(
        self,
        run_dir: Path | str | Sequence[Path | str],
        *,
        vocab: int | None = None,
        steps: int | None = None,
        smooth: int | None = None,
    ):
        alone = isinstance(run_dir, str | os.PathLike)
        paths = [Path(path) for path in ([run_dir] if alone else run_dir)]
        if not 1 <= len(paths) <= MOST_RUNS:
            raise ValueError(f"LossView: found {len(paths)} runs, expected 1 to {MOST_RUNS}")
        if smooth is not None and smooth < 1:
            raise ValueError(f"smooth: found {smooth}, expected a number of steps >= 1")
        self.smooth = smooth
        names = [None] if alone else _names(paths)
        options = {"vocab": vocab, "steps": steps, "span": smooth}
        self.feeds = [Feed(path, name=name, **options) for path, name in zip(paths, names, strict=True)]
        self._widget: LossWidget | None = None

    @property
    def widget(self) -> "LossWidget":
        """The view as a widget, made when first asked for; from then on it follows its runs until it is closed."""
        if self._widget is None:
            from andrea_lab.view.follow import LossWidget

            self._widget = LossWidget(self)
        return self._widget

    def update(self, final: bool = False) -> None:
        """Look at the runs soon; with `final` now, and keep the picture that a stored notebook shows.

        A view on screen looks by itself four times a second while a run is at work. This may be called as often as one
        likes, it costs a training loop next to nothing.
        """
        if self._widget is not None:
            self._widget.follower.look(final)

    @property
    def history(self) -> History:
        """The steps of the run, of the first one where there are several: arrays to compute with."""
        return self._read()[0].history

    def summary(self) -> str:
        """One line of plain text, a function of the logs alone."""
        return "LossView " + "; ".join(_summary(feed) for feed in self._read())

    def picture(self) -> "Picture":
        """The runs as they are now, as a still picture; the same files give the same bytes."""
        from andrea_lab.view.still import still

        facts = [feed.facts() for feed in self._read()]
        known = {key: next((each[key] for each in facts if each[key]), None) for key in ("vocab", "steps")}
        forks = {each["name"]: each["fork"]["step"] for each in facts if each["fork"]}
        saved = {mark["step"] for each in facts for mark in each["marks"] if mark["kind"] in ("checkpoint", "pinned")}
        runs = [(feed.name, feed.history) for feed in self.feeds]
        return still(runs, **known, forks=forks, checkpoints=sorted(saved) if len(runs) == 1 else ())

    def snapshot(self) -> bytes:
        """The picture as the bytes of a PNG."""
        return self.picture().png

    def save(self, path: Path | str) -> Path:
        """Write the picture to the PNG file `path`, which is returned.

        Raises FileNotFoundError, naming the log that was looked for, where there is none, and OSError.
        """
        for feed in self._read():
            if not feed.run.log.exists():
                raise FileNotFoundError(
                    f"loss log: found no {feed.run.log.name} in {feed.run.path}, expected a run directory"
                )
        self.picture().save(path := Path(path))
        return path

    def _read(self) -> list[Feed]:
        for feed in self.feeds:
            feed.catch_up()
        return self.feeds

    def __repr__(self) -> str:
        return self.summary()

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        """The live view where there is something to show it, else the picture, else the line."""
        bundle = {"text/plain": self.summary(), "image/png": base64.b64encode(self.snapshot()).decode()}
        show = self.widget._repr_mimebundle_  # None once the widget is closed
        live, _ = (show and show()) or ({}, {})
        return bundle | {VIEW: live[VIEW]} if VIEW in live else bundle


def _names(paths: list[Path]) -> list[str]:
    """The folders' own names, or as much of their paths as tells them apart. Raises ValueError for a folder twice."""
    real = [path.resolve() for path in paths]
    for parts in range(1, max(len(path.parts) for path in real) + 1):
        names = [sendable("/".join(path.parts[-parts:])) for path in real]
        if len(set(names)) == len(names):
            return names
    twice = next(path for path, whole in zip(paths, real, strict=True) if real.count(whole) > 1)
    raise ValueError(f"LossView: found {twice} twice, expected different runs")


def _summary(feed: Feed) -> str:
    history = feed.history
    if not len(history):
        return f"{feed.name}: no steps yet"
    loss, steps = history.values("loss"), history.steps()
    parts = [f"steps {steps[0]} to {steps[-1]}", f"loss {loss[0]:.2f} -> {loss[-1]:.2f}"]
    parts.append(f"smoothed {history.smoothed()[-1]:.2f}")
    counts = (
        (int((~np.isfinite(loss)).sum()), "not finite"),
        (len(history.resumes()), "resumed"),
        (history.void, "repeated"),
        (feed.facts()["unreadable"], "unreadable"),
    )
    return f"{feed.name}: " + ", ".join(parts + [f"{count} {word}" for count, word in counts if count])
