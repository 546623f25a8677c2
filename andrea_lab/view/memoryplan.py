"""memory_plan: what training allocates, by role, as the microbatch grows: what stays below and what rises above it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from andrea_lab.view.drawing import megabytes
from andrea_lab.view.palette import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, RED
from andrea_lab.view.style import Picture, figure, picture, width_of

STATE, REST, GREY = "model and optimiser", "the rest", "#bbbbbb"
# From below: what depends on the model alone, then what grows with the microbatch.
COLOURS = {
    STATE: BLUE,
    "weights": BLUE,
    "gradients": "#5b9fcb",
    "master": "#2d5a78",
    "m": "#9cc8e3",
    "v": "#cfe4f1",
    "saved": ORANGE,
    "logits": RED,
    "activation gradients": "#f3d9a4",
    "scratch": GREEN,
}
THIN = 0.02  # of the height: thinner bands join the rest
APART = 0.062  # of the height, at least, between two names on the right
SIDE = 300  # pixels of a panel, about, for the numbers below it
SLICES = 8  # of an axis, each with its own words when it is pointed at
UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
PALETTE = 32


@dataclass
class Line:
    """Bytes along one axis: every role is start + slope x, as the plan is arithmetic on shapes."""

    name: str  # B or T
    end: int
    mark: int
    roles: dict[str, tuple[float, float]]
    other: str  # what is held, in words
    scores: Callable[[float], float] | None

    def at(self, x):
        """{role: bytes} at one place of the axis, or at many."""
        return {role: start + slope * np.asarray(x, float) for role, (start, slope) in self.roles.items()}

    def top(self, x):
        """The bytes with attention's scores, if they are asked for."""
        total = sum(self.at(x).values())
        return total if self.scores is None else total + self.scores(np.asarray(x, float))


def memory_plan(
    planned: Callable[[int, int], Any],
    batch: int,
    context: int,
    longest: int | None = None,
    scores: float = 0,
    words: str | None = None,
) -> Picture:
    """Bytes by role over the batch and over the context, with the plan of `batch` rows of `context` tokens marked.

    planned(batch, context): a memory plan, of which `by_role()` is used; it is asked at the ends of both axes, since
    in between bytes grow in proportion. longest: the longest context of the model, where the axis ends. scores: bytes
    that attention's scores of this microbatch would take if they were kept, drawn as a dashed line on top. words: in
    place of the picture; by default they say what was counted.

    Raises ValueError in one line for a batch or a context below 1 or beyond `longest`.
    """
    longest = 2 * context if longest is None else longest
    if batch < 1 or not 1 <= context <= longest:
        raise ValueError(f"memory_plan: found {batch} rows of {context} tokens, expected 1 or more of 1 to {longest}")
    here = planned(batch, context).by_role()
    lines = (
        _line("B", batch, 2 * batch, lambda b: planned(b, context), f"T = {context:,}", scores, 1),
        _line("T", context, max(longest, 2), lambda t: planned(batch, min(t, longest)), f"B = {batch:,}", scores, 2),
    )
    tallest = max(max(line.top(line.mark) * 1.1, sum(line.at(line.end).values())) for line in lines)
    unit, name = next(((unit, name) for unit, name in UNITS if tallest >= 2 * unit), (1.0, "B"))
    bands = _bands(lines, THIN * tallest)
    fig, axes = figure(1, 2, width=9.2, height=3.7, sharey=True)
    for ax, line in zip(axes, lines, strict=True):
        _panel(ax, line, bands, unit)
    axes[0].set(ylim=(0, 1.04 * tallest / unit), ylabel=name)
    _names(axes[1], lines[1], bands, here, unit)
    if scores:
        said = {"transform": axes[1].transAxes, "fontsize": 8.5, "va": "top"}
        axes[1].text(0.03, 0.97, "dashed: if attention\nkept its scores", **said)
    drawn = picture(fig, words or _sentence(here, batch, context, scores), PALETTE)
    regions = [region for ax, line in zip(axes, lines, strict=True) for region in _regions(ax, line, bands, unit)]
    return Picture(drawn.png, drawn.words, regions)


def _line(name, mark, end, planned, other, scores, power) -> Line:
    """One axis, from the plans at its two ends."""
    low, high = planned(1).by_role(), planned(end).by_role()
    roles = {}
    for role in sorted(low, key=[*COLOURS, *low].index):
        slope = (high[role] - low[role]) / (end - 1)
        roles[role] = (low[role] - slope, slope)
    return Line(name, end, mark, roles, other, (lambda x: scores * (x / mark) ** power) if scores else None)


def _bands(lines, least) -> dict[str, list[str]]:
    """{band: its roles} from below; thin roles share a band, those of the model the lowest, others the last."""
    roles = lines[0].roles
    tall = [role for role in roles if max(line.at(line.end)[role] for line in lines) >= least]
    fixed = [role for role, (_, slope) in roles.items() if role not in tall and not slope]
    if sum(roles[role][0] for role in fixed) < least:
        fixed = []
    rest = [role for role in roles if role not in (*tall, *fixed)]
    shared = ({STATE: fixed} if fixed else {}) | {role: [role] for role in tall}
    return shared | ({REST: rest} if rest else {})


def _stack(line, bands, x) -> dict[str, tuple]:
    """{band: (lower edge, upper edge)} in bytes."""
    edges, below = {}, np.zeros(np.shape(x))
    at = line.at(x)
    for band, roles in bands.items():
        edges[band] = (below, below + sum(at[role] for role in roles))
        below = edges[band][1]
    return edges


def _panel(ax, line, bands, unit):
    """The areas over one axis, the plan that is marked, and the line with scores."""
    ends = np.array([0, line.end])
    for band, (low, high) in _stack(line, bands, ends).items():
        ax.fill_between(ends, low / unit, high / unit, color=COLOURS.get(band, GREY), lw=0)
    total = sum(line.at(line.mark).values())
    ax.plot((line.mark, line.mark), (0, total / unit), color=INK, lw=1.1, ls=(0, (3, 2)))
    ax.plot(line.mark, total / unit, "o", color=INK, ms=4.5, mec="white", zorder=5, clip_on=False)
    if line.scores is not None:
        x = np.linspace(0, line.end, 97)
        ax.plot(x, line.top(x) / unit, color=PURPLE, lw=1.8, ls=(0, (5, 2)))
    what = "rows of a microbatch, B" if line.name == "B" else "tokens of a row, T"
    ax.set(xlim=(0, line.end), xlabel=f"{what}; {line.other}")
    room = int(SIDE / (width_of(f"{line.end:,}", 9) + 10))
    ax.xaxis.set_major_locator(MaxNLocator(min(8, max(1, room)), integer=True, steps=[1, 2, 2.5, 4, 5, 8, 10]))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    side = {"xytext": (-7, 6), "ha": "right"} if line.mark > line.end / 5 else {"xytext": (7, 6), "ha": "left"}
    place = {"textcoords": "offset points", "fontsize": 9, "zorder": 6, **side}
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    ax.annotate(megabytes(total), (line.mark, total / unit), bbox=box, **place)


def _names(ax, line, bands, here, unit):
    """The names of the bands at the right edge, with their bytes at the mark, kept apart from each other."""
    edges = _stack(line, bands, line.end)
    height = ax.get_ylim()[1]
    places = [float(low + high) / 2 / unit for low, high in edges.values()]
    placed = list(places)
    for n in range(1, len(placed)):
        placed[n] = max(placed[n], placed[n - 1] + APART * height)
    over = placed[-1] - 0.99 * height
    for n in reversed(range(len(placed))):
        placed[n] = min(
            placed[n], (placed[n + 1] - APART * height) if n + 1 < len(placed) else placed[n] - max(over, 0)
        )
    beside = {"transform": ax.transAxes, "clip_on": False}
    for (band, roles), middle, y in zip(bands.items(), places, placed, strict=True):
        size = megabytes(sum(here[role] for role in roles))
        ax.plot((1.01, 1.05), (middle / height, y / height), color=FAINT, lw=0.8, **beside)
        ax.plot(1.07, y / height, "s", color=COLOURS.get(band, GREY), ms=7, mew=0, **beside)
        ax.text(1.1, y / height, f"{band}, {size}", fontsize=8.5, va="center", transform=ax.transAxes)


def _regions(ax, line, bands, unit):
    """A region for each band in each slice of the axis, which says what the plan would be there."""
    high = ax.figure.bbox.height
    for n in range(SLICES):
        x0, x1 = n * line.end / SLICES, (n + 1) * line.end / SLICES
        here = max(1, round((x0 + x1) / 2))
        at = line.at(here)
        where = f"{line.name} = {here:,}, {line.other}, {megabytes(sum(at.values()))} in all"
        for band, (low, top) in _stack(line, bands, (x0 + x1) / 2).items():
            (left, lower), (right, upper) = ax.transData.transform([(x0, low / unit), (x1, top / unit)])
            size = megabytes(sum(at[role] for role in bands[band]))
            what = f"{band} ({', '.join(bands[band])})" if band in (STATE, REST) else band
            yield left, high - upper, right, high - lower, f"{where}: {what} {size}"


def _sentence(here, batch, context, scores) -> str:
    kept = ", ".join(
        f"{role} {megabytes(nbytes)}" for role, nbytes in here.items() if nbytes >= 0.01 * sum(here.values())
    )
    also = f"; attention's scores, which are not kept, would take {megabytes(scores)} more" if scores else ""
    return f"Memory of a microbatch of {batch} x {context:,} tokens: {megabytes(sum(here.values()))} ({kept}){also}."
