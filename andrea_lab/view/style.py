"""One style for every still picture: colours, a fixed size in pixels, and a sentence for those who cannot see it."""

import io
from pathlib import Path

import matplotlib
from cycler import cycler
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from PIL import Image

from andrea_lab.checkpoint.files import replace_with
from andrea_lab.view.palette import BLUE, GREEN, GRID, INK, ORANGE, PURPLE, RED, SKY

DPI = 100
COLOURS = 64  # enough for a colour map and smooth letters, at a third of the bytes
STYLE = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=[BLUE, ORANGE, GREEN, RED, PURPLE, SKY]),
    "grid.color": GRID,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.color": INK,
    "ytick.color": INK,
}


def figure(rows: int = 1, cols: int = 1, *, width: float = 7.6, height: float = 2.6, **subplots):
    """A figure of width x height inches at DPI, and its axes: one, or an array as matplotlib's `subplots` gives it."""
    with matplotlib.rc_context(STYLE):
        made = Figure(figsize=(width, height), dpi=DPI, facecolor="white", layout="constrained")
        FigureCanvasAgg(made)
        return made, made.subplots(rows, cols, **subplots)


class Sheet:
    """A figure of width x height pixels on which images and words are placed by pixel, counted from the upper left."""

    def __init__(self, width: int, height: int):
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
        FigureCanvasAgg(self.figure)

    def image(self, left: int, top: int, pixels) -> None:
        """Pixels (height, width, 3), 0 to 255, with this upper left corner."""
        self.figure.figimage(pixels, left, self.height - top - len(pixels), origin="upper")

    def text(self, left: float, top: float, words: str, **how):
        """Words that begin at this pixel, top aligned unless told otherwise."""
        how = {"fontsize": 8.5, "color": INK, "va": "top"} | how
        return self.figure.text(left / self.width, 1 - top / self.height, words, **how)


def width_of(words: str, size: float, **font) -> float:
    """Pixels that words of this size in points take; `font` as FontProperties takes it, such as weight="bold"."""
    wide, _, _ = text_to_path.get_text_width_height_descent(words, FontProperties(size=size, **font), ismath=False)
    return wide * DPI / 72


class Picture:
    """A drawn figure as a notebook shows it: PNG bytes, and `words` in place of the picture.

    regions: [(x0, y0, x1, y1, words)] in pixels from the upper left; where a notebook has widgets, pointing at one of
    them, or walking through them with the arrow keys, says its words.
    """

    def __init__(self, png: bytes, words: str, regions=()):
        self.png, self.words, self.regions = png, words, tuple(regions)

    def save(self, path: Path) -> None:
        """Write the PNG to a file, whole or not at all. Raises OSError."""
        replace_with(path, lambda write: write(memoryview(self.png)), size=len(self.png))

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        if not self.regions:
            return {}
        from andrea_lab.view.hover import shown

        return shown(self)

    def _repr_png_(self) -> bytes:
        return self.png

    def __repr__(self) -> str:
        return f"[{self.words}]"


def picture(drawn: Figure, words: str, colours: int = COLOURS) -> Picture:
    """Draw a figure. `words` say in a sentence what it shows; `colours` is the size of the PNG's palette."""
    for axes in drawn.axes:
        for image in axes.images:
            image.set_interpolation("nearest")  # a cell is a number; blurred cells are neither true nor small
        axes.set_title(axes.get_title(), loc="left", fontsize=9.5)
        axes.set_title("", loc="center")
        axes.tick_params(labelsize=8)  # a colour bar's axes were made by the caller, outside the style
    drawn.canvas.draw()
    return Picture(encode(drawn.canvas, colours), words)


def encode(canvas: FigureCanvasAgg, colours: int) -> bytes:
    """The pixels of a drawn canvas as PNG; a palette gives a third of the bytes of full colour for half the work.

    The colour of the corner, taken for the background, stays as it is; the others come near.
    """
    width, height = canvas.get_width_height()
    image = Image.frombuffer("RGBA", (width, height), canvas.buffer_rgba(), "raw", "RGBA", 0, 1).convert("RGB")
    small = image.quantize(colours, method=Image.Quantize.FASTOCTREE)
    palette, corner = small.getpalette(), small.getpixel((0, 0))
    palette[3 * corner : 3 * corner + 3] = image.getpixel((0, 0))
    small.putpalette(palette)
    out = io.BytesIO()
    small.save(out, "PNG", optimize=True)
    return out.getvalue()
