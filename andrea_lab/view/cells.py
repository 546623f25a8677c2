"""Cells of an array painted pixel by pixel, in the colour of the lane that touches them."""

import matplotlib
import numpy as np

from andrea_lab.view.accesses import SECTOR, Step
from andrea_lab.view.curve import BLUE, GREEN, INK, ORANGE, PURPLE, RED, SKY

LANES = 32
PAPER, LINE, BORDER, FETCHED, DARK = (255, 255, 255), (226, 226, 226), (150, 150, 150), (198, 198, 198), (34, 34, 34)
HUES = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, "#999933", "#882255")
SMALL, LARGE = 4, 14  # pixels of a cell from which on it gets lines round it, and a number in it


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
        size = r1 * cols
        colour = np.full((size, 3), PAPER)
        lanes = np.zeros((size, len(colours) * LANES), bool)
        written = np.zeros(size, bool)
        if fetched:
            for step in panel:
                colour[self._sector_cells(step, size)] = FETCHED
        lowest = np.full(size, LANES)
        for step in reversed(panel):
            for lane, cell in sorted(zip(step.lanes, step.cells, strict=True), reverse=True):
                if cell < size:  # the lowest lane is painted last, so it is the one that is seen
                    colour[cell], lowest[cell] = colours[step.owner][lane], lane
                    lanes[cell, step.owner * LANES + lane] = True
                    written[cell] |= step.what != "read"
        cut = [a.reshape(r1, cols, *a.shape[1:])[r0:r1, c0:c1] for a in (colour, lanes.sum(1), written, lowest)]
        self.colour, self.owners, self.written, self.lowest = cut

    def _sector_cells(self, step, size):
        if step.space != "global":
            return []
        per = max(1, SECTOR // self.itemsize)
        cells = (step.sectors(self.itemsize)[:, None] * per + np.arange(per)).ravel()
        return cells[cells < size]

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
