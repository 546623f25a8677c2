"""Cases of tiled attention, k_flash_fwd and k_flash_bwd.

The registered kernels are made for heads of 32 columns and tiles of 32 rows. Two more forms have tiles of 8, so that
small sequences have several of them: heads of 4 columns, and heads of 9, which are more than a tile has threads and are
padded to 16. Sequences end inside a tile and with one; scores are large, or all far below zero. What is written to
shared memory is bounded: the padding once, a tile once for each time it is needed.
"""

from __future__ import annotations

import numpy as np

from andrea_lab.lesson.cases.attention import LOOSE, backward_data, forward_data
from andrea_lab.lesson.cases.case import TOLERANCE, Draw, Setup, recipe
from kernels.attention_flash import TILE
from kernels.registry import cdiv

SMALL = 8  # rows of a tile of the forms that are not the registered one
STRIPS = {4: 1, 9: 8}  # their head sizes -> running sums in registers
PLAIN = {"one": {"B": 1, "T": 1, "NH": 1, "HS": 9}, "odd": {"B": 2, "T": 5, "NH": 2, "HS": 4}}
STRONG = {
    "whole tiles": {"B": 1, "T": 16, "NH": 2, "HS": 4},
    "negative": {"B": 1, "T": 9, "NH": 1, "HS": 4, "kind": "negative"},
    "spike": {"B": 1, "T": 19, "NH": 1, "HS": 4, "kind": "spike"},
    "padded": {"B": 2, "T": 18, "NH": 2, "HS": 9},
    "heads of 32": {"B": 2, "T": 5, "NH": 2, "HS": 32},
    "tiles of 32": {"B": 1, "T": 34, "NH": 1, "HS": 32},
}


def form(HS: int) -> dict[str, int]:
    """The constants of the form for heads of HS columns; none for the registered one."""
    if HS not in STRIPS:
        return {}
    return {"HS": HS, "STRIP": STRIPS[HS], "HP": cdiv(HS, STRIPS[HS]) * STRIPS[HS], "TILE": SMALL}


def pairs_of_tiles(T: int) -> int:
    """How many small tiles of keys the tiles of queries of a sequence look at, all together."""
    return sum(i + 1 for i in range(cdiv(T, SMALL)))


@recipe("k_flash_fwd", PLAIN, STRONG)
def forward(draw: Draw, B: int, T: int, NH: int, HS: int, kind: str = "") -> Setup:
    arguments, expected = forward_data(draw, B, T, NH, HS, kind)
    made, traffic = form(HS), {}
    tile = made.get("TILE", TILE)
    if made:
        padding = cdiv(T, SMALL) * (made["HP"] - HS)
        traffic = {"shared writes": B * NH * 2 * SMALL * (padding + pairs_of_tiles(T) * HS)}
    scalars = {"T": T, "scale": np.float32(HS**-0.5)}
    return Setup((cdiv(T, tile), NH, B), tile, arguments | scalars, expected, form=made, traffic=traffic)


@recipe("k_flash_bwd", PLAIN, STRONG)
def backward(draw: Draw, B: int, T: int, NH: int, HS: int, kind: str = "") -> Setup:
    arguments, expected = backward_data(draw, B, T, NH, HS, kind)
    made, traffic = form(HS), {}
    if made:
        # Queries and their gradients once, keys and values for each pair of tiles, and p and ds twice for it.
        rows = made["HP"] - HS + cdiv(T, SMALL) * HS + pairs_of_tiles(T) * (HS + 2 * SMALL)
        traffic = {"shared writes": B * NH * 2 * SMALL * rows}
    scalars, tol = {"T": T, "scale": np.float32(HS**-0.5)}, LOOSE if kind else TOLERANCE
    tile = made.get("TILE", TILE)
    return Setup((NH, B), tile, arguments | scalars, expected, tol, form=made, traffic=traffic)
