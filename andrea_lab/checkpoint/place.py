"""What a byte of a weight file belongs to: [int32 step][int32 n][w][m][v], each region cut into the same tensors."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from andrea_lab.checkpoint.single import HEADER, CheckpointError, nbytes

REGIONS = ("w", "m", "v")
FIELDS = ("step", "n")  # the two int32 of the header


@dataclass(frozen=True)
class Cut:
    """One tensor of a region, or all of it where no configuration says how it is cut; `offset` counts numbers."""

    name: str
    offset: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """One byte. `region`: header, w, m or v; `tensor`: its name (in the header the field, step or n).

    element: which number of the tensor, row by row; index: the same along each axis; offset: bytes from the beginning
    of the tensor; first: the byte of the file at which its number begins.
    """

    byte: int
    region: str
    tensor: str
    element: int
    index: tuple[int, ...]
    offset: int
    first: int

    def __str__(self) -> str:
        own = self.byte - self.first
        if self.region == "header":
            return f"byte {self.byte:,}: header, byte {own} of {self.tensor}, an int32"
        at = f" = [{', '.join(map(str, self.index))}]" if len(self.index) > 1 else ""
        return f"byte {self.byte:,}: {self.region}, {self.tensor}, number {self.element:,}{at}, byte {own} of its 4"


def start(n: int, region: str, offset: int) -> int:
    """The byte at which number `offset` of a region of n begins: 8 + 4 (0, 1 or 2 times n + offset)."""
    return HEADER.size + 4 * (REGIONS.index(region) * n + offset)


def place(byte: int, tensors: Iterable[Any], n: int) -> Place:
    """What a byte of the file of n parameters belongs to. tensors: a layout, or cuts, without gaps from 0 to n.

    Raises CheckpointError in one line for a byte that is not in the file.
    """
    if not 0 <= byte < nbytes(n):
        raise CheckpointError(f"byte: found {byte}, expected 0 to {nbytes(n) - 1}, the last of 8 + 12 x {n} bytes")
    if byte < HEADER.size:
        return Place(byte, "header", FIELDS[byte // 4], 0, (), byte % 4, byte // 4 * 4)
    number = (byte - HEADER.size) // 4
    region, at = REGIONS[number // n], number % n
    tensor = next(t for t in reversed(tuple(tensors)) if t.offset <= at)
    element, index = at - tensor.offset, []
    rest = element
    for side in reversed(tensor.shape):
        rest, along = divmod(rest, side)
        index.insert(0, along)
    first = start(n, region, at)
    return Place(byte, region, tensor.name, element, tuple(index), 4 * element + byte - first, first)
