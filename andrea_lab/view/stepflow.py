"""step_flow: one step from left to right and back, and what forward keeps for which backward.

The order, the arrays and who is given which come from the graph (`andrea_lab.model.flow`), the sizes from the memory
plan; nothing about a model is written here but where things go on the paper.
"""

from dataclasses import dataclass, field

from andrea_lab.view.drawing import Drawing, megabytes
from andrea_lab.view.palette import BLUE, FAINT, INK, ORANGE
from andrea_lab.view.style import Picture, width_of

COLUMN, LEFT, RIGHT = 68, 80, 24  # pixels; the names of the rows stand on the left
STREAM, FORWARD, KEPT, TALLEST, BACKWARD, GRADIENT, HEIGHT = 52, 70, 124, 112, 296, 352, 374  # from the top
HIGH, SPACE, BAR = 38, 9, 17  # pixels of a box, between two, and across a bar
FRESH, BACK, BROWN, QUIET = "#cfe3f1", "#f3d9c1", "#b35c14", "#555555"
LEGEND = {
    BLUE: "kept for its own backward twin",
    ORANGE: "kept for the twin of the part that reads it next",
    FAINT: "comes with the batch",
}
PALETTE = 32
NO_PAIR = ("zero", "sum")
SHORT = {"gamma": "γ", "beta": "β"}


@dataclass
class Column:
    """One pair of forward and backward; or, without either, `layers` that are not drawn."""

    forward: object = None
    backward: object = None
    left: float = 0.0
    right: float = 0.0
    kept: list[str] = field(default_factory=list)
    layers: list[int] = field(default_factory=list)

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2


class Kept:
    """Who writes each array that backward reads, and who reads it: the first part given it in forward, and the parts
    given it in backward. `writer` is None for what comes from outside."""

    def __init__(self, parts, roles):
        forward = [part for part in parts if not part.backward and part.name not in NO_PAIR]
        self.readers, self.writer = {}, {}
        for part in (p for p in parts if p.backward and p.name not in NO_PAIR):
            for name in dict.fromkeys(part.arrays):
                users = [p for p in forward if name in p.arrays]
                if users:
                    self.writer[name] = None if roles[name] == "inputs" else users[0]
                    self.readers.setdefault(name, []).append(part)

    def by(self, part) -> list[str]:
        """What a part of forward leaves for backward."""
        return [name for name, writer in self.writer.items() if writer is part]


def step_flow(parts, regions, words: str | None = None, *, layer: int = 0) -> Picture:
    """One step over a microbatch, one layer in detail.

    parts: the step in order, as `andrea_lab.model.flow.flow` gives it; regions: those of the memory plan, for names,
    shapes and sizes. The height of a bar is the size of what is kept. layer: the one that is drawn. words: in place of
    the picture; by default they say what was counted.

    Raises ValueError in one line for a layer that is not there.
    """
    layers = sorted({part.layer for part in parts if part.layer is not None})
    if layer not in layers:
        raise ValueError(f"step_flow: layer is {layer}, expected one of {layers[0]} to {layers[-1]}")
    regions = {region.name: region for region in regions}
    kept = Kept(parts, {name: region.role for name, region in regions.items()})
    return _Flow(parts, regions, kept, layer).drawn(words)


class _Flow:
    """Where everything goes."""

    def __init__(self, parts, regions, kept, layer):
        self.parts, self.regions, self.kept, self.layer = parts, regions, kept, layer
        self.columns = self._columns()
        self.sheet = Drawing(LEFT + COLUMN * len(self.columns) + RIGHT, HEIGHT)
        for n, column in enumerate(self.columns):
            column.left, column.right = LEFT + n * COLUMN + SPACE / 2, LEFT + (n + 1) * COLUMN - SPACE / 2
        shown = [self.regions[name].nbytes for column in self.columns for name in column.kept]
        self.scale = TALLEST / max(shown, default=1)

    def _columns(self) -> list[Column]:
        """A column for each forward part, with its backward part; the other layers share one."""
        backward = [part for part in self.parts if part.backward and part.name not in NO_PAIR]
        columns = []
        for part in self.parts:
            if part.backward or part.name in NO_PAIR:
                continue
            if part.layer not in (None, self.layer):
                if columns[-1].forward is not None:
                    columns.append(Column())
                columns[-1].layers += [part.layer] * (part.layer not in columns[-1].layers)
                continue
            twin = next((b for b in backward if self._twins(part, b)), None)
            inputs = [name for name in part.arrays if self.kept.writer.get(name, part) is None]
            columns.append(Column(part, twin, kept=inputs + self.kept.by(part)))
        for column in columns:  # what crosses from the layers not drawn into the one that is
            for name in self._given(column):
                if not any(name in other.kept for other in columns):
                    columns[columns.index(column) - 1].kept.append(name)
        return columns

    @staticmethod
    def _twins(forward, backward) -> bool:
        same = (forward.name, forward.layer) == (backward.name, backward.layer)
        return same and (set(forward.tensors) & {*backward.tensors, *backward.gradients} or not forward.tensors)

    def drawn(self, words) -> Picture:
        self._rows()
        self._streams()
        for column in self.columns:
            self._forward(column)
            self._backward(column)
        for before, after in zip(self.columns, self.columns[1:], strict=False):
            self._between(before, after)
        end = 0.0
        for column in self.columns:
            end = self._bars(column, end)
        self._others()
        return self.sheet.picture(words or self.said(), PALETTE)

    def said(self) -> str:
        forward, backward = (
            [p for p in self.parts if p.backward == b and p.name not in NO_PAIR] for b in (False, True)
        )
        total = sum(self.regions[name].nbytes for name in self.kept.readers)
        own = sum(self._own(name) for name in self.kept.readers)
        return (
            f"One step: {len(forward)} parts forward, {len(backward)} backward, {len(self.kept.readers)} arrays of "
            f"{megabytes(total)} kept in between, {own} for the twin of the part that wrote them, "
            f"{len(self.kept.readers) - own} for that of a part which read them next."
        )

    def _own(self, name) -> bool:
        """Whether an array is kept by a part for its own twin, be it among others."""
        writer = self.kept.writer[name]
        return writer is None or any(self._twins(writer, reader) for reader in self.kept.readers[name])

    def _rows(self):
        """The names of the rows, and the legend."""
        sheet = self.sheet
        for words, y in {"forward": FORWARD + HIGH / 2, "kept": KEPT + 8, "backward": BACKWARD + HIGH / 2}.items():
            sheet.text(8, y, words, fontsize=9, fontweight="bold", va="center")
        tallest = max((n for column in self.columns for n in column.kept), key=lambda n: self.regions[n].nbytes)
        size = megabytes(self.regions[tallest].nbytes)
        sheet.text(8, KEPT + 20, f"height: bytes\n{_short(tallest)}: {size}", fontsize=7.5, color=QUIET)
        x = LEFT + 4
        for colour, words in LEGEND.items():
            sheet.line((x, x + 20), (17, 17), colour, 2.5)
            sheet.text(x + 26, 17, words, fontsize=8.5, va="center")
            x += 26 + width_of(words, 8.5) + 22

    def _streams(self):
        """The residual stream on its way, and its gradient on the way back."""
        there = [c.middle for c in self.columns if c.forward and any(map(_in_stream, c.forward.arrays))]
        back = [c.middle for c in self.columns if c.backward and "dx" in c.backward.arrays]
        for y, name, start, end in ((STREAM, "x", there[0], there[-1]), (GRADIENT, "dx", back[-1], back[0])):
            self.sheet.arrow((start, y), (end, y), FAINT, 2.2)
            self.sheet.text(8, y, name, fontsize=9, fontweight="bold", va="center", color=QUIET)

    def _forward(self, column):
        part, sheet = column.forward, self.sheet
        if part is None:
            return
        says = f"{_called(part)}, forward: is given {_list(part.arrays)}{_weights(part)}"
        self._box(column, FORWARD, FRESH, BLUE, part.name, part.tensors, says)
        stream = [name for name in part.arrays if _in_stream(name)]
        if stream and part.arrays[-1] in stream:  # writes a new state of the stream
            sheet.arrow((column.middle, FORWARD), (column.middle, STREAM + 1), FAINT, 1.6)
        elif stream:
            sheet.arrow((column.middle, STREAM), (column.middle, FORWARD), FAINT, 1.6)

    def _backward(self, column):
        part, sheet = column.backward, self.sheet
        if column.forward is None:
            return
        if part is None:
            says = f"{_called(column.forward)}, backward: no launch; a sum hands its gradient to both sides as it is"
            dashed = {"edgecolor": FAINT, "lw": 0.8, "ls": (0, (3, 2)), "says": says}
            sheet.box(column.left, BACKWARD, column.right, BACKWARD + HIGH, "white", **dashed)
            sheet.text(
                column.middle, BACKWARD + HIGH / 2, "no launch", fontsize=7.5, ha="center", va="center", color=QUIET
            )
            return
        adds = f", adds to the gradients of {_list(part.gradients)}" if part.gradients else ""
        says = f"{_called(part)}, backward: is given {_list(part.arrays)}{adds}"
        self._box(column, BACKWARD, BACK, BROWN, part.name, part.gradients, says)
        if "dx" in part.arrays:
            low, high = (column.middle, GRADIENT - 1), (column.middle, BACKWARD + HIGH)
            gradients = [n for n in part.arrays if self.regions[n].role == "activation gradients"]
            adds = gradients[-1] == "dx" and len(gradients) > 1  # given last, it is what the part adds to
            sheet.arrow(*((high, low) if adds else (low, high)), FAINT, 1.6)

    def _box(self, column, top, fill, edge, name, tensors, says):
        sheet = self.sheet
        sheet.box(column.left, top, column.right, top + HIGH, fill, edgecolor=edge, lw=0.9, says=says)
        names = " ".join(SHORT.get(_short(tensor), _short(tensor)) for tensor in tensors)
        if len(tensors) > 2:
            names = names.replace(" W_", ",")
        size = next((size for size in (8.5, 8) if width_of(name, size) <= column.right - column.left - 4), 7.5)
        middle = {"ha": "center", "va": "center"}
        sheet.text(column.middle, top + HIGH / 2 - (7 if names else 0), name, fontsize=size, **middle)
        sheet.text(column.middle, top + HIGH / 2 + 8, names, fontsize=7.5, color=QUIET, **middle)

    def _between(self, before, after):
        """Arrows between neighbours that hand each other something, there and back."""
        if before.forward and after.forward:
            first = after.forward.arrays[0]
            handed = first in before.forward.arrays and not _in_stream(first)
            if handed or "branch" in before.forward.arrays:
                y = FORWARD + HIGH / 2
                self.sheet.arrow((before.right, y), (after.left, y), INK, 1.0)
        if before.backward and after.backward and {*before.backward.arrays} & {*after.backward.arrays} - {"dx"}:
            y = BACKWARD + HIGH / 2
            self.sheet.arrow((after.left, y), (before.right, y), INK, 1.0)

    def _bars(self, column, left) -> float:
        """What a part keeps, right of `left`, and lines to where it goes; returns where its names end."""
        slots = [max(BAR + 2, width_of(_short(name), 7) + 3) for name in column.kept]
        x = max(left, column.middle - sum(slots) / 2)
        for name, slot in zip(column.kept, slots, strict=True):
            x += slot / 2
            region = self.regions[name]
            bottom = KEPT + max(2.0, region.nbytes * self.scale)
            own = any(reader is column.backward for reader in self.kept.readers[name])
            colour = FAINT if self.kept.writer[name] is None else BLUE if own else ORANGE
            for target in self._targets(name):
                self._line(name, target, (x, bottom), BLUE if target is column else ORANGE)
            says = f"{name} {region.shape}, {megabytes(region.nbytes)}: {self._story(name)}"
            self.sheet.box(x - BAR / 2, KEPT, x + BAR / 2, bottom, colour, says=says)
            self.sheet.text(x, KEPT - 3, _short(name), fontsize=7, ha="center", va="bottom")
            x += slot / 2
        return x

    def _targets(self, name) -> list[Column]:
        """The columns whose backward reads an array."""
        readers = self.kept.readers[name]
        return [c for c in self.columns if any(r is c.backward or r.layer in c.layers for r in readers)]

    def _line(self, name, target, start, colour):
        given = self._reads(target)
        share = (given.index(name) + 0.5) / len(given) if name in given else 0.5
        end = (target.left + share * (target.right - target.left), BACKWARD - 1)
        self.sheet.arrow(start, end, colour, 1.0, zorder=1.5)

    def _given(self, column) -> list[str]:
        """What the backward part of a column is given of what forward kept."""
        return [name for name in column.backward.arrays if name in self.kept.readers] if column.backward else []

    def _reads(self, column) -> list[str]:
        """The same from left to right as it was written."""
        given = self._given(column)
        return [name for other in self.columns for name in other.kept if name in given]

    def _others(self):
        """The layers that share a column."""
        for column in (c for c in self.columns if c.forward is None):
            first, last = column.layers[0], column.layers[-1]
            name = f"layer {first}" if first == last else f"layers {first} to {last}"
            parts = sum(part.layer == first and not part.backward for part in self.parts)
            nbytes = sum(self.regions[n].nbytes for n in self.kept.readers if n.startswith(f"layer{first}."))
            says = f"{name}: the same {parts} parts in each, and {megabytes(nbytes)} kept by each"
            for top, fill in ((FORWARD, FRESH), (BACKWARD, BACK)):
                self.sheet.box(column.left, top, column.right, top + HIGH, fill, says=says)
                words = name.replace(" ", "\n", 1)
                self.sheet.text(column.middle, top + HIGH / 2, words, fontsize=8, ha="center", va="center")
            over = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            words = f"{megabytes(nbytes)}\na layer"
            self.sheet.text(column.middle - 15, KEPT + 62, words, fontsize=7.5, ha="center", bbox=over)

    def _story(self, name) -> str:
        writer, readers = self.kept.writer[name], self.kept.readers[name]
        written = "comes with the batch" if writer is None else f"written by {_called(writer)}"
        return f"{written}, read by the backward of {' and of '.join(map(_called, readers))}"


def _in_stream(name) -> bool:
    """Whether an array is a state of the residual stream: after the embedding, between the halves of a layer, after."""
    return _short(name) in ("x", "mid")


def _short(name) -> str:
    return name.split(".")[-1]


def _called(part) -> str:
    return part.name if part.layer is None else f"{part.name} of layer {part.layer}"


def _list(names) -> str:
    return ", ".join(dict.fromkeys(names))


def _weights(part) -> str:
    return f" and the weights {_list(part.tensors)}" if part.tensors else ""
