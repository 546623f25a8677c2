"""Cases of cutting rows into heads and joining them again.

T and HS have a factor in common with NH: with none, i // HS % NH would be as good as i // (HS * T) % NH.
"""

from __future__ import annotations

from andrea_lab.lesson.cases.case import Draw, Setup, poison, recipe, wide
from kernels import reference
from kernels.registry import cdiv

BLOCK = 32
PLAIN = {"one": {"B": 1, "T": 1, "NH": 1, "HS": 1}, "odd": {"B": 2, "T": 3, "NH": 1, "HS": 5}}
STRONG = {"strong": {"B": 3, "T": 6, "NH": 4, "HS": 2}}


def launch(arguments: dict, expected: dict, B: int, T: int, NH: int, HS: int) -> Setup:
    """One thread an element, the last block not full."""
    n = B * T * NH * HS
    return Setup(cdiv(n, BLOCK), BLOCK, arguments | {"NH": NH, "T": T, "HS": HS, "n": n}, expected)


@recipe("k_split_heads_fwd", PLAIN, STRONG)
def split_forward(draw: Draw, B: int, T: int, NH: int, HS: int) -> Setup:
    inp = draw.normal(B * T, NH * HS)
    expected = {"out": reference.split_heads(*wide(inp), B, NH)}
    return launch({"inp": inp, "out": poison(B, NH, T, HS)}, expected, B, T, NH, HS)


@recipe("k_split_heads_bwd", PLAIN, STRONG)
def split_backward(draw: Draw, B: int, T: int, NH: int, HS: int) -> Setup:
    dout, dinp = draw.normal(B, NH, T, HS), draw.normal(B * T, NH * HS)
    expected = {"dinp": dinp + reference.merge_heads(*wide(dout))}
    return launch({"dout": dout, "dinp": dinp}, expected, B, T, NH, HS)


@recipe("k_merge_heads_fwd", PLAIN, STRONG)
def merge_forward(draw: Draw, B: int, T: int, NH: int, HS: int) -> Setup:
    inp = draw.normal(B, NH, T, HS)
    expected = {"out": reference.merge_heads(*wide(inp))}
    return launch({"inp": inp, "out": poison(B * T, NH * HS)}, expected, B, T, NH, HS)


@recipe("k_merge_heads_bwd", PLAIN, STRONG)
def merge_backward(draw: Draw, B: int, T: int, NH: int, HS: int) -> Setup:
    dout, dinp = draw.normal(B * T, NH * HS), draw.normal(B, NH, T, HS)
    expected = {"dinp": dinp + reference.split_heads(*wide(dout), B, NH)}
    return launch({"dout": dout, "dinp": dinp}, expected, B, T, NH, HS)
