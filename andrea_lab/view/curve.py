"""The loss curve as a picture: matplotlib's Agg canvas without pyplot, so it works in any thread and without a display.

A frame has two parts. Axes, labels and everything that changes seldom are drawn once and kept as pixels; the curves are
drawn over a copy of those pixels. A new frame thus costs a few milliseconds; a whole redraw is needed when a limit
moves. Long curves are cut to the smallest and the largest value of each pixel column: cost does not grow with the run.
"""

import math

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from andrea_lab.view.history import History, envelope
from andrea_lab.view.palette import BLUE, FAINT, GREEN, GRID, INK, RED, SOURCE_COLOURS
from andrea_lab.view.style import encode

WIDTH, HEIGHT, DPI = 900, 450, 100
COLUMNS = 800
LEGEND = 0.333  # height of the line of names between the two axes, as a share of the figure's
FALL = 3.0  # nats below ln V that the frame shows from the start


class Curve:
    """Draws a `History` at a fixed size of WIDTH x HEIGHT pixels.

    vocab: size of the vocabulary, for the line at ln V (None: no line). steps: planned length of the run, which fixes
    the horizontal axis (None: the axis grows with the run).
    """

    def __init__(self, vocab: int | None = None, steps: int | None = None):
        self.vocab, self.steps = vocab, steps
        self.key = None
        figure = self.figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor="white")
        self.canvas = FigureCanvasAgg(figure)
        self.top = figure.add_axes((0.075, 0.39, 0.9, 0.53))
        self.low = figure.add_axes((0.075, 0.115, 0.9, 0.2), sharex=self.top)
        figure.text(0.075, LEGEND, "━━", color=BLUE, fontsize=8)
        figure.text(0.101, LEGEND, "smoothed", color=INK, fontsize=8)
        self.moving = self._artists()

    def _artists(self):
        """The artists of every frame, by name; drawn over the kept pixels, in this order."""
        top, low = self.top, self.low
        made = {"old": top.plot([], [], "x", color=FAINT, ms=4)[0]}
        made["raw"] = top.plot([], [], "-", color=FAINT, lw=0.9)[0]
        for n, colour in enumerate(SOURCE_COLOURS):
            made[f"source{n}"] = top.plot([], [], "o", color=colour, ms=3.6, mew=0)[0]
        made["smooth"] = top.plot([], [], "-", color=BLUE, lw=2.0)[0]
        made["above"] = top.plot([], [], "^", color=RED, ms=6, clip_on=False)[0]
        made["bad"] = top.plot([], [], "X", color=RED, ms=7, mec="white", mew=0.6, clip_on=False)[0]
        made["norm"] = low.plot([], [], "-", color=GREEN, lw=1.0)[0]
        for n, colour in enumerate(SOURCE_COLOURS):
            made[f"dot{n}"] = self.figure.text(0, LEGEND, "●", color=colour, fontsize=8)
            made[f"name{n}"] = self.figure.text(0, LEGEND, "", color=INK, fontsize=8)
        made["line"] = self.figure.text(0.075, 0.945, "", color=INK, fontsize=9.5, va="bottom")
        made["note"] = self.figure.text(0.975, 0.022, "", color="#A84A00", fontsize=9, va="baseline", ha="right")
        for artist in made.values():
            artist.set_animated(True)
        return made

    def png(self, history: History, line: str = "", fast: bool = False) -> bytes:
        """A frame as PNG bytes. `line` is the text above the curve; `fast` trades size for time."""
        self.draw(history, line)
        return encode(self.canvas, fast)

    def draw(self, history: History, line: str = ""):
        steps, loss, norm = history.steps(), history.values("loss"), history.values("grad_norm")
        key = self._limits(history, steps, loss, norm)
        if key != self.key:
            self._still(history, key)
        self.canvas.restore_region(self.pixels)
        self._curves(history, steps, loss, norm)
        self.moving["line"].set_text(line)
        for artist in self.moving.values():
            if artist.get_visible():
                (artist.axes or self.figure).draw_artist(artist)

    def _limits(self, history, steps, loss, norm):
        """Everything the kept pixels depend on, in coarse units and with room to grow, so that it changes seldom."""
        last = int(steps[-1]) if len(steps) else 0
        right = self.steps if self.steps and last <= self.steps else _ceiling(last)
        finite = loss[np.isfinite(loss)]
        uniform = math.log(self.vocab) if self.vocab else 0.0
        floor = max(uniform - FALL, 0.0) if uniform else 0.0
        usual, top = uniform or 1.0, 0.0
        if len(finite):
            quarter, three = np.quantile(finite, (0.25, 0.75))
            fence = three + 3.0 * (three - quarter) + 0.5  # what lies beyond is a spike, and may leave the frame
            least, top = float(finite.min()), float(finite.max())
            floor = min(floor, least) if uniform else least
            usual = max(float(finite[finite <= fence].max()), uniform)
        peak = max(usual, min(top, usual + 1.5 * (usual - floor) + 0.5))
        frame = 0.5 * math.floor(max(floor - 0.05, 0.0) * 2), 0.5 * math.ceil((peak + 0.1) * 2)
        good = norm[np.isfinite(norm) & (norm > 0)]
        decades = (math.floor(math.log10(good.min())), math.ceil(math.log10(good.max()))) if len(good) else (0, 0)
        return right, frame, (min(decades[0], -1), max(decades[1], 1)), len(history.resumes())

    def _still(self, history, key):
        """Draw axes, grid, labels and the ln V line, and keep the pixels."""
        right, loss_range, decades, _ = self.key = key
        for axes in (self.top, self.low):
            for artist in [*axes.texts, *[a for a in axes.lines if not a.get_animated()]]:
                artist.remove()
            axes.grid(color=GRID, lw=0.8)
            axes.set_axisbelow(True)
            axes.tick_params(labelsize=8.5, colors=INK, length=3)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
            for step in history.resumes():
                axes.axvline(step, color=INK, lw=0.8, ls=(0, (1, 2)))
        top, low = self.top, self.low
        top.set_xlim(0, right)
        top.set_ylim(*loss_range)
        top.xaxis.set_major_locator(MaxNLocator(9, integer=True))
        top.tick_params(labelbottom=False)
        top.set_ylabel("loss (nats per token)", fontsize=9, color=INK)
        for step in history.resumes()[:6]:
            top.annotate("resumed", (step, loss_range[0]), (3, 3), textcoords="offset points", fontsize=7.5, color=INK)
        if self.vocab:
            top.axhline(math.log(self.vocab), color=INK, lw=1, ls=(0, (4, 3)))
            text = f"ln V = {math.log(self.vocab):.2f}, a uniform guess over V = {self.vocab}"
            place = {"xytext": (-2, 3), "textcoords": "offset points", "ha": "right", "fontsize": 8.5, "color": INK}
            top.annotate(text, (right, math.log(self.vocab)), **place)
        low.set_yscale("log")
        low.set_ylim(10.0 ** decades[0], 10.0 ** decades[1])
        low.yaxis.set_major_locator(LogLocator(numticks=4))
        low.yaxis.set_minor_formatter(NullFormatter())
        low.set_xlabel("step (one optimiser update)", fontsize=9, color=INK, loc="left")
        low.set_ylabel("grad norm", fontsize=9, color=INK)
        for axes in (top, low):
            axes.yaxis.set_label_coords(-0.052, 0.5)
        self.canvas.draw()
        self.pixels = self.canvas.copy_from_bbox(self.figure.bbox)

    def _curves(self, history, steps, loss, norm):
        moving, (right, (bottom, ceiling), _, _) = self.moving, self.key
        self._zigzag(moving["raw"], steps, loss, right)
        self._sources(history, steps, loss)
        x, low, high = envelope(steps, history.smoothed(), 0, right, COLUMNS)
        moving["smooth"].set_data(x, (low + high) / 2)
        old = history.replaced[-2000:]
        moving["old"].set_data([step for step, _ in old], [value for _, value in old])
        above = np.isfinite(loss) & (loss > ceiling)
        moving["above"].set_data(*_thin(steps[above], ceiling))
        bad = ~np.isfinite(loss)
        moving["bad"].set_data(*_thin(steps[bad], bottom))
        moving["note"].set_text(_note(steps, loss, above, bad))
        self._zigzag(moving["norm"], steps, np.where(norm > 0, norm, np.nan), right)

    def _sources(self, history, steps, loss):
        """Dots in the colour of their source and a line of names, while there are few enough of both."""
        few = len(steps) <= COLUMNS and len(history.sources) <= len(SOURCE_COLOURS)
        self.moving["raw"].set_alpha(0.45 if few else 1.0)
        ids, x = history.source_ids(), 0.19
        for n in range(len(SOURCE_COLOURS)):
            dots, *label = (self.moving[f"{part}{n}"] for part in ("source", "dot", "name"))
            shown = few and n < len(history.sources)
            for artist in (dots, *label):
                artist.set_visible(shown)
            if shown:
                dots.set_data(steps[ids == n], loss[ids == n])
                label[0].set_x(x)
                label[1].set_x(x + 0.014)
                label[1].set_text(history.sources[n])
                x += 0.035 + 0.0072 * len(history.sources[n])

    @staticmethod
    def _zigzag(artist, steps, values, right):
        if len(steps) <= COLUMNS:
            artist.set_data(steps, np.where(np.isfinite(values), values, np.nan))
            return
        x, low, high = envelope(steps, values, 0, right, COLUMNS)
        artist.set_data(np.repeat(x, 2), np.stack([low, high], 1).ravel())


def _thin(steps, height):
    """Marks at one height: no more than one a pixel column is worth drawing."""
    steps = steps[:: max(1, len(steps) // 400)]
    return steps, np.full(len(steps), height)


def _note(steps, loss, above, bad) -> str:
    notes = []
    if above.any():
        at = int(np.argmax(np.where(above, loss, -np.inf)))
        notes.append(f"{above.sum()} above the frame, highest {loss[at]:.3g} at step {steps[at]}")
    if bad.any():
        notes.append(f"{bad.sum()} not finite, first at step {steps[np.argmax(bad)]}")
    return "; ".join(notes)


def _ceiling(step: int) -> int:
    """The next of 20, 30, 50, 80 times a power of ten: an axis that grows in few jumps."""
    unit = 1
    while True:
        for lead in (20, 30, 50, 80, 120):
            if step <= lead * unit:
                return lead * unit
        unit *= 10
