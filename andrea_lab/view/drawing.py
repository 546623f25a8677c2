"""A drawing by pixels, counted from the upper left, whose parts can be pointed at."""

from matplotlib.patches import FancyArrowPatch, Polygon, Rectangle

from andrea_lab.view.palette import INK
from andrea_lab.view.style import COLOURS, Picture, Sheet, picture


class Drawing(Sheet):
    """A sheet with shapes on it besides words, and with regions that say more when they are pointed at."""

    def __init__(self, width: int, height: int):
        super().__init__(width, height)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, width), ylim=(height, 0))
        self.axes.set_axis_off()
        self.regions: list[tuple[float, float, float, float, str]] = []

    def box(self, x0: float, y0: float, x1: float, y1: float, fill: str, *, says: str | None = None, **how) -> None:
        """A filled rectangle; `says` makes it a region. `how` is matplotlib's, by default there is no edge."""
        how = {"lw": 0, "zorder": 2} | how
        self.axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, facecolor=fill, **how))
        if says is not None:
            self.region(x0, y0, x1, y1, says)

    def shape(self, points, fill: str, **how) -> None:
        """A filled polygon through these points."""
        self.axes.add_patch(Polygon(points, closed=True, facecolor=fill, **({"lw": 0, "zorder": 1} | how)))

    def line(self, xs, ys, colour: str = INK, width: float = 1.0, **how) -> None:
        self.axes.plot(xs, ys, color=colour, lw=width, **({"zorder": 1.5, "solid_capstyle": "butt"} | how))

    def arrow(self, start, end, colour: str = INK, width: float = 1.0, **how) -> None:
        """From one point to another, with a small head."""
        how = {"arrowstyle": "-|>,head_length=3,head_width=1.7", "shrinkA": 0, "shrinkB": 0, "zorder": 3} | how
        self.axes.add_patch(FancyArrowPatch(start, end, color=colour, lw=width, **how))

    def region(self, x0: float, y0: float, x1: float, y1: float, says: str) -> None:
        """What a reader is told who points at this rectangle; where two overlap, the one named later."""
        self.regions.append((x0, y0, x1, y1, says))

    def picture(self, words: str, colours: int = COLOURS) -> Picture:
        """The drawing as it stands. `words` say in a sentence what it shows."""
        drawn = picture(self.figure, words, colours)
        return Picture(drawn.png, drawn.words, self.regions)


def megabytes(nbytes: float) -> str:
    """A number of bytes with a unit of powers of ten and three digits: 512 B, 8.19 kB, 25.2 MB, 1.18 GB."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if nbytes < 999.5 or unit == "TB":
            break
        nbytes /= 1000
    return f"{nbytes:.0f} {unit}" if unit == "B" or nbytes >= 99.95 else f"{nbytes:.3g} {unit}"
