"""weight_file: the bytes of a weight file as a strip: header, w, m, v, the tensors inside, and what some bytes are."""

from math import prod

from andrea_lab.checkpoint.place import REGIONS, place, start
from andrea_lab.checkpoint.single import HEADER, nbytes
from andrea_lab.view.drawing import Drawing, megabytes
from andrea_lab.view.palette import FAINT, INK, RED
from andrea_lab.view.style import Picture, width_of

WIDTH, LEFT, RIGHT = 916, 12, 904  # pixels
FILE, INSIDE, LAYER, HIGH = 50, 138, 228, 34  # from the top: a row each, and how high it is
BELOW, WORDS = 30, 46  # pixels under the last row, and of the words on the bytes in question
NOTCH, LEAST = 16, 14  # pixels of the header, and of a tensor of the layer's row, however small they are
QUIET, PAPER = "#555555", "#eeeeee"
WHAT = {"w": "w, the weights", "m": "m, AdamW's first moment", "v": "v, its second moment"}
KINDS = {  # by the end of a tensor's name
    "embedding": ("#a9cfe6", ("wte", "wpe")),
    "norm": ("#b9c4cc", ("gamma", "beta")),
    "attention": ("#f0c674", ("W_Q", "W_K", "W_V", "W_O")),
    "MLP": ("#8fd0b8", ("W_1", "W_2")),
    "output head": ("#d9b3ce", ("lm_head",)),
}
SHORT = {"gamma": "γ", "beta": "β"}


def weight_file(tensors, step: int, marked=None, words: str | None = None) -> Picture:
    """The weight file of a model: to scale but for the header and the norms, which would be too thin to see.

    tensors: the layout, in order. marked: a byte of the file, or a range (first, end) of them, whose region and tensors
    are shown and named; without it, what is inside w and its first layer. words: in place of the picture; by default
    they say what is in it.

    Raises CheckpointError (a ValueError) in one line for a byte that is not in the file, ValueError for an empty range.
    """
    tensors = tuple(tensors)
    n = sum(prod(tensor.shape) for tensor in tensors)
    ends = None
    if marked is not None:
        first, end = (marked, marked + 1) if isinstance(marked, int) else marked
        if end <= first:
            raise ValueError(f"weight_file: found bytes {first} to {end}, expected a first and an end behind it")
        ends = place(first, tensors, n), place(end - 1, tensors, n)
    return _Strip(tensors, n, step, ends).drawn(words)


class _Strip:
    """Where everything goes. ends: the places of the first and the last byte that are marked, or None."""

    def __init__(self, tensors, n, step, ends):
        self.tensors, self.n, self.step, self.ends = tensors, n, step, ends
        here = ends[0] if ends else None
        self.region = here.region if here and here.region in REGIONS else "w"
        layers = list(dict.fromkeys(t.name.split(".")[0] for t in tensors if t.name.startswith("layer")))
        own = here.tensor.split(".")[0] if here else ""
        self.layer = own if own in layers else next(iter(layers), None)
        self.layers = layers
        last = LAYER if self.layer else INSIDE if len(tensors) > 1 else FILE
        self.sheet = Drawing(WIDTH, last + HIGH + BELOW + (WORDS if ends else 0))

    def drawn(self, words) -> Picture:
        self._legend()
        self._file()
        if len(self.tensors) > 1:
            self._inside()
        if self.layer:
            self._one_layer()
        if self.ends:
            self._formula()
        return self.sheet.picture(words or self.said(), 48)

    def said(self) -> str:
        size = nbytes(self.n)
        text = (
            f"Weight file of step {self.step:,}: 8 + 12 x {self.n:,} = {size:,} bytes; header, w, m and v, "
            f"each {f'cut into {len(self.tensors)} tensors' if len(self.tensors) > 1 else 'in one piece'}"
        )
        return f"{text}; {self._marked()}." if self.ends else f"{text}."

    def _marked(self) -> str:
        """The bytes in question in words."""
        first, last = self.ends
        if first == last:
            return str(first)
        if first.region != "header" and (first.region, first.tensor) == (last.region, last.tensor):
            numbers = f"numbers {first.element:,} to {last.element:,} of {prod(self._tensor().shape):,}"
            return f"bytes {first.byte:,} to {last.byte:,}: {first.region}, {first.tensor}, {numbers}"
        return f"from {first}, to {last}"

    def _tensor(self):
        """The tensor in which the bytes in question begin."""
        return next(tensor for tensor in self.tensors if tensor.name == self.ends[0].tensor)

    def _legend(self):
        there = [kind for kind, (_, names) in KINDS.items() if any(_short(t.name) in names for t in self.tensors)]
        entries = [(INK, INK, "header: step and n")] + [(KINDS[kind][0], "none", kind) for kind in there]
        x = LEFT
        for fill, edge, kind in entries + [("white", RED, "the bytes in question")] * bool(self.ends):
            self.sheet.box(x, 10, x + 14, 22, fill, edgecolor=edge, lw=2 * (edge == RED))
            self.sheet.text(x + 20, 16, kind, va="center")
            x += 20 + width_of(kind, 8.5) + 20

    def _file(self):
        """The whole file: a notch for the header, three regions with the same tensors."""
        sheet, wide = self.sheet, (RIGHT - LEFT - NOTCH) / 3
        says = f"header: bytes 0 to 7; step {self.step:,} and n {self.n:,}, an int32 each"
        sheet.box(LEFT, FILE, LEFT + NOTCH, FILE + HIGH, INK, says=says)
        self._number(LEFT, FILE + HIGH + 4, 0, "left")
        for k, region in enumerate(REGIONS):
            x0, x1 = LEFT + NOTCH + k * wide, LEFT + NOTCH + (k + 1) * wide
            self._cut(self.tensors, x0, x1, FILE, region, says=False)
            at, end = start(self.n, region, 0), start(self.n, region, self.n)
            size = megabytes(end - at)
            sheet.region(x0, FILE, x1, FILE + HIGH, f"{WHAT[region]}: bytes {at:,} to {end - 1:,}, {size}")
            sheet.text(x0 + 4, FILE - 5, f"{WHAT[region]}, {size}", va="bottom")
            sheet.line((x0, x0), (FILE - 4, FILE + HIGH + 4), INK, 1.2, zorder=4)
            self._number(x0 + 14 * (k == 0), FILE + HIGH + 4, at, "left")
            if region == self.region and len(self.tensors) > 1:
                self._zoom((x0, x1), FILE, INSIDE)
        self._number(RIGHT, FILE + HIGH + 4, nbytes(self.n), "right")
        if self.ends:
            scale = wide / (4 * self.n)
            x0, x1 = (self._in_file(byte, scale) for byte in (self.ends[0].byte, self.ends[1].byte + 1))
            self._mark(x0, x1, FILE)

    def _in_file(self, byte, scale) -> float:
        inside = min(byte, HEADER.size) / HEADER.size * NOTCH
        return LEFT + inside + max(0, byte - HEADER.size) * scale

    def _number(self, x, y, byte, side):
        self.sheet.text(x, y, f"{byte:,}", fontsize=7.5, ha=side, color=QUIET)

    def _cut(self, tensors, x0, x1, top, region, says=True, least=0.0):
        """Tensors side by side from x0 to x1, each at least so many pixels wide; returns [(tensor, left, right)]."""
        sizes = [prod(tensor.shape) for tensor in tensors]
        small = [size * (x1 - x0) < least * sum(sizes) for size in sizes]
        room = x1 - x0 - least * sum(small)
        whole = sum(size for size, thin in zip(sizes, small, strict=True) if not thin)
        placed, x = [], x0
        for tensor, size, thin in zip(tensors, sizes, small, strict=True):
            right = x + (least if thin else size / whole * room)
            words = self._about(tensor, region) if says else None
            self.sheet.box(x, top, right, top + HIGH, _colour(tensor.name), says=words)
            if right - x >= 3:
                self.sheet.line((right, right), (top, top + HIGH), "white", 0.8, zorder=2.5)
            placed.append((tensor, x, right))
            x = right
        return placed

    def _about(self, tensor, region) -> str:
        size, at = prod(tensor.shape), start(self.n, region, tensor.offset)
        stop = tensor.offset + size
        return (
            f"{region} {tensor.name} {tensor.shape}: numbers {tensor.offset:,} to {stop - 1:,} of {region}, "
            f"bytes {at:,} to {at + 4 * size - 1:,}"
        )

    def _inside(self):
        """The tensors of one region, the layers below them."""
        sheet, others = self.sheet, " and ".join(r for r in REGIONS if r != self.region)
        sheet.text(LEFT, INSIDE - 5, f"inside {self.region}; {others} are cut alike", va="bottom", fontweight="bold")
        placed = self._cut(self.tensors, LEFT, RIGHT, INSIDE, self.region)
        for tensor, x0, x1 in placed:
            if not tensor.name.startswith("layer") and width_of(tensor.name, 8) < x1 - x0 - 4:
                sheet.text((x0 + x1) / 2, INSIDE + HIGH / 2, tensor.name, fontsize=8, ha="center", va="center")
        for layer in self.layers:
            own = [(x0, x1) for tensor, x0, x1 in placed if tensor.name.startswith(f"{layer}.")]
            x0, x1 = own[0][0], own[-1][1]
            sheet.line((x0 + 1, x1 - 1), (INSIDE + HIGH + 4,) * 2, INK if layer == self.layer else FAINT, 1.4)
            name = next((name for name in (layer, layer.removeprefix("layer")) if width_of(name, 8) + 8 < x1 - x0), "")
            sheet.text((x0 + x1) / 2, INSIDE + HIGH + 8, name, fontsize=8, ha="center", color=QUIET)
            if layer == self.layer:
                self._zoom((x0, x1), INSIDE, LAYER)
        self._mark_in(placed, INSIDE)

    def _one_layer(self):
        """The tensors of one layer, each with its name."""
        sheet = self.sheet
        own = [tensor for tensor in self.tensors if tensor.name.startswith(f"{self.layer}.")]
        sheet.text(LEFT, LAYER - 5, f"inside {self.layer}", va="bottom", fontweight="bold")
        placed = self._cut(own, LEFT, RIGHT, LAYER, self.region, least=LEAST)
        for tensor, x0, x1 in placed:
            name = _short(tensor.name)
            sheet.text((x0 + x1) / 2, LAYER + HIGH / 2, SHORT.get(name, name), fontsize=8.5, ha="center", va="center")
            if x1 - x0 > 2 * LEAST:
                sheet.text((x0 + x1) / 2, LAYER + HIGH + 4, str(tensor.shape), fontsize=7.5, ha="center", color=QUIET)
        self._mark_in(placed, LAYER)

    def _zoom(self, above, top, below):
        """From a part of one row to the whole of the next."""
        (x0, x1), low = above, top + HIGH
        self.sheet.shape([(x0, low), (x1, low), (RIGHT, below), (LEFT, below)], PAPER, zorder=0.5)

    def _mark_in(self, placed, top):
        """The marked bytes in a row of tensors, as far as they lie in it."""
        if not self.ends:
            return
        first, last = (end.byte for end in self.ends)
        spans = []
        for tensor, x0, x1 in placed:
            at, size = start(self.n, self.region, tensor.offset), 4 * prod(tensor.shape)
            low, high = max(first, at), min(last + 1, at + size)
            if low < high:
                spans += [x0 + (low - at) / size * (x1 - x0), x0 + (high - at) / size * (x1 - x0)]
        if spans:
            self._mark(spans[0], spans[-1], top)

    def _mark(self, x0, x1, top):
        spare = max(0, 4 - (x1 - x0)) / 2
        how = {"edgecolor": RED, "lw": 2, "zorder": 5}
        self.sheet.box(x0 - spare, top - 2, x1 + spare, top + HIGH + 2, "none", **how)

    def _formula(self):
        """What the bytes in question are, and how their place is counted."""
        top, words, (first, _) = self.sheet.height - WORDS, self._marked(), self.ends
        self.sheet.text(LEFT, top, words[0].upper() + words[1:], fontsize=9)
        if first.region in REGIONS:
            before, offset = REGIONS.index(first.region), self._tensor().offset
            counted = f"8 + 4 x ({before} x {self.n:,} + {offset:,} + {first.element:,}) = {first.first:,}"
            self.sheet.text(LEFT, top + 19, counted, fontsize=9)
            where = "header; regions before, tensors before, numbers before"
            self.sheet.text(LEFT + width_of(counted, 9) + 18, top + 20, where, fontsize=8, color=QUIET)


def _short(name) -> str:
    return name.split(".")[-1]


def _colour(name) -> str:
    return next((colour for colour, names in KINDS.values() if _short(name) in names), "#cccccc")
