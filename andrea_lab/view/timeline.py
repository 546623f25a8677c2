"""timeline: the lanes of one warp over time, above the lines of the kernel they come from."""

import numpy as np

from andrea_lab.view.accesses import lanes_of, named, require_events, shortened, source
from andrea_lab.view.cells import ticks
from andrea_lab.view.legends import Legend, swatches
from andrea_lab.view.palette import BLUE, GREEN, INK, ORANGE, PURPLE, RED, SKY
from andrea_lab.view.style import Picture, Sheet, picture

WIDTH, LEFT, RIGHT = 840, 262, 14  # pixels; the lines of the kernel stand on the left
LANE, LINE = (6, 14), 14  # pixels of a lane, least and most, and of a line of the kernel
COLUMN = 3  # pixels of a column that several accesses share, one above the other
SPACE = WIDTH - LEFT - RIGHT
GAP, WIDEST = 6, 22  # pixels of a barrier; the most of an access
PALETTE = 96
TOLD = 3  # accesses of a column that are put in words
KINDS = {
    ("read", "global"): (BLUE, "reads global"),
    ("write", "global"): (RED, "writes global"),
    ("read", "shared"): (SKY, "reads shared"),
    ("write", "shared"): (ORANGE, "writes shared"),
    ("atomic", "global"): (PURPLE, "atomic, global"),
    ("atomic", "shared"): ("#882255", "atomic, shared"),
    ("shuffle", ""): (GREEN, "shuffle"),
    ("read", "local"): ("#b0b0b0", "reads local"),
    ("write", "local"): ("#777777", "writes local"),
}
BARRIERS = ("barrier", "warp_barrier")


def timeline(trace, words: str | None = None, *, local: bool = False) -> Picture:
    """What the 32 lanes of a warp do, one column for each access in the order they happen; idle lanes stay white.

    trace: a result of `kernels.trace`, or a dict of them by name, drawn one below the other at one scale. Barriers are
    vertical lines, red where a lane does not come; above stands how many lanes work between two of them. In a trace too
    long for a column each, a few accesses share one. local: show accesses to local arrays too, which mostly stand for
    registers. words: in place of the picture; by default they say what was
    counted.

    Raises ValueError in one line for an empty trace.
    """
    groups = named(trace)
    for name, members in groups.items():
        require_events("timeline", members, name)
        if len(members) > 1:
            raise ValueError(f"timeline: found a list of {len(members)} traces, expected one, or a dict by name")
    plans = {name: Plan(members[0], local) for name, members in groups.items()}
    if not plans:
        raise ValueError("timeline: found no trace, expected one or more of kernels.trace")
    wide, together = min((plan.scale() for plan in plans.values()), key=lambda scale: scale[0] / scale[1])
    heights = {name: plan.height() + (22 if name else 0) for name, plan in plans.items()}
    explained = _legend(list(plans.values()))
    top = explained.height
    sheet = Sheet(WIDTH, top + sum(heights.values()) + 18)
    explained.draw(sheet, 12)
    for name, plan in plans.items():
        if name:
            sheet.text(12, top, name, fontsize=10, fontweight="bold")
        plan.draw(sheet, top + (22 if name else 0), wide, together)
        top += heights[name]
    each = f"one column for {together} accesses, one above the other," if together > 1 else "one column for each access"
    sheet.text(LEFT, top, f"time: {each} of the warp", fontsize=8)
    said = "; ".join(f"{name + ', ' if name else ''}{plan.said()}" for name, plan in plans.items())
    drawn = picture(sheet.figure, words or f"A warp over time: {said}.", PALETTE)
    return Picture(drawn.png, drawn.words, [region for plan in plans.values() for region in plan.regions])


def kind_of(event):
    """The key of an event in KINDS."""
    return ("shuffle", "") if event.what == "shuffle" else (event.what, event.space)


class Plan:
    """Where everything of one trace goes: columns of accesses, and barriers between them."""

    def __init__(self, trace, local: bool):
        self.trace = trace
        there = [e for e in trace.events if local or e.space != "local"]
        self.events = [e for e in there if e.what in BARRIERS or kind_of(e) in KINDS]
        self.accesses = [e for e in self.events if e.what not in BARRIERS]
        self.barriers = sum(e.what == "barrier" for e in self.events)
        self.lines = sorted({e.line for e in self.events})
        self.lanes = lanes_of([trace])
        self.lane = min(LANE[1], max(LANE[0], 112 // self.lanes))
        self.divergent = any(e.what in BARRIERS and len(e.lanes) < self.lanes for e in self.events)
        crossed = len(self.events) - len(self.accesses)
        self.gap = GAP if crossed * GAP <= SPACE // 3 else max(2, SPACE // 3 // crossed)
        self.left = SPACE - crossed * self.gap
        self.regions = []

    def scale(self):
        """(pixels of a column, accesses in a column): one access each if that leaves two pixels."""
        n = max(len(self.accesses), 1)
        if self.left // n > 1:
            return min(WIDEST, self.left // n), 1
        intervals = len(self.events) - n + 1  # the last column of each may be half empty
        for wide in range(COLUMN, 0, -1):
            together = -(-n // max(self.left // wide - intervals, 1))
            if together < self.lane:
                break
        return wide, together

    def kinds(self):
        """The kinds of access there are, in the order of KINDS."""
        there = {kind_of(e) for e in self.accesses}
        return [kind for kind in KINDS if kind in there]

    def said(self) -> str:
        """The trace in words."""
        n, shuffles = len(self.accesses), sum(e.what == "shuffle" for e in self.accesses)
        busy = sum(len(e.lanes) for e in self.accesses) / n if n else 0
        counted = f"{n:,} access{'es' * (n != 1)}{' and shuffles' if shuffles else ''}"
        barriers = f"{self.barriers} barrier{'s' * (self.barriers != 1)}"
        return f"{counted}, {barriers}, on average {busy:.3g} of {self.lanes} lanes at work"

    def columns(self, together: int):
        """[accesses drawn in one column, or one barrier], in order."""
        made = []
        for event in self.events:
            last = made[-1] if made else []
            if event.what not in BARRIERS and 0 < len(last) < together and last[0].what not in BARRIERS:
                last.append(event)
            else:
                made.append([event])
        return made

    def height(self) -> int:
        return 34 + self.lanes * self.lane + 8 + len(self.lines) * LINE + 12

    def draw(self, sheet, top, wide, together):
        """The lanes, below them the lines of the kernel."""
        columns = self.columns(together)
        sheet.text(LEFT, top, self.said(), fontsize=8, color="#555555")
        starts = np.cumsum([0, *(self.gap if c[0].what in BARRIERS else wide for c in columns)]).tolist()
        length, upper, lower = starts[-1], top + 32, top + 32 + self.lanes * self.lane + 8
        lanes = np.full((self.lanes * self.lane, length, 3), 255, np.uint8)
        code = np.full((len(self.lines) * LINE, length, 3), 255, np.uint8)
        for column, x, end in zip(columns, starts, starts[1:], strict=False):
            paint = self._barrier if column[0].what in BARRIERS else self._accesses
            paint(column, lanes, code, x, end)
            words = "; then ".join(self._about(event) for event in column[:TOLD])
            words += f"; then {len(column) - TOLD} more" if len(column) > TOLD else ""
            self.regions.append((LEFT + x, upper, LEFT + end, lower + len(code), words))
        lanes[-1], code[-1] = 187, 187
        sheet.image(LEFT, upper, lanes)
        sheet.image(LEFT, lower, code)
        ticks(
            sheet,
            LEFT,
            upper,
            [(n, n) for n in (0, 8, 16, 24, self.lanes - 1) if n < self.lanes - 3 or n == self.lanes - 1],
            self.lane,
            down=True,
        )
        middle = upper + self.lanes * self.lane / 2
        sheet.text(LEFT - 30, middle, "lane", fontsize=8, rotation=90, ha="center", va="center")
        for n, line in enumerate(self.lines):
            text = shortened(f"{line:>3}  {source(self.trace, line)}", 42)
            sheet.text(4, lower + n * LINE + LINE / 2, text, family="monospace", fontsize=7, va="center")
        self._working(sheet, columns, starts, upper)

    def _about(self, event) -> str:
        """One access or barrier in words."""
        where = f"line {event.line}: {source(self.trace, event.line)}"
        lanes = f"lane{'s' * (len(event.lanes) != 1)} {_run(event.lanes)}"
        if event.what in BARRIERS:
            of = "barrier of the warp" if event.what == "warp_barrier" else "barrier"
            return f"{of}, {len(event.lanes)} of {self.lanes} lanes come; {where}"
        if event.what == "shuffle":
            return f"shuffle, {lanes}; {where}"
        return f"{event.what} of {event.array}, {event.space}, {lanes}, elements {_run(event.indices)}; {where}"

    def _accesses(self, column, lanes, code, x, end):
        """One column of accesses in both images; several share the pixels of a lane, the first on top."""
        right = end - (1 if end - x >= 6 else 0)
        parts = [[n * high // len(column) for n in range(len(column) + 1)] for high in (self.lane - 1, LINE - 6)]
        for n, event in enumerate(column):
            colour = _rgb(KINDS[kind_of(event)][0])
            (top, low), (first, last) = (part[n : n + 2] for part in parts)
            row = self.lines.index(event.line) * LINE + 3
            if sum(other.line == event.line for other in column) == 1:
                first, last = 0, LINE - 6
            code[row + first : row + last, x:right] = colour
            for lane in event.lanes:
                lanes[lane * self.lane + top : lane * self.lane + low, x:right] = colour

    def _barrier(self, column, lanes, code, x, end):
        """A line through both images, red for those lanes alone that come if some do not."""
        (event,) = column
        row, whole = self.lines.index(event.line) * LINE, len(event.lanes) >= self.lanes
        colour = _rgb(INK if whole else RED)
        first = (x + end) // 2 - 1
        line = slice(first, first + (2 if event.what == "barrier" else 1))
        for lane in range(self.lanes) if whole else event.lanes:
            lanes[lane * self.lane : (lane + 1) * self.lane, line] = colour
        code[:, line] = np.minimum(code[:, line], 205)
        code[row + 1 : row + LINE - 1, line] = colour

    def _working(self, sheet, columns, starts, upper):
        """Over every interval between barriers, how many lanes work in it at most."""
        inside = []
        for n, column in enumerate([*columns, None]):
            closing = column is None or column[0].what == "barrier"
            if not closing and column[0].what not in BARRIERS:
                inside.append((n, max(len(event.lanes) for event in column)))
            if closing and inside:
                x, end = starts[inside[0][0]], starts[inside[-1][0] + 1]
                if end - x >= 12:
                    most = str(max(count for _, count in inside))
                    sheet.text(LEFT + (x + end) / 2, upper - 3, most, fontsize=7.5, ha="center", va="bottom")
                inside = []
        sheet.text(LEFT - 8, upper - 3, "lanes at work", fontsize=7.5, ha="right", va="bottom")


def _run(numbers) -> str:
    """Numbers in few words: 5; 0, 64, 128 … 1984."""
    shown = [f"{number:,}" for number in numbers]
    return ", ".join(shown) if len(shown) < 5 else f"{', '.join(shown[:3])} … {shown[-1]}"


def _rgb(colour) -> tuple:
    return tuple(int(colour[n : n + 2], 16) for n in (1, 3, 5))


def _legend(plans) -> Legend:
    """The first row: what the colours are."""
    there = [kind for kind in KINDS if any(kind in plan.kinds() for plan in plans)]
    entries = [(_rgb(KINDS[kind][0]), 12, KINDS[kind][1]) for kind in there]
    what = {e.what for plan in plans for e in plan.events}
    entries += [(_rgb(INK), 2, "barrier")] * ("barrier" in what) + [(_rgb(INK), 1, "barrier of the warp")] * (
        "warp_barrier" in what
    )
    entries += [(_rgb(RED), 2, "not every lane comes")] * any(plan.divergent for plan in plans)
    return Legend([*swatches(entries), (None, "white: idle")], WIDTH - 12)
