"""The first row of a picture: what its colours and marks mean."""

import numpy as np

from andrea_lab.view.cells import FETCHED, PAPER, pixels
from andrea_lab.view.curve import INK
from andrea_lab.view.style import width_of

TOP, ROW, SPACE = 7, 18, 16  # pixels above, of a row, between entries
SIZE = 8.5
NAMED = 4  # so many traces are named one by one
MARKS = {  # colour, frame, dot
    "fetched": (FETCHED, False, False),
    "several": (PAPER, False, True),
    "written": (PAPER, True, False),
}


class Legend:
    """Entries [(image or None, pixels wide, words)] laid out in rows of `width` pixels; `height` is what they take."""

    def __init__(self, entries, width: int):
        self.rows, x = [[]], 0
        for image, wide, words in entries:
            length = (wide + 6 if wide else 0) + width_of(words, SIZE) + (SPACE if words.strip() else 0)
            if x and x + length > width:
                self.rows.append([])
                x = 0
            self.rows[-1].append((x, image, wide, words))
            x += length
        self.height = TOP + ROW * len(self.rows) + 6

    def draw(self, sheet, left: float) -> None:
        for n, row in enumerate(self.rows):
            y = TOP + n * ROW
            for x, image, wide, words in row:
                if image is not None:
                    axes = sheet.axes(left + x, y + 1, wide, 12)
                    axes.imshow(image, aspect="auto", interpolation="nearest")
                    axes.axis("off")
                sheet.text(left + x + (wide + 6 if wide else 0), y, words, fontsize=SIZE, color=INK)


def lanes_and_marks(colours, names, marks: dict) -> list:
    """The entries of a thread map: a ramp of colours for each trace, then the marks {mark: words}."""
    images = [ramp[None].astype(np.uint8) for ramp in colours]
    if len(images) == 1:
        entries = [(None, 0, "colour: lane 0"), (images[0], 128, "lane 31 of the warp")]
    elif len(images) <= NAMED:
        entries = [(None, 0, "colour: lane 0 (light) to 31 of")]
        entries += [(image, 56, name) for image, name in zip(images, names, strict=True)]
    else:
        entries = [(None, 0, "colour: lane 0 (light) to 31 of")]
        entries += [(image, 26, "") for image in images]
        entries += [(None, 0, f"{names[0]} to {names[-1]}")]
    for mark, words in marks.items():
        colour, frame, dot = MARKS[mark]
        entries.append((pixels(np.array([[colour]]), 12, 12, [], np.array([[frame]]), np.array([[dot]])), 12, words))
    return entries


def swatches(kinds) -> list:
    """Entries of plain colours: [(colour as three numbers, pixels wide, words)]."""
    return [(np.full((1, 1, 3), colour, np.uint8), wide, words) for colour, wide, words in kinds]
