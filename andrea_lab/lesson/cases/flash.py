"""Cases of tiled attention, k_flash_fwd and k_flash_bwd.

The registered kernels are made for heads of 32 columns. Two more forms, heads of 4 columns (no padding) and of 3
(padded to a strip of 4), make the rest of the work small: a sequence that ends inside its second tile, one that ends
with a tile, scores that are large or all far below zero.
"""

from __future__ import annotations

import numpy as np

from andrea_lab.lesson.cases.attention import LOOSE, backward_data, forward_data
from andrea_lab.lesson.cases.case import TOLERANCE, Draw, Setup, recipe
from kernels.attention_flash import TILE
from kernels.registry import cdiv

STRIPS = {3: 2, 4: 2}  # head size -> running sums in registers, for the forms that are not the registered one
PLAIN = {"one": {"B": 1, "T": 1, "NH": 1, "HS": 3}, "odd": {"B": 2, "T": 5, "NH": 2, "HS": 4}}
STRONG = {
    "whole tile": {"B": 1, "T": 32, "NH": 2, "HS": 4},
    "negative": {"B": 1, "T": 33, "NH": 1, "HS": 4, "kind": "negative"},
    "large": {"B": 1, "T": 35, "NH": 1, "HS": 4, "kind": "large"},
    "padded": {"B": 2, "T": 34, "NH": 1, "HS": 3},
    "one, heads of 32": {"B": 1, "T": 1, "NH": 1, "HS": 32},
    "heads of 32": {"B": 2, "T": 5, "NH": 2, "HS": 32},
}


def form(HS: int) -> dict[str, int]:
    """The constants of the form for heads of HS columns; none for the registered one."""
    if HS not in STRIPS:
        return {}
    return {"HS": HS, "STRIP": STRIPS[HS], "HP": cdiv(HS, STRIPS[HS]) * STRIPS[HS]}


@recipe("k_flash_fwd", PLAIN, STRONG)
def forward(draw: Draw, B: int, T: int, NH: int, HS: int, kind: str = "") -> Setup:
    arguments, expected = forward_data(draw, B, T, NH, HS, kind)
    grid = (cdiv(T, TILE), NH, B)
    return Setup(grid, TILE, arguments | {"T": T, "scale": np.float32(HS**-0.5)}, expected, form=form(HS))


@recipe("k_flash_bwd", PLAIN, STRONG)
def backward(draw: Draw, B: int, T: int, NH: int, HS: int, kind: str = "") -> Setup:
    arguments, expected = backward_data(draw, B, T, NH, HS, kind)
    scalars, tol = {"T": T, "scale": np.float32(HS**-0.5)}, LOOSE if kind else TOLERANCE
    return Setup((NH, B), TILE, arguments | scalars, expected, tol, form=form(HS))
