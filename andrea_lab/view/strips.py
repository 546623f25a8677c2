"""An array with one axis: a strip for every access, from first to last, with barriers between them."""

import numpy as np

from andrea_lab.view.accesses import VERBS, shortened
from andrea_lab.view.cells import FETCHED, LARGE, Cells, ramps
from andrea_lab.view.curve import INK
from andrea_lab.view.legends import Legend, lanes_and_marks
from andrea_lab.view.style import Picture, Sheet, picture

WIDTH, LEFT, RIGHT = 840, 256, 70  # pixels; the lines of the kernel stand on the left
HIGH, BARRIER = 16, 12  # pixels of a strip, and of the gap a barrier makes
MOST = 26  # strips
PALETTE = 128


def draw_strips(groups, array, shape, names, count, itemsize, words) -> Picture:
    """Every access (`count` of them, MOST if None) of every kernel, one strip each."""
    shown = {name: _turns(found)[: count or MOST] for name, found in groups.items()}
    window = _window(shown, shape[0])
    c0, c1 = window
    wide = max(1, min(16, (WIDTH - LEFT - RIGHT) // (c1 - c0)))
    colours = ramps(len(names))
    drawn = {
        name: [Cells(turn, ((0, 1), window), c1, colours, itemsize, True) for turn in turns]
        for name, turns in shown.items()
    }
    explained = Legend(
        lanes_and_marks(colours, names, _marks([c for cells in drawn.values() for c in cells])), WIDTH - 12
    )
    y, tops = explained.height, {}
    for name, turns in shown.items():
        tops[name] = y + (20 if name else 0)
        y = tops[name] + len(turns) * HIGH + _gaps(turns) * BARRIER + 40
    sheet = Sheet(WIDTH, y)
    explained.draw(sheet, 12)
    for name, turns in shown.items():
        if name:
            sheet.text(12, tops[name] - 20, name, fontsize=10, fontweight="bold")
        left_out = len(_turns(groups[name])) - len(turns)
        _column(sheet, list(zip(turns, drawn[name], strict=True)), tops[name], window, wide, array, left_out)
    return picture(sheet.figure, words or _sentence(groups, array), PALETTE)


def _gaps(turns) -> int:
    """How often a barrier lies between two strips."""
    return sum(a[0].interval != b[0].interval for a, b in zip(turns, turns[1:], strict=False))


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


def _turns(found):
    """The n-th access of every trace together, for every n."""
    own = {}
    for step in found:
        own.setdefault(step.owner, []).append(step)
    return [[steps[n] for steps in own.values() if n < len(steps)] for n in range(max(map(len, own.values())))]


def _window(shown, size):
    """The elements that are drawn: all of a short array, else those touched, as many as there are pixels for."""
    if size <= 64:
        return 0, size
    cells = np.concatenate([step.cells for turns in shown.values() for turn in turns for step in turn])
    start, end = int(cells.min()) // 8 * 8, (int(cells.max()) // 8 + 1) * 8
    return start, min(size, max(end, start + 32), start + WIDTH - LEFT - RIGHT)


def _column(sheet, turns, y, window, wide, array, left_out):
    """The strips of one kernel, one below the other."""
    c0, c1 = window
    before = None
    for n, (turn, cells) in enumerate(turns):
        step = turn[0]
        if before is not None and step.interval != before.interval:
            _barrier(sheet, y, wide * (c1 - c0), step.interval - before.interval)
            y += BARRIER
        if before is None or (step.line, step.interval) != (before.line, before.interval):
            text = shortened(f"{step.line:>3}  {step.source}", 36)
            sheet.text(6, y + HIGH / 2, text, family="monospace", fontsize=7, va="center")
        verb = VERBS[step.what].split()[0]
        sheet.text(LEFT - 6, y + HIGH / 2, verb, fontsize=7, va="center", ha="right", color="#555555")
        axes = sheet.axes(LEFT, y, wide * (c1 - c0), HIGH)
        axes.imshow(cells.image(wide, HIGH, True), extent=(c0, c1, 1, 0), aspect="auto", interpolation="nearest")
        if wide >= LARGE:
            cells.numbers(axes)
        _frame(axes, window, f"element of {array}" if n == len(turns) - 1 else None)
        lanes = sum(len(s.lanes) for s in turn)
        sheet.text(
            LEFT + wide * (c1 - c0) + 6, y + HIGH / 2, f"{lanes} lane{'s' * (lanes != 1)}", fontsize=7, va="center"
        )
        before, y = step, y + HIGH
    if left_out:
        sheet.text(6, y + 4, f"and {left_out} accesses more", fontsize=8)


def _barrier(sheet, y, length, crossed):
    """A line through the gap."""
    axes = sheet.axes(LEFT, y + 4, length, BARRIER - 8)
    axes.axis("off")
    axes.axhline(0.5, color=INK, lw=1.6)
    note = "barrier" if crossed == 1 else f"{crossed} barriers"
    sheet.text(LEFT + length + 6, y + BARRIER / 2, note, fontsize=7, va="center", color=INK, fontweight="bold")


def _frame(axes, window, label):
    """Numbers of the elements under the last strip."""
    c0, c1 = window
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    across = range(c0, c1, next(n for n in (1, 2, 4, 8, 16, 32, 64, 128) if (c1 - c0) / n <= 16))
    axes.set_xticks([c + 0.5 for c in across] if label else [], across if label else [])
    axes.tick_params(length=2, pad=2)
    if label:
        axes.set_xlabel(label, fontsize=8, labelpad=1)


def _sentence(groups, array) -> str:
    """The picture in words: how many lanes take part in each access."""
    parts = []
    for name, found in groups.items():
        lanes = [sum(len(step.lanes) for step in turn) for turn in _turns(found)]
        several = len(lanes) > 1
        each = f"{len(lanes)} accesses by {', '.join(map(str, lanes[:12]))}{' …' * (len(lanes) > 12)} lanes"
        parts.append(f"{name + ', ' if name else ''}{each if several else f'an access by {lanes[0]} lanes'}")
    return f"Which lane touches which element of {array}: {'; '.join(parts)}."
