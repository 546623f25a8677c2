"""An array with one axis: a strip for every access, from first to last, with barriers between them."""

from dataclasses import dataclass

import numpy as np

from andrea_lab.view.accesses import VERBS, Step, shortened
from andrea_lab.view.cells import DARK, FETCHED, LARGE, Cells, ticks
from andrea_lab.view.legends import Legend, lanes_and_marks
from andrea_lab.view.style import Picture, Sheet, picture

WIDTH, LEFT, RIGHT = 840, 256, 70  # pixels; the lines of the kernel stand on the left
HIGH, GAP, NAME, FOOT = 16, 12, 20, 40  # pixels of a strip, of what lies between two, of a name, of the axis
MOST = 26  # strips
ALIKE = 5  # strips of one line in one interval; of more, the first ones and the last are drawn
PALETTE = 128
SMALL = {"fontsize": 7, "va": "center"}


@dataclass
class Strip:
    """One access of every trace; `skipped` accesses like it, and `barriers`, lie between it and the strip before."""

    steps: list[Step]
    skipped: int = 0
    barriers: int = 0
    cells: Cells | None = None


def draw_strips(groups, array, shapes, warps, count, itemsize, words) -> Picture:
    """Strips of every kernel. groups: {name: accesses}; shapes: {name: (elements,)}; warps: names of the traces
    and colours of their lanes; count: strips, None for MOST."""
    shown = {name: _strips(found, count) for name, found in groups.items()}
    base = min(int(found[0].cells.min()) for found in groups.values()) // 8 * 8
    shown = {name: _within(strips, base + WIDTH - LEFT - RIGHT, rest) for name, (strips, rest) in shown.items()}
    window = _window([strip for strips, _ in shown.values() for strip in strips], max(n for (n,) in shapes.values()))
    wide = max(1, min(16, (WIDTH - LEFT - RIGHT) // (window[1] - window[0])))
    names, colours = warps
    for name, (strips, _) in shown.items():
        for strip in strips:
            end = min(window[1], shapes[name][0])
            strip.cells = Cells(strip.steps, ((0, 1), (window[0], end)), end, colours, itemsize, True)
    marks = _marks([strip.cells for strips, _ in shown.values() for strip in strips])
    explained = Legend(lanes_and_marks(colours, names, marks), WIDTH - 12)
    tops, y, regions = {}, explained.height, []
    for name, (strips, left_out) in shown.items():
        tops[name] = y + (NAME if name else 0)
        gaps = sum(bool(strip.skipped or strip.barriers) for strip in strips)
        y = tops[name] + len(strips) * HIGH + gaps * GAP + bool(left_out) * GAP + FOOT
    sheet = Sheet(WIDTH, y)
    explained.draw(sheet, 12)
    for name, (strips, left_out) in shown.items():
        if name:
            sheet.text(12, tops[name] - NAME, name, fontsize=10, fontweight="bold")
        for strip, (x0, y0, x1, y1) in _column(sheet, strips, tops[name], wide, array, left_out):
            step = strip.steps[0]
            where = f"{name + ', ' if name else ''}{step.what} on line {step.line}"
            regions.append((x0, y0, x1, y1, f"{where}: {strip.cells.in_words(0, names, 'element')}"))
    drawn = picture(sheet.figure, words or _sentence(groups, array), PALETTE)
    return Picture(drawn.png, drawn.words, regions)


def _strips(found, count):
    """The strips of one kernel, and how many accesses after the last are left out."""
    turns = _turns(found)
    alike = {}
    for n, turn in enumerate(turns):
        alike.setdefault((turn[0].line, turn[0].what, turn[0].interval), []).append(n)
    hidden = set()
    if count is None:
        hidden = {n for numbers in alike.values() if len(numbers) > ALIKE for n in numbers[ALIKE - 2 : -1]}
    strips, skipped, interval = [], 0, turns[0][0].interval
    for n, turn in enumerate(turns):
        if n in hidden:
            skipped += 1
        elif len(strips) < (count or MOST):
            strips.append(Strip(turn, skipped, turn[0].interval - interval))
            skipped, interval = 0, turn[0].interval
        else:
            skipped += 1
    return strips, skipped


def _within(strips, end, left_out):
    """The strips before the first one that lies beyond what can be drawn, and how many accesses that leaves out."""
    beyond = [n for n, strip in enumerate(strips) if max(int(step.cells.max()) for step in strip.steps) >= end]
    kept = strips[: beyond[0]] if beyond and beyond[0] else strips
    return kept, left_out + sum(1 + strip.skipped for strip in strips[len(kept) :])


def _turns(found):
    """The n-th access of every trace together, for every n."""
    own = {}
    for step in found:
        own.setdefault(step.owner, []).append(step)
    return [[steps[n] for steps in own.values() if n < len(steps)] for n in range(max(map(len, own.values())))]


def _window(strips, size):
    """The elements that are drawn: all of a short array, else those touched, as many as there are pixels for."""
    if size <= 64:
        return 0, size
    cells = np.concatenate([step.cells for strip in strips for step in strip.steps])
    start, end = int(cells.min()) // 8 * 8, (int(cells.max()) // 8 + 1) * 8
    return start, min(size, max(end, start + 32), start + WIDTH - LEFT - RIGHT)


def _marks(drawn) -> dict:
    """What the legend must explain."""
    written = [bool(cells.written.any()) for cells in drawn]
    marks = {}
    if any((cells.colour == FETCHED).all(-1).any() for cells in drawn):
        marks["fetched"] = "fetched in the same 32 bytes, not asked for"
    if any((cells.owners > 1).any() for cells in drawn):
        marks["several"] = "several lanes"
    if any(written):
        marks["written"] = "written" if all(written) else "written (others: read)"
    return marks


def _column(sheet, strips, y, wide, array, left_out):
    """The strips of one kernel, one below the other; returns [(strip, where it is)]."""
    before, placed = None, []
    for strip in strips:
        step, (c0, c1) = strip.steps[0], strip.cells.window[1]
        right = LEFT + wide * (c1 - c0)
        if strip.skipped or strip.barriers:
            _between(sheet, y, right, strip)
            y += GAP
        if before is None or strip.barriers or step.line != before.line:
            text = shortened(f"{step.line:>3}  {step.source}", 35)
            sheet.text(6, y + HIGH / 2, text, family="monospace", **SMALL)
        sheet.text(LEFT - 6, y + HIGH / 2, VERBS[step.what].split()[0], ha="right", **SMALL | {"color": "#555555"})
        sheet.image(LEFT, y, strip.cells.image(wide, HIGH, True))
        if wide >= LARGE:
            strip.cells.numbers(sheet, LEFT, y, wide, HIGH)
        lanes = sum(len(s.lanes) for s in strip.steps)
        sheet.text(right + 6, y + HIGH / 2, f"{lanes} lane{'s' * (lanes != 1)}", **SMALL)
        placed.append((strip, (LEFT, y, right, y + HIGH)))
        before, y = step, y + HIGH
    stride = next(n for n in (1, 2, 4, 8, 16, 32, 64) if n * wide >= 28)
    ticks(sheet, LEFT, y, [(c - c0, c) for c in range(c0, c1, stride)], wide)
    sheet.text((LEFT + right) / 2, y + 17, f"element of {array}", fontsize=8, ha="center")
    if left_out:
        sheet.text(LEFT - 6, y + GAP / 2 + 2, f"and {left_out:,} more", ha="right", **SMALL)
    return placed


def _between(sheet, y, right, strip):
    """A line for a barrier, a word for accesses left out."""
    if strip.skipped:
        sheet.text(LEFT - 6, y + GAP / 2, f"… {strip.skipped:,} more", ha="right", **SMALL | {"color": "#555555"})
    if strip.barriers:
        sheet.image(LEFT, y + GAP // 2 - 1, np.full((2, right - LEFT, 3), DARK, np.uint8))
        note = "barrier" if strip.barriers == 1 else f"{strip.barriers} barriers"
        sheet.text(right + 6, y + GAP / 2, note, fontweight="bold", **SMALL)


def _sentence(groups, array) -> str:
    """The picture in words: how many lanes take part in each access."""
    parts = []
    for name, found in groups.items():
        lanes = [sum(len(step.lanes) for step in turn) for turn in _turns(found)]
        each = f"{len(lanes)} accesses by {', '.join(map(str, lanes[:12]))}{' …' * (len(lanes) > 12)} lanes"
        single = f"an access by {lanes[0]} lane{'s' * (lanes[0] != 1)}"
        parts.append(f"{name + ', ' if name else ''}{each if len(lanes) > 1 else single}")
    return f"Which lane touches which element of {array}: {'; '.join(parts)}."
