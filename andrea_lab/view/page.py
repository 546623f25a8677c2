"""The sheet of a picture of runs while it is filled from its upper edge down: words, names, a lane of events, axes."""

import numpy as np
from matplotlib.font_manager import findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from andrea_lab.view.palette import GRID, INK, NOTE
from andrea_lab.view.style import Sheet, width_of

LEFT, RIGHT, FOOT = 66, 26, 44  # pixels beside and below the axes
ROW, LANE, GAP = 19, 16, 13  # pixels of a row of words, of the lane of events, between axes
SMALL, LARGE = 8.5, 9.5  # points
LONGEST = 28  # letters of a name
EVENT = {"color": INK, "lw": 0.9, "ls": (0, (1, 2)), "zorder": 1.5}
WIDE = {"━": 24, "": 0}  # pixels that a mark takes before its name; others take 14


class Page:
    """width, height: pixels. window: (first, last) step that all axes of the page show."""

    def __init__(self, size: tuple[int, int], window: tuple[float, float]):
        self.sheet = Sheet(*size)
        self.window = window
        self.axes = []
        self.y = 10  # pixels from the upper edge that are taken
        self.end = self.sheet.width - RIGHT

    def head(self, name: str, words: str) -> None:
        """A name, and words behind it."""
        name = readable(name)
        self._text(LEFT, self.y, name, fontsize=LARGE, fontweight="bold")
        self._text(LEFT + width_of(name, LARGE, weight="bold") + 16, self.y, words, fontsize=LARGE)
        self.y += ROW + 2

    def names(self, entries) -> None:
        """Rows of [(mark, style of the mark, name)], as many as they need; words without a mark stand as they are."""
        x = LEFT
        for mark, style, name in entries:
            name, wide = readable(name) if mark else name, WIDE.get(mark, 14)
            needed = wide + width_of(name, SMALL)
            if x > LEFT and x + needed > self.end:
                x, self.y = LEFT, self.y + ROW
            if mark:
                points = [x, x + wide - 6] if mark == "━" else [x + 4]
                self._mark(points, self.y + 6 + 3 * (mark == "|"), style)
            self._text(x + wide, self.y, name)
            x += needed + 16
        self.y += ROW

    def lane(self, events) -> None:
        """Words above the axes for [(step, word)], steps rising; those that would overlap are told together."""
        left, right = self.window
        groups = []  # [words, centre of the first, of the last]
        for step, word in events:
            x = LEFT + (step - left) / (right - left) * (self.end - LEFT)
            if groups and x - width_of(word, SMALL) / 2 - 6 < self._place(groups[-1])[1]:
                groups[-1][0].append(word)
                groups[-1][2] = x
            else:
                groups.append([[word], x, x])
        for group in groups:
            self._text(self._place(group)[0], self.y, _together(group[0]))
        self.y += LANE * bool(events)

    def _place(self, group) -> tuple[float, float]:
        """Where the words of a group begin and end, in pixels."""
        words, first, last = group
        wide = width_of(_together(words), SMALL)
        start = min(max((first + last - wide) / 2, LEFT), self.end - wide)
        return start, start + wide

    def panel(self, height: int, title: str, events=()):
        """Axes of this many pixels below what is there, `title` upright on their left, with a line at each event."""
        width, total = self.sheet.width, self.sheet.height
        place = (LEFT / width, 1 - (self.y + height) / total, (self.end - LEFT) / width, height / total)
        axes = self.sheet.figure.add_axes(place)
        axes.set_xlim(*self.window)
        axes.xaxis.set_major_locator(MaxNLocator(9, integer=True, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
        axes.tick_params(labelsize=SMALL, colors=INK, length=3, labelbottom=False)
        axes.grid(color=GRID, lw=0.8)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(INK)
        for step, _ in events:
            axes.axvline(step, **EVENT)
        self._text(15, self.y + height / 2, title, rotation=90, ha="center", va="center")
        self.axes.append(axes)
        self.y += height + GAP
        return axes

    def strip(self, height: int, title: str):
        """Axes without ticks, for a strip of colours."""
        axes = self.panel(height, "")
        axes.grid(False)
        axes.tick_params(bottom=False)
        axes.yaxis.set_major_locator(NullLocator())
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
        axes.set_ylim(0, 1)
        self._text(LEFT - 8, self.y - GAP - height / 2, title, ha="right", va="center")
        return axes

    def room(self) -> int:
        """Pixels that are left for axes."""
        return self.sheet.height - FOOT - self.y

    def foot(self, notes: list[str]) -> None:
        """Name the steps below the last axes, and tell what must be said of the runs, as much as there is room for."""
        self.axes[-1].tick_params(labelbottom=True)
        y, what = self.sheet.height - 19, "step (one optimiser update)"
        self._text(LEFT, y, what)
        room = self.end - LEFT - width_of(what, SMALL) - 24
        shown = list(notes)
        while shown and width_of(_told(shown, notes), SMALL) > room:
            shown.pop()
        self._text(self.end, y, _told(shown, notes), ha="right", color=NOTE)

    def _text(self, x, y, words, **how):
        return self.sheet.text(x, y, words, **{"fontsize": SMALL, "parse_math": False} | how)

    def _mark(self, points, y, style) -> None:
        width, height = self.sheet.width, self.sheet.height
        made = Line2D(np.array(points) / width, [1 - y / height] * len(points), **style | {"clip_on": False})
        self.sheet.figure.add_artist(made)


def powers(axes, low: float, high: float) -> None:
    """A logarithmic height from `low` to `high`, powers of ten, with at most four numbers on it."""
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    first, last = round(np.log10(low)), round(np.log10(high))
    axes.yaxis.set_major_locator(FixedLocator([10.0**n for n in range(first, last + 1, (last - first) // 4 + 1)]))
    axes.yaxis.set_major_formatter(FuncFormatter(_power))
    axes.yaxis.set_minor_locator(NullLocator())


def _power(value: float, _) -> str:
    return f"{value:g}" if 1e-3 <= value <= 1e3 else f"1e{round(np.log10(value))}"


def readable(name: str) -> str:
    """A name as a picture takes it: its end, if it is long; letters that the font has not become a question mark."""
    name = name if len(name) <= LONGEST else "..." + name[3 - LONGEST :]
    font = get_font(findfont("DejaVu Sans"))
    return "".join(c if c.isprintable() and font.get_char_index(ord(c)) else "?" for c in name)


def _together(words: list[str]) -> str:
    """Words that share a place: "3 x resumed"."""
    if len(words) == 1:
        return words[0]
    kinds = sorted({word.split()[0] for word in words})
    return f"{len(words)} x {' or '.join(kinds)}"


def _told(shown: list[str], notes: list[str]) -> str:
    left_out = len(notes) - len(shown)
    return "; ".join([*shown, *[f"{left_out} more" if shown else f"{left_out} notes"] * bool(left_out)])
