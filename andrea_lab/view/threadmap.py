"""thread_map: which thread touches which element, drawn from recorded accesses.

The colour of an element is the lane that touches it. What a warp asks of global memory arrives in sectors of 32 bytes;
the part of a sector nobody asked for is drawn grey, so a strided access is a picture of what it wastes.
"""

import math

import numpy as np

from andrea_lab.view.accesses import SECTOR, Step, named, shortened, steps
from andrea_lab.view.cells import LARGE, Cells, ramps
from andrea_lab.view.legends import Legend, lanes_and_marks
from andrea_lab.view.strips import draw_strips
from andrea_lab.view.style import Picture, Sheet, picture

WIDTH = 840  # pixels
LEFT, GAP, HEAD, FOOT = 48, 34, 31, 38
COLUMNS, ROWS = 64, 40  # the most that is shown of an array, panels side by side
WIDE = 128  # the most columns of panels one below the other
TALL = 300  # the most pixels a panel is high
PALETTE = 128
EXPLAIN = {
    "fetched": "fetched in the same 32 bytes, not asked for",
    "several": "touched by several lanes",
    "written": "written",
}


def thread_map(
    traces, array: str, shape, words: str | None = None, *, what=None, line=None, count=None, itemsize: int = 4
) -> Picture:
    """Which lane touches which element of `array`, from what `kernels.trace` recorded.

    traces: one trace; a list of traces (warps or blocks, one colour each); or a dict of either by name, to compare.
    shape: the shape of the array. Of an array with one axis every access is drawn, from first to last; of another, the
    first `count` accesses (as many as fit, 2 at most) and all together. what: 'read', 'write' or 'atomic', to see these
    alone. line: a line number or a piece of its text, to see that line alone. itemsize: bytes of an element. words: in
    place of the picture; by default they say what was counted.

    Raises ValueError in one line for an array that is not in the trace, an empty trace, a shape too small.
    """
    shape = tuple(int(n) for n in np.atleast_1d(shape))
    groups, members = {}, named(traces)
    for name, of in members.items():
        found = steps("thread_map", of, array, name)
        top, size = max(int(step.cells.max()) for step in found), math.prod(shape)
        if top >= size:
            raise ValueError(f"thread_map: shape {shape} has {size} elements, found element {top} of {array}")
        groups[name] = _chosen(found, array, what, line)
    if not groups:
        raise ValueError("thread_map: found no trace, expected one or more of kernels.trace")
    names = _names(max(members.values(), key=len))
    draw = draw_strips if len(shape) == 1 else _panels
    return draw(groups, array, shape, names, count, itemsize, words)


def _names(traces) -> list[str]:
    """What the traces are called in the legend: by block, by warp, or by both, as they differ."""
    blocks, warps = ([getattr(trace, field, 0) for trace in traces] for field in ("block", "warp"))
    if len(set(warps)) == 1:
        return [f"block {b}" for b in blocks]
    return [
        f"warp {w}" if len(set(blocks)) == 1 else f"block {b}, warp {w}" for b, w in zip(blocks, warps, strict=True)
    ]


def _chosen(found: list[Step], array: str, what, line) -> list[Step]:
    """The accesses of one kind and one line, or ValueError naming those there are."""
    kinds = dict.fromkeys(step.what for step in found)
    if what is not None and what not in kinds:
        raise ValueError(f"thread_map: what is {what!r}, found {', '.join(kinds)} of {array}")
    kept = [s for s in found if what in (None, s.what)]
    if line is not None:
        there = dict.fromkeys(f"{s.line} ({s.source})" for s in kept)
        kept = [s for s in kept if (s.line == line if isinstance(line, int) else line in s.source)]
        if not kept:
            raise ValueError(f"thread_map: no access to {array} on line {line!r}, found {', '.join(there)}")
    return kept


def _panels(groups, array, shape, names, count, itemsize, words):
    """Panels of arrays with two or more axes, the last axis to the right, the others down."""
    rows, cols = math.prod(shape[:-1]), shape[-1]
    window = _window(groups, rows, cols)
    high, wide = (end - start for start, end in window)
    stacked = wide > 2.5 * high
    if count is None:  # a third panel must not make the cells too small to be told apart
        count = 2 if stacked or _cell(3, wide, high) >= 5 else 1
    shown = {name: _shown(found, count) for name, found in groups.items()}
    most = max(map(len, shown.values()))
    beside = not stacked and most == 1 and len(shown) <= 3  # one panel each: kernels side by side
    cell = _cell(1 if stacked else len(shown) if beside else most, wide, high)
    size = (cell * wide, cell * high)
    every = [panel for panels in shown.values() for panel in panels]
    mixed = len({step.what for _, panel in every for step in panel}) > 1
    has = {"fetched": _wastes(every, itemsize), "several": any(_crowded(p) for _, p in every), "written": mixed}
    colours = ramps(len(names))
    marks = {mark: EXPLAIN[mark] for mark, there in has.items() if there}
    explained = Legend(lanes_and_marks(colours, names, marks), WIDTH - LEFT)
    grid = _places(shown, stacked, beside, size, explained.height)
    sheet = Sheet(WIDTH, max(y for *_, y in grid) + size[1] + FOOT)
    explained.draw(sheet, LEFT)
    for name, title, panel, first, x, y in grid:
        if name and first:
            sheet.text(x, y - HEAD - 21, name, fontsize=10, fontweight="bold")
        upper, cost = _captions(title, panel, itemsize)
        sheet.text(x, y - HEAD, shortened(upper, (size[0] + GAP) // 6), fontsize=8)
        sheet.text(x, y - HEAD + 14, cost, fontsize=8, color="#555555")
        axes = sheet.axes(x, y, *size)
        cells = Cells(panel, window, cols, colours, itemsize, bool(title))
        (r0, r1), (c0, c1) = window
        axes.imshow(cells.image(cell, cell, mixed), extent=(c0, c1, r1, r0), aspect="auto", interpolation="nearest")
        if cell >= LARGE:
            cells.numbers(axes)
        _label(axes, array, shape, window, x == LEFT, cell)
    return picture(sheet.figure, words or _sentence(array, shown, itemsize), PALETTE)


def _cell(across: int, wide: int, high: int) -> int:
    """Pixels of a cell if so many panels stand side by side."""
    return max(2, min(16, int((WIDTH - LEFT - 12 - (across - 1) * GAP) / across / wide), TALL // high))


def _places(shown, stacked, beside, size, y):
    """Where each panel goes: (name, title, accesses, is it the first of its name, left, top)."""
    placed = []
    for number, (name, panels) in enumerate(shown.items()):
        head = HEAD + (21 if name else 0)
        if beside:
            placed.append((name, *panels[0], True, LEFT + number * (size[0] + GAP), y + head))
            continue
        for n, panel in enumerate(panels):
            x = LEFT + (0 if stacked else n * (size[0] + GAP))
            placed.append((name, *panel, n == 0, x, y + head))
            if stacked:
                y, head = y + head + size[1] + FOOT, HEAD
        y += 0 if stacked else head + size[1] + FOOT
    return placed


def _shown(found: list[Step], count: int):
    """The panels of one kernel: [(title, accesses drawn together)]; the title of the last, all accesses, is ''."""
    kinds = list(dict.fromkeys(step.what for step in found))
    each = max(1, count // len(kinds)) if len(kinds) > 1 else count
    panels = []
    for kind in kinds:
        turns = {}
        for step in found:
            if step.what == kind:
                turns.setdefault(step.owner, []).append(step)
        for n in range(min(each, max(map(len, turns.values())))):
            panels.append((f"{kind} {n + 1}", [own[n] for own in turns.values() if n < len(own)]))
    if len(found) > sum(len(panel) for _, panel in panels):
        panels.append(("", found))
    return panels


def _window(groups, rows, cols):
    """The part of the array that is drawn: ((first row, end), (first column, end)), round what is touched first."""
    firsts = np.concatenate([found[0].cells for found in groups.values()])
    every = np.concatenate([step.cells for found in groups.values() for step in found])
    r0, r1 = 0, rows
    if rows > ROWS:
        r0 = int(firsts.min()) // cols
        r1 = min(rows, r0 + ROWS, max(int(every.max()) // cols + 1, r0 + 4))
    limit = WIDE if r1 - r0 <= 12 else COLUMNS
    c0 = 0 if cols <= limit else min(int((firsts % cols).min()) // 8 * 8, cols - 8)
    return (r0, r1), (c0, min(cols, c0 + limit))


def _captions(title, panel, itemsize):
    """Two lines over a panel: what is done where, and what it costs."""
    lines = sorted({step.line for step in panel})
    where = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
    if not title:
        kinds = [f"{sum(s.what == kind for s in panel)} {kind}s" for kind in dict.fromkeys(s.what for s in panel)]
        warps = len({s.owner for s in panel})
        return f"all together, {where}", f"{' and '.join(kinds)} by {f'{warps} warps' if warps > 1 else 'the warp'}"
    where += f": {panel[0].source}" if len(lines) == 1 and panel[0].source else ""
    return f"{title}, {where}", _cost(panel, itemsize)


def _cost(panel, itemsize) -> str:
    """What accesses ask of memory."""
    elements = sum(step.elements for step in panel)
    what = f"{elements} element{'s' * (elements != 1)}"
    if panel[0].space == "global":
        sectors = sum(len(step.sectors(itemsize)) for step in panel)
        used = 100 * elements * itemsize / (sectors * SECTOR)
        return f"{what}, {sectors} sector{'s' * (sectors != 1)}, {used:.3g} % used"
    if panel[0].space == "shared":
        cycles = max(step.cycles() for step in panel)
        return f"{what}, {cycles} bank cycle{'s' * (cycles != 1)}"
    return what


def _sentence(array, shown, itemsize) -> str:
    """The picture in words: the first access of each kernel, and what it costs."""
    parts = []
    for name, panels in shown.items():
        for title, panel in panels:
            if title.endswith(" 1"):
                parts.append(f"{name + ', ' if name else ''}first {title[:-2]}: {_cost(panel, itemsize)}")
    return f"Which lane touches which element of {array}: {'; '.join(parts)}."


def _crowded(panel) -> bool:
    """True where one element is touched by several lanes."""
    touched = {(int(c), s.owner, int(n)) for s in panel for c, n in zip(s.cells, s.lanes, strict=True)}
    return len(touched) > len({cell for cell, *_ in touched})


def _wastes(panels, itemsize) -> bool:
    """True where sectors are fetched of which a part is not asked for."""
    first = [step for title, panel in panels if title for step in panel if step.space == "global"]
    return any(step.elements * itemsize < SECTOR * len(step.sectors(itemsize)) for step in first)


def _label(axes, array, shape, window, first, cell):
    """Ticks in the middle of cells, and the names of the axes."""
    (r0, r1), (c0, c1) = window
    cols, rows = shape[-1], math.prod(shape[:-1])
    across = range(c0, c1, next(n for n in (1, 2, 4, 8, 16, 32) if n * cell >= 22))
    down = range(r0, r1, next(n for n in (1, 2, 4, 8, 16) if n * cell >= 13))
    axes.set_xticks([c + 0.5 for c in across], across)
    axes.set_yticks([r + 0.5 for r in down], down)
    axes.tick_params(length=2, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    parts = [f"{c0} to {c1 - 1} of {cols}"] * (c1 - c0 < cols) + [f"rows {r0} to {r1 - 1} of {rows}"] * (r1 - r0 < rows)
    part = f" ({'; '.join(parts)})" if parts else ""
    axes.set_xlabel(f"column of {array}{part}", fontsize=8, labelpad=1)
    if first:
        axes.set_ylabel("row", fontsize=8, labelpad=2)
