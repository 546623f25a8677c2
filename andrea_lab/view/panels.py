"""An array with two or more axes: a panel for an access, the last axis to the right, the others down."""

import math
from dataclasses import dataclass

import numpy as np

from andrea_lab.view.accesses import BANKS, SECTOR, Step, shortened
from andrea_lab.view.cells import LARGE, PAPER, Cells, pixels, ticks
from andrea_lab.view.legends import Legend, lanes_and_marks
from andrea_lab.view.style import Picture, Sheet, picture, width_of

WIDTH = 840  # pixels
LEFT, GAP, HEAD, NAME, FOOT, BANK = 48, 34, 31, 21, 38, 34
WORDS = 14  # of FOOT: the name of the columns, which only the last of stacked panels has
COLUMNS, ROWS = 64, 40  # the most that is shown of an array, panels side by side
WHOLE_ROWS, WHOLE_COLUMNS = 16, 40  # so many are always shown, touched or not
WIDE = 152  # the most columns of panels one below the other
TALL, LOW = 300, 10  # the most pixels a panel is high, the least of a row in a low panel
PALETTE = 128
BUSY, CALM = (213, 94, 0), (159, 196, 226)  # a bank that must give several words, one word
EXPLAIN = {
    "fetched": "fetched in the same 32 bytes, not asked for",
    "several": "touched by several lanes",
    "written": "written",
}


@dataclass
class Panel:
    """Accesses drawn together. `title` is '' for all of a kernel, else 'read 1' and the like."""

    title: str
    steps: list[Step]
    shape: tuple
    window: tuple  # ((first row, end), (first column, end))
    x: int = 0
    y: int = 0
    room: int = WIDTH - LEFT  # pixels for the captions
    labelled: bool = True
    cells: Cells | None = None

    @property
    def banked(self) -> bool:
        """True for single accesses to shared memory, under which the banks are drawn."""
        return bool(self.title) and self.steps[0].space == "shared"

    @property
    def size(self):
        """Rows and columns of the window."""
        return tuple(end - start for start, end in self.window)


def draw_panels(groups, array, shapes, warps, count, itemsize, words) -> Picture:
    """A row (or column) of panels for every kernel. groups: {name: accesses}; shapes: {name: shape of the array};
    warps: names of the traces and colours of their lanes."""
    windows = _windows(groups, shapes)
    high, wide = np.max([[end - start for start, end in window] for window in windows.values()], axis=0).tolist()
    stacked = wide > 2.5 * high
    if count is None:  # a third panel must not make the cells too small to be told apart
        count = 2 if stacked or _cell(3, wide, high) >= 5 else 1
    shown = {name: _chosen(found, count, shapes[name], windows[name]) for name, found in groups.items()}
    most = max(map(len, shown.values()))
    beside = not stacked and most == 1 and len(shown) <= 3  # one panel each: kernels side by side
    across = _cell(1 if stacked else len(shown) if beside else most, wide, high)
    cell = across, max(across, LOW) if stacked and high <= 12 else across
    every = [panel for panels in shown.values() for panel in panels]
    mixed = len({step.what for panel in every for step in panel.steps}) > 1
    names, colours = warps
    for panel in every:
        panel.cells = Cells(panel.steps, panel.window, panel.shape[-1], colours, itemsize, bool(panel.title))
    has = {
        "fetched": _wastes(every, itemsize),
        "several": any((panel.cells.owners > 1).any() for panel in every),
        "written": mixed,
    }
    marks = {mark: EXPLAIN[mark] for mark, there in has.items() if there}
    explained = Legend(lanes_and_marks(colours, names, marks), WIDTH - LEFT)
    pitch = max(width_of(_captions(panel, itemsize)[1], 8) for panel in every)  # captions must not meet
    sheet = Sheet(WIDTH, _place(shown, stacked, beside, cell, (int(pitch) + 14, explained.height)))
    explained.draw(sheet, LEFT)
    for name, panels in shown.items():
        if name:
            sheet.text(panels[0].x, panels[0].y - HEAD - NAME, name, fontsize=10, fontweight="bold")
        for panel in panels:
            _draw(sheet, panel, array, cell, itemsize, mixed)
    drawn = picture(sheet.figure, words or _sentence(array, shown, itemsize), PALETTE)
    regions = [r for name, panels in shown.items() for panel in panels for r in _regions(name, panel, cell, names)]
    return Picture(drawn.png, drawn.words, regions)


def _regions(name, panel, cell, names):
    """A region for each row of a panel, which says what lanes touch it."""
    for r in range(panel.size[0]):
        where = ", ".join(filter(None, (name, panel.title or "all together", f"row {panel.window[0][0] + r}")))
        x1, y0 = panel.x + panel.size[1] * cell[0], panel.y + r * cell[1]
        yield panel.x, y0, x1, y0 + cell[1], f"{where}: {panel.cells.in_words(r, names)}"


def _windows(groups, shapes):
    """The part of the array that is drawn for each kernel; one for all that have the same shape."""
    found = {}
    for shape in set(shapes.values()):
        of = [steps for name, steps in groups.items() if shapes[name] == shape]
        found[shape] = _window(of, math.prod(shape[:-1]), shape[-1])
    return {name: found[shapes[name]] for name in groups}


def _window(groups, rows, cols):
    """((first row, end), (first column, end)) round what is touched first, and no more than is touched."""
    firsts = np.concatenate([found[0].cells for found in groups])
    every = np.concatenate([step.cells for found in groups for step in found])
    r0 = 0 if rows <= ROWS else int(firsts.min()) // cols
    r1 = rows if rows <= WHOLE_ROWS else min(rows, r0 + ROWS, max(int(every.max()) // cols + 1, r0 + 4))
    most = WIDE if r1 - r0 <= 12 else COLUMNS
    c0 = 0 if cols <= most else max(0, min(int((firsts % cols).min()) // 8 * 8, cols - most))
    end = (int((every % cols).max()) // 8 + 2) * 8  # the sector after the last one that is touched
    c1 = cols if cols <= WHOLE_COLUMNS else min(cols, c0 + most, max(end, c0 + 32))
    return (r0, r1 if rows - r1 > 2 or rows > ROWS else rows), (c0, c1)


def _cell(across: int, wide: int, high: int) -> int:
    """Pixels of a cell if so many panels stand side by side."""
    return max(2, min(16, (WIDTH - LEFT - 12 - (across - 1) * GAP) // (across * wide), TALL // high))


def _chosen(found: list[Step], count: int, shape, window) -> list[Panel]:
    """The panels of one kernel: the first accesses of each kind, and all together."""
    kinds = list(dict.fromkeys(step.what for step in found))
    each = max(1, count // len(kinds)) if count else 0
    panels = []
    for kind in kinds:
        turns = {}
        for step in found:
            if step.what == kind:
                turns.setdefault(step.owner, []).append(step)
        for n in range(min(each, max(map(len, turns.values())))):
            steps = [own[n] for own in turns.values() if n < len(own)]
            panels.append(Panel(f"{kind} {n + 1}", steps, shape, window))
    if len(found) > sum(len(panel.steps) for panel in panels):
        panels.append(Panel("", found, shape, window))
    return panels


def _place(shown, stacked, beside, cell, start) -> int:
    """Give each panel its place; returns the height of the picture. start: least distance of panels, upper edge."""
    pitch, top = start
    x, y, foot = LEFT, top, FOOT + BANK * any(panel.banked for panels in shown.values() for panel in panels)
    for name, panels in shown.items():
        head = HEAD + (NAME if name else 0)
        below = 0
        for panel in panels:
            panel.x, panel.y = x, y + head
            high, wide = (n * pixels for n, pixels in zip(panel.size, cell[::-1], strict=True))
            panel.labelled = not stacked or panel is panels[-1] or panel.banked
            below = max(below, panel.y + high + foot - (0 if panel.labelled else WORDS))
            if stacked:
                y, head = below, HEAD
            else:
                x += max(wide + GAP, pitch)
                panel.room = x - panel.x
        if not beside:
            x, y = LEFT, below
    return max(panel.y + panel.size[0] * cell[1] for panels in shown.values() for panel in panels) + foot


def _draw(sheet, panel, array, cell, itemsize, mixed):
    """One panel with the two lines over it."""
    upper, cost = _captions(panel, itemsize)
    high, wide = panel.size[0] * cell[1], panel.size[1] * cell[0]
    sheet.text(panel.x, panel.y - HEAD, shortened(upper, int(panel.room / 5.9)), fontsize=8)
    sheet.text(panel.x, panel.y - HEAD + 14, cost, fontsize=8, color="#555555")
    sheet.image(panel.x, panel.y, panel.cells.image(*cell, mixed))
    if min(cell) >= LARGE:
        panel.cells.numbers(sheet, panel.x, panel.y, *cell)
    _label(sheet, panel, array, cell)
    if panel.banked:
        _banks(sheet, panel, panel.y + high + FOOT, wide)


def _banks(sheet, panel, y, length):
    """The 32 banks of shared memory, each with the number of words it must give; each takes a cycle."""
    words = np.max([step.banks() for step in panel.steps], axis=0)
    cell = max(4, min(9, length // BANKS))
    colour = np.where(words[:, None] > 1, BUSY, np.where(words[:, None] > 0, CALM, PAPER))
    nothing = np.zeros((1, BANKS), bool)
    sheet.image(panel.x, y, pixels(colour[None], cell, 13, [], nothing, nothing))
    most = int(words.max())
    each = f"up to {most} words from one of the 32 banks" if most > 1 else "at most a word from each of the 32 banks"
    sheet.text(panel.x, y + 13, each, fontsize=7, color="#555555")


def _captions(panel, itemsize):
    """Two lines over a panel: what is done where, and what it costs."""
    lines = sorted({step.line for step in panel.steps})
    where = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
    if not panel.title:
        kinds = [step.what for step in panel.steps]
        counts = " and ".join(f"{kinds.count(kind)} {kind}s" for kind in dict.fromkeys(kinds))
        warps = len({step.owner for step in panel.steps})
        return f"all together, {where}", f"{counts} by {f'{warps} warps' if warps > 1 else 'the warp'}"
    source = panel.steps[0].source
    return f"{panel.title}, {where}{f': {source}' if len(lines) == 1 and source else ''}", _cost(panel.steps, itemsize)


def _cost(steps, itemsize) -> str:
    """What accesses ask of memory."""
    elements = sum(step.elements for step in steps)
    what = f"{elements} element{'s' * (elements != 1)}"
    if steps[0].space == "global":
        sectors = sum(len(step.sectors(itemsize)) for step in steps)
        used = 100 * elements * itemsize / (sectors * SECTOR)
        return f"{what}, {sectors} sector{'s' * (sectors != 1)}, {used:.3g} % used"
    if steps[0].space == "shared":
        cycles = max(step.cycles() for step in steps)
        return f"{what}, {cycles} bank cycle{'s' * (cycles != 1)}"
    return what


def _sentence(array, shown, itemsize) -> str:
    """The picture in words: the first access of each kernel, and what it costs."""
    parts = []
    for name, panels in shown.items():
        for panel in panels:
            if panel.title.endswith(" 1"):
                first = f"first {panel.title[:-2]}: {_cost(panel.steps, itemsize)}"
                parts.append(f"{name}, {first}" if name else first)
        if not panels[0].title:
            parts.append(f"{name + ', ' if name else ''}{_captions(panels[0], itemsize)[1]}")
    return f"Which lane touches which element of {array}: {'; '.join(parts)}."


def _wastes(panels, itemsize) -> bool:
    """True where sectors are fetched of which a part is not asked for."""
    first = [step for panel in panels if panel.title for step in panel.steps if step.space == "global"]
    return any(step.elements * itemsize < SECTOR * len(step.sectors(itemsize)) for step in first)


def _label(sheet, panel, array, cell):
    """The numbers of columns and rows, and which part of the array is shown."""
    (r0, r1), (c0, c1) = panel.window
    cols, rows = panel.shape[-1], math.prod(panel.shape[:-1])
    high, wide = (r1 - r0) * cell[1], (c1 - c0) * cell[0]
    across = range(c0, c1, next(n for n in (1, 2, 4, 8, 16, 32) if n * cell[0] >= 28))
    down = range(r0, r1, next(n for n in (1, 2, 4, 8, 16) if n * cell[1] >= 13 or r1 - r0 <= n or cell[1] >= LOW))
    ticks(sheet, panel.x, panel.y + high, [(c - c0, c) for c in across], cell[0])
    ticks(sheet, panel.x, panel.y, [(r - r0, r) for r in down], cell[1], down=True)
    part = f", {c0} to {c1 - 1} of {cols}" if c1 - c0 < cols else ""
    some = f", {r0} to {r1 - 1} of {rows}" if r1 - r0 < rows else ""
    room = high >= 120  # for the words beside the panel
    words = f"column of {array}{part}{'' if room or not some else f'; rows{some[1:]}'}"
    if panel.labelled:
        sheet.text(panel.x + wide / 2, panel.y + high + 17, words, fontsize=8, ha="center")
    if panel.x == LEFT:
        words, place = f"row{some if room else ''}", {"ha": "center", "va": "center"}
        sheet.text(LEFT - 34, panel.y + high / 2, words, fontsize=8, rotation=90, **place)
