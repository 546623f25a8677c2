"""A loss curve that grows in the notebook while a run trains, drawn from the run's log and from nothing else.

The picture goes through one widget trait (`Image.value`), so nothing flickers, a page that is reloaded shows the whole
history again, and a notebook test sees one line of text. Reading a log that another process writes works the same way.
"""

import base64
import json
import time
from pathlib import Path

import numpy as np

from andrea_lab.view.curve import HEIGHT, WIDTH, Curve
from andrea_lab.view.history import History, Tail

PERIOD = 0.25  # seconds between two frames, at least
SHARE = 0.01  # of the time since the start may go into frames, in seconds of processor time ...
CREDIT = 1.0  # ... after this many of them, which keep a short run lively


class LossView:
    """The live view of one run directory.

    run_dir: directory whose `<basename>.loss.json` is read; it need not exist yet.
    vocab, steps: size of the vocabulary and planned number of steps; without them the run's config.json is asked, and
    what it does not say is not drawn.
    smooth: span of the moving average in steps; by default a twentieth of the planned steps, within 8 and 200, else 20.
    """

    def __init__(self, run_dir, *, vocab: int | None = None, steps: int | None = None, smooth: int | None = None):
        self.run_dir = Path(run_dir)
        self.log = self.run_dir / f"{self.run_dir.resolve().name}.loss.json"
        self.tail, self.curve = Tail(self.log), Curve(vocab, steps)
        self._smooth = smooth
        self.history = History(self._span())
        self.frames, self._spent, self._started, self._last = 0, 0.0, time.perf_counter(), -1e9
        self._widget = None

    def _span(self) -> int:
        planned = self.curve.steps
        return self._smooth or (min(max(planned // 20, 8), 200) if planned else 20)

    @property
    def widget(self):
        """The ipywidgets Image; made at the first use, so the view works where ipywidgets is not wanted."""
        if self._widget is None:
            from ipywidgets import Image

            self._widget = Image(format="png", value=self.snapshot(), width=WIDTH, height=HEIGHT)
            self._widget.layout.max_width = "100%"
            self._widget.layout.height = "auto"
        return self._widget

    def update(self, final: bool = False) -> bool:
        """Read what is new and draw a frame if one is due; `final` draws now. Returns whether a frame was drawn."""
        if not final and not self._due(time.perf_counter()):
            return False
        began = time.thread_time()
        if self.read() or final:
            line = self._line() if final else f"{self._line()}   {self._pace()}"
            value = self.curve.png(self.history, line, fast=not final)
            self.frames += 1
            if self._widget is not None:
                self._widget.value = value
        self._last = time.perf_counter()
        self._spent += time.thread_time() - began
        return True

    def _due(self, now) -> bool:
        if now - self._last < PERIOD:
            return False
        return self._spent < CREDIT + SHARE * (now - self._started)

    def read(self) -> int:
        """Take the new lines of the log; returns how many there were."""
        entries, restarted = self.tail.read()
        if restarted:
            self.history.clear()
        if entries and (self.curve.vocab is None or self.curve.steps is None):
            self._ask_config()
            self.history.respan(self._span())
        for entry in entries:
            self.history.add(entry)
        return len(entries) + restarted

    def _ask_config(self):
        """Vocabulary and length from the run's config.json; a config that does not say leaves them out."""
        try:
            config = json.loads((self.run_dir / "config.json").read_text())
            self.curve.vocab = self.curve.vocab or int(config["model"]["vocab"])
            self.curve.steps = self.curve.steps or int(config["train"]["steps"])
        except (OSError, ValueError, KeyError, TypeError):
            return

    def snapshot(self) -> bytes:
        """The whole history as a PNG of WIDTH x HEIGHT pixels; the same log gives the same bytes."""
        self.read()
        return self.curve.png(self.history, self._line())

    def summary(self) -> str:
        """One line of plain text, a function of the log alone."""
        self.read()
        history, name = self.history, self.run_dir.resolve().name
        if not len(history):
            return f"LossView {name}: no steps yet"
        loss, steps = history.values("loss"), history.steps()
        parts = [f"steps {steps[0]} to {steps[-1]}", f"loss {loss[0]:.2f} -> {loss[-1]:.2f}"]
        parts.append(f"smoothed {history.smoothed()[-1]:.2f}")
        counts = (
            (int((~np.isfinite(loss)).sum()), "not finite"),
            (len(history.resumes()), "resumed"),
            (len(history.replaced), "repeated"),
            (self.tail.damaged, "unreadable"),
        )
        parts += [f"{count} {word}" for count, word in counts if count]
        return f"LossView {name}: " + ", ".join(parts)

    def _line(self) -> str:
        """The text above the curve, without anything that depends on the clock."""
        history = self.history
        if not len(history):
            return "no steps yet"
        last = {name: history.columns[name][-1] for name in ("loss", "grad_norm", "lr")}
        of = f" of {self.curve.steps}" if self.curve.steps else ""
        text = f"step {history.step[-1]}{of}   loss {last['loss']:.2f}   smoothed {history.smoothed()[-1]:.2f}"
        clip = history.values("clip")
        clipped = 100.0 * np.mean(clip[np.isfinite(clip)] < 1.0) if np.isfinite(clip).any() else 0.0
        return f"{text}   gradient norm {last['grad_norm']:.2f}   clipped {clipped:.0f} %   rate {last['lr']:.1e}"

    def _pace(self) -> str:
        ms, tokens = (self.history.values(name)[-20:] for name in ("ms", "tokens"))
        seconds = float(np.nansum(ms)) / 1000.0
        if not len(ms) or seconds <= 0:
            return ""
        pace = f"{float(np.nansum(tokens)) / seconds:,.0f} tokens/s"
        if self.curve.steps:
            left = (self.curve.steps - self.history.step[-1]) * seconds / len(ms)
            pace += f"   {max(left, 0.0):.0f} s left"
        return pace

    def __repr__(self):
        return self.summary()

    def _repr_mimebundle_(self, include=None, exclude=None):
        """A live widget where there is one to show it, else the still picture, else the summary."""
        widget = self.widget
        bundle = {"text/plain": self.summary(), "image/png": base64.b64encode(widget.value).decode()}
        live = widget._repr_mimebundle_() or {}
        view = "application/vnd.jupyter.widget-view+json"
        if view in live:
            bundle[view] = live[view]
        return bundle
