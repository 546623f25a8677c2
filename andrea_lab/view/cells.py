"""Cells of an array painted pixel by pixel, in the colour of the lane that touches them."""

import matplotlib
import numpy as np

from andrea_lab.view.accesses import SECTOR, Step
from andrea_lab.view.palette import BLUE, GREEN, INK, ORANGE, PURPLE, RED, SKY

LANES = 32
PAPER, LINE, BORDER, FETCHED, DARK = (255, 255, 255), (226, 226, 226), (150, 150, 150), (198, 198, 198), (34, 34, 34)
HUES = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, "#999933", "#882255")
SMALL, LARGE = 4, 14  # pixels of a cell from which on it gets lines round it, and a number in it
TOLD = 4  # runs of neighbours in a row that are put in words


def ramps(members: int, lanes: int = LANES) -> np.ndarray:
    """Colours (members, lanes, 3): one ramp if there is one trace, else light to full in a hue for each."""
    if members == 1:
        return np.round(255 * matplotlib.colormaps["viridis"](np.linspace(0.06, 0.96, lanes))[None, :, :3]).astype(int)
    hues = np.array([matplotlib.colors.to_rgb(HUES[n % len(HUES)]) for n in range(members)])[:, None]
    light = np.linspace(0.62, 0.0, lanes)[None, :, None]
    return np.round(255 * (hues + (1 - hues) * light)).astype(int)


class Cells:
    """A window of an array of `cols` columns: who touches each element, and what came with it."""

    def __init__(self, panel: list[Step], window, cols: int, colours, itemsize: int, fetched: bool):
        """panel: accesses drawn together. window: ((first row, end), (first column, end)). fetched: show sectors."""
        (r0, r1), (c0, c1) = self.window = window
        self.cols, self.itemsize, self.sectors = cols, itemsize, panel[0].space == "global"
        shape = (r1 - r0, c1 - c0)
        size = shape[0] * shape[1]
        colour, written, lowest = np.full((size, 3), PAPER), np.zeros(size, bool), np.full(size, LANES)
        traces = np.zeros(size, int)
        if fetched and self.sectors:
            per = max(1, SECTOR // itemsize)
            sectors = np.unique(np.concatenate([step.sectors(itemsize) for step in panel]))
            inside, at = self._places((sectors[:, None] * per + np.arange(per)).ravel())
            colour[at] = FETCHED
        inside, at = self._places(np.concatenate([step.cells for step in panel]))
        lane, owner, order, writes = (_column(panel, n)[inside] for n in range(4))
        first = np.lexsort((lane, order))  # the lowest lane of the first access is the one that is seen
        seen, where = np.unique(at[first], return_index=True)
        where = first[where]
        colour[seen], lowest[seen] = np.asarray(colours)[owner[where], lane[where]], lane[where]
        traces[seen] = owner[where]
        written[at[writes]] = True
        owners = np.bincount(np.unique(at * len(colours) * LANES + owner * LANES + lane) // (len(colours) * LANES))
        owners = np.pad(owners, (0, size - len(owners)))
        cut = [a.reshape(*shape, *a.shape[1:]) for a in (colour, owners, written, lowest, traces)]
        self.colour, self.owners, self.written, self.lowest, self.traces = cut

    def _places(self, cells):
        """Which flat indices lie in the window, and where in it."""
        (r0, r1), (c0, c1) = self.window
        row, column = cells // self.cols, cells % self.cols
        inside = (row >= r0) & (row < r1) & (column >= c0) & (column < c1)
        return inside, ((row - r0) * (c1 - c0) + column - c0)[inside]

    def borders(self) -> list[int]:
        """Columns of the window at which a sector of global memory begins, if they are the same in every row."""
        if not self.sectors:
            return []
        (c0, c1), row = self.window[1], self.cols * self.itemsize
        one_row = self.window[0][1] - self.window[0][0] == 1
        found = [c - c0 for c in range(c0, c1) if c * self.itemsize % SECTOR == 0]
        return found if one_row or row % SECTOR == 0 else []

    def image(self, wide: int, high: int, framed: bool) -> np.ndarray:
        """The pixels, `wide` x `high` for each cell."""
        return pixels(self.colour, wide, high, self.borders(), self.written & framed, self.owners > 1)

    def numbers(self, sheet, left: int, top: int, wide: int, high: int) -> None:
        """The lane in each cell that only one touches, over the image with this upper left corner."""
        place = {"ha": "center", "va": "center", "fontsize": 6}
        for r, c in np.argwhere(self.owners == 1):
            ink = ink_on(self.colour[r, c])
            sheet.text(left + (c + 0.5) * wide, top + (r + 0.5) * high, str(self.lowest[r, c]), color=ink, **place)

    def in_words(self, r: int, names: list[str], what: str = "column") -> str:
        """Who touches a row: runs of neighbours, touched by one lane or by one after the other. names: the traces'."""
        owners, traces, lanes = (a[r].tolist() for a in (self.owners, self.traces, self.lowest))
        runs = []  # [first column, last, trace, first lane, last, step]; no lane where there are several
        for c in np.flatnonzero(owners).tolist():
            trace, lane = (traces[c], lanes[c]) if owners[c] == 1 else (None, None)
            if runs and runs[-1][1] == c - 1 and runs[-1][2] == trace:
                step = 0 if lane is None else lane - runs[-1][4]
                if step == runs[-1][5] or runs[-1][5] is None and step in (0, 1):
                    runs[-1][1], runs[-1][4], runs[-1][5] = c, lane, step
                    continue
            runs.append([c, c, trace, lane, lane, None])
        told = [_run(run, self.window[1][0], names, what) for run in runs[:TOLD]]
        more = f"; and {len(runs) - TOLD} more" if len(runs) > TOLD else ""
        return "; ".join(told) + more if told else "nobody"


def _run(run, start: int, names: list[str], what: str) -> str:
    """One run in words: columns 0 to 31 by lanes 0 to 31 of block 1."""
    c0, c1, trace, lane, last, _ = run
    where = f"{what} {start + c0}" if c0 == c1 else f"{what}s {start + c0} to {start + c1}"
    if trace is None:
        return f"{where} by several lanes"
    who = f"lane {lane}" if lane == last else f"lanes {lane} to {last}"
    return f"{where} by {who}{f' of {names[trace]}' if len(names) > 1 else ''}"


def _column(panel, n: int) -> np.ndarray:
    """Of every touch of an element in the accesses: its lane (0), trace (1), access (2), and whether it writes (3)."""
    parts = []
    for number, step in enumerate(panel):
        value = (step.lanes, step.owner, number, step.what != "read")[n]
        parts.append(np.broadcast_to(value, step.lanes.shape))
    return np.concatenate(parts)


def pixels(colour, wide: int, high: int, borders, framed, dotted) -> np.ndarray:
    """The image of a grid of colours: lines between cells, darker ones at sector borders; frames and dots in cells."""
    image = np.repeat(np.repeat(colour, high, 0), wide, 1).astype(np.uint8)
    small = min(wide, high) >= SMALL
    if small:
        image[::high] = LINE
        image[:, ::wide] = LINE
        for column in borders:
            image[:, column * wide] = BORDER
    for r, c in np.argwhere(framed & small):
        top, left, low, right = r * high + 1, c * wide + 1, (r + 1) * high - 1, (c + 1) * wide - 1
        image[top : low + 1, [left, right]] = DARK
        image[[top, low], left : right + 1] = DARK
    size = max(1, min(wide, high) // 4)
    for r, c in np.argwhere(dotted & small):
        y, x = r * high + (high - size + 1) // 2, c * wide + (wide - size + 1) // 2
        image[y : y + size, x : x + size] = DARK if is_light(colour[r, c]) else PAPER
    image[[0, -1]] = BORDER
    image[:, [0, -1]] = BORDER
    return image


def ink_on(colour) -> str:
    """White or dark letters, whichever can be read on the colour."""
    return INK if is_light(colour) else "white"


def is_light(colour) -> bool:
    return np.dot(colour, (0.299, 0.587, 0.114)) >= 140


def ticks(sheet, left: int, top: int, numbers, cell: int, down: bool = False) -> None:
    """The numbers of cells: below an image that ends at `top`, or left of one that begins there (`down`)."""
    for n, number in numbers:
        middle = (n + 0.5) * cell
        if down:
            sheet.text(left - 4, top + middle, str(number), fontsize=8, ha="right", va="center")
        else:
            sheet.text(left + middle, top + 3, str(number), fontsize=8, ha="center")
