"""timeline: the lanes of one warp over time, above the lines of the kernel they come from."""

import numpy as np

from andrea_lab.view.accesses import named, require_events, shortened, source
from andrea_lab.view.curve import BLUE, GREEN, INK, ORANGE, PURPLE, RED, SKY
from andrea_lab.view.legends import Legend, swatches
from andrea_lab.view.style import Picture, Sheet, picture

WIDTH, LEFT, RIGHT = 840, 262, 14  # pixels; the lines of the kernel stand on the left
LANE, LINE = 6, 14  # pixels of a lane and of a line of the kernel
GAP = 6  # pixels of a barrier
LANES = 32
MOST = 160  # accesses; of more, the first and the last are drawn
PALETTE = 64
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


def timeline(trace, words: str | None = None) -> Picture:
    """What the 32 lanes of a warp do, one column for each access in the order they happen; idle lanes stay white.

    trace: a result of `kernels.trace`, or a dict of them by name, drawn one below the other at one scale. Barriers are
    vertical lines, red where a lane does not come; above stands how many lanes work between two of them. Of a trace
    with more than MOST accesses the middle is left out, and the picture says so. words: in place of the picture; by
    default they say what was counted.

    Raises ValueError in one line for an empty trace.
    """
    groups = named(trace)
    for name, members in groups.items():
        require_events("timeline", members, name)
        if len(members) > 1:
            raise ValueError(f"timeline: found a list of {len(members)} traces, expected one, or a dict by name")
    plans = {name: Plan(members[0]) for name, members in groups.items()}
    if not plans:
        raise ValueError("timeline: found no trace, expected one or more of kernels.trace")
    wide = min(plan.scale() for plan in plans.values())
    heights = {name: plan.height() + (22 if name else 0) for name, plan in plans.items()}
    explained = _legend(list(plans.values()))
    top = explained.height
    sheet = Sheet(WIDTH, top + sum(heights.values()) + 18)
    explained.draw(sheet, 12)
    for name, plan in plans.items():
        if name:
            sheet.text(12, top, name, fontsize=10, fontweight="bold")
        plan.draw(sheet, top + (22 if name else 0), wide)
        top += heights[name]
    sheet.text(LEFT, top, "time: one column for each access of the warp", fontsize=8)
    said = "; ".join(f"{name + ', ' if name else ''}{plan.said()}" for name, plan in plans.items())
    return picture(sheet.figure, words or f"A warp over time: {said}.", PALETTE)


def kind_of(event):
    """The key of an event in KINDS."""
    return ("shuffle", "") if event.what == "shuffle" else (event.what, event.space)


class Plan:
    """Where everything of one trace goes."""

    def __init__(self, trace):
        self.trace = trace
        events = [e for e in trace.events if e.what in BARRIERS or kind_of(e) in KINDS]
        self.accesses = [e for e in events if e.what not in BARRIERS]
        self.barriers = sum(e.what == "barrier" for e in events)
        self.left_out = max(0, len(self.accesses) - MOST)
        self.events = self._cut(events) if self.left_out else events
        self.lines = sorted({e.line for e in self.events if e is not None})
        self.lanes = 1 + max((max(e.lanes) for e in events if e.lanes), default=0)
        self.divergent = any(e.what in BARRIERS and len(e.lanes) < self.lanes for e in events)

    def _cut(self, events):
        """The first and last events, None where the middle is left out."""
        first, last = MOST * 2 // 3, MOST // 3
        numbers = np.cumsum([e.what not in BARRIERS for e in events])
        head = [e for e, n in zip(events, numbers, strict=True) if n <= first]
        tail = [e for e, n in zip(events, numbers, strict=True) if n > len(self.accesses) - last]
        return [*head, None, *tail]

    def kinds(self):
        """The kinds of access there are, in the order of KINDS."""
        there = {kind_of(e) for e in self.accesses}
        return [kind for kind in KINDS if kind in there]

    def said(self) -> str:
        """The trace in words."""
        n, shuffles = len(self.accesses), sum(e.what == "shuffle" for e in self.accesses)
        busy = sum(len(e.lanes) for e in self.accesses) / n if n else 0
        counted = f"{n} access{'es' * (n != 1)}{' and shuffles' if shuffles else ''}"
        barriers = f"{self.barriers} barrier{'s' * (self.barriers != 1)}"
        return f"{counted}, {barriers}, on average {busy:.3g} of {self.lanes} lanes at work"

    def _fixed(self) -> int:
        """Pixels of barriers and of the gap."""
        return sum(GAP if e is not None else 46 for e in self.events if e is None or e.what in BARRIERS)

    def scale(self) -> int:
        """The most pixels an access can have."""
        columns = sum(e is not None and e.what not in BARRIERS for e in self.events)
        return max(2, min(22, (WIDTH - LEFT - RIGHT - self._fixed()) // max(columns, 1)))

    def height(self) -> int:
        return 34 + self.lanes * LANE + 8 + len(self.lines) * LINE + 12

    def draw(self, sheet, top, wide):
        """The lanes, below them the lines of the kernel."""
        sheet.text(LEFT, top, self.said(), fontsize=8, color="#555555")
        starts = np.cumsum([0, *(46 if e is None else GAP if e.what in BARRIERS else wide for e in self.events)])
        length, upper, lower = int(starts[-1]), top + 32, top + 32 + self.lanes * LANE + 8
        lanes = np.full((self.lanes * LANE, length, 3), 255, np.uint8)
        code = np.full((len(self.lines) * LINE, length, 3), 255, np.uint8)
        for event, x, end in zip(self.events, starts, starts[1:], strict=False):
            if event is not None:
                self._paint(event, lanes, code, x, end)
        axes = sheet.axes(LEFT, upper, length, self.lanes * LANE)
        axes.imshow(lanes, extent=(0, length, self.lanes, 0), aspect="auto")
        shown = [n for n in (0, 8, 16, 24, 31) if n < self.lanes]
        axes.set_yticks([n + 0.5 for n in shown], shown)
        axes.set_ylabel("lane", fontsize=8, labelpad=1)
        _bare(axes)
        axes = sheet.axes(LEFT, lower, length, len(self.lines) * LINE)
        axes.imshow(code, extent=(0, length, len(self.lines), 0), aspect="auto")
        axes.set_yticks([])
        _bare(axes)
        for n, line in enumerate(self.lines):
            text = shortened(f"{line:>3}  {source(self.trace, line)}", 42)
            sheet.text(4, lower + n * LINE + LINE / 2, text, family="monospace", fontsize=7, va="center")
        self._working(sheet, starts, upper)
        for event, x in zip(self.events, starts, strict=False):
            if event is None:
                note = f"{self.left_out:,}\naccesses\nleft out"
                middle = upper + self.lanes * LANE / 2
                sheet.text(LEFT + x + 23, middle, note, fontsize=7, ha="center", va="center", color="#555555")

    def _paint(self, event, lanes, code, x, end):
        """One event in both images."""
        row = self.lines.index(event.line) * LINE
        if event.what in BARRIERS:
            middle = (x + end) // 2
            whole = len(event.lanes) >= self.lanes
            colour = _rgb(INK if whole else RED)
            thick = 2 if event.what == "barrier" else 1
            for lane in range(self.lanes) if whole else event.lanes:
                lanes[lane * LANE : (lane + 1) * LANE, middle - 1 : middle - 1 + thick] = colour
            code[:, middle - 1 : middle - 1 + thick] = np.minimum(code[:, middle - 1 : middle - 1 + thick], 205)
            code[row + 1 : row + LINE - 1, middle - 1 : middle - 1 + thick] = colour
            return
        colour = _rgb(KINDS[kind_of(event)][0])
        right = end - (1 if end - x >= 6 else 0)
        for lane in event.lanes:
            lanes[lane * LANE : (lane + 1) * LANE - 1, x:right] = colour
        code[row + 3 : row + LINE - 3, x:right] = colour

    def _working(self, sheet, starts, upper):
        """Over every interval between barriers, how many lanes work in it at most."""
        inside = []
        for n, event in enumerate([*self.events, None]):
            closing = event is None or event.what == "barrier"
            if not closing and event.what not in BARRIERS:
                inside.append((n, len(event.lanes)))
            if closing and inside:
                x, end = starts[inside[0][0]], starts[inside[-1][0] + 1]
                if end - x >= 12:
                    most = str(max(count for _, count in inside))
                    sheet.text(LEFT + (x + end) / 2, upper - 3, most, fontsize=7.5, ha="center", va="bottom")
                inside = []
        sheet.text(LEFT - 8, upper - 3, "lanes at work", fontsize=7.5, ha="right", va="bottom")


def _rgb(colour) -> tuple:
    return tuple(int(colour[n : n + 2], 16) for n in (1, 3, 5))


def _bare(axes):
    """No frame, no ticks of time."""
    axes.set_xticks([])
    axes.tick_params(length=2, pad=2)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color("#bbbbbb")


def _legend(plans) -> Legend:
    """The first row: what the colours are."""
    there = [kind for kind in KINDS if any(kind in plan.kinds() for plan in plans)]
    entries = [(_rgb(KINDS[kind][0]), 12, KINDS[kind][1]) for kind in there]
    what = {e.what for plan in plans for e in plan.events if e is not None}
    entries += [(_rgb(INK), 2, "barrier")] * ("barrier" in what) + [(_rgb(INK), 1, "barrier of the warp")] * (
        "warp_barrier" in what
    )
    entries += [(_rgb(RED), 2, "not every lane comes")] * any(plan.divergent for plan in plans)
    return Legend([*swatches(entries), (None, 0, "white: idle")], WIDTH - 12)
