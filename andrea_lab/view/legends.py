"""The first row of a picture: what its colours and marks mean."""

import numpy as np

from andrea_lab.view.cells import FETCHED, LANES, PAPER, pixels
from andrea_lab.view.palette import INK
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
    """Entries [(image or None, words)] laid out in rows of `width` pixels; `height` is what they take."""

    def __init__(self, entries, width: int):
        self.rows, x = [[]], 0
        for image, words in entries:
            before = 0 if image is None else image.shape[1] + 6
            length = before + width_of(words, SIZE) + (SPACE if words.strip() else 0)
            if x and x + length > width:
                self.rows.append([])
                x = 0
            self.rows[-1].append((x, before, image, words))
            x += length
        self.height = TOP + ROW * len(self.rows) + 6

    def draw(self, sheet, left: float) -> None:
        for n, row in enumerate(self.rows):
            y = TOP + n * ROW
            for x, before, image, words in row:
                if image is not None:
                    sheet.image(round(left + x), y + 1, image)
                sheet.text(left + x + before, y, words, fontsize=SIZE, color=INK)


def lanes_and_marks(colours, names, marks: dict) -> list:
    """The entries of a thread map: a ramp of colours for each trace, then the marks {mark: words}."""
    last = len(colours[0]) - 1
    if len(colours) == 1:
        entries = [(None, "colour: lane 0"), (_ramp(colours[0], 4), f"lane {last} of the warp")]
    elif len(colours) <= NAMED:
        entries = [(None, f"colour: lane 0 (light) to {last} of")]
        entries += [(_ramp(ramp, 2), name) for ramp, name in zip(colours, names, strict=True)]
    else:
        entries = [(None, f"colour: lane 0 (light) to {last} of")]
        entries += [(_ramp(ramp, 1), "") for ramp in colours]
        entries += [(None, f"{names[0]} to {names[-1]}")]
    for mark, words in marks.items():
        colour, frame, dot = MARKS[mark]
        entries.append((pixels(np.array([[colour]]), 12, 12, [], np.array([[frame]]), np.array([[dot]])), words))
    return entries


def _ramp(colours, wide: int) -> np.ndarray:
    """The colours of the lanes side by side, `wide` pixels each if there are 32."""
    wide = wide * LANES // len(colours)
    return np.repeat(np.repeat(colours[None], 12, 0), wide, 1).astype(np.uint8)


def swatches(kinds) -> list:
    """Entries of plain colours: [(colour as three numbers, pixels wide, words)]."""
    return [(np.full((12, wide, 3), colour, np.uint8), words) for colour, wide, words in kinds]
