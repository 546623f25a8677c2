"""Cases of the matrix products: the three k_matmul_*, the projections, queries, keys and values.

No size is a multiple of a tile in the strong cases, and tiles lie side by side in every direction. In "whole tile" all
are: with it the number of accesses to shared memory is stated, so that a walk over one tile too many shows.
"""

from __future__ import annotations

import numpy as np

from andrea_lab.lesson.cases.case import Draw, Setup, poison, recipe, wide
from kernels import reference
from kernels.matmul import EDGE
from kernels.projection import TILE, tiles
from kernels.registry import cdiv

BLOCK = 32
ONE, ODD, WHOLE = {"N": 1, "K": 1, "M": 1}, {"N": 3, "K": 5, "M": 7}, {"N": TILE, "K": 2 * TILE, "M": TILE}
STRONG = {"N": 18, "K": 33, "M": 17}


def tiled_traffic(tiles_out: int, K: int, edge: int, per_step: int) -> dict[str, int]:
    """Shared reads of a tiled product: in every tile of the result, `per_step` reads a term of the sum."""
    return {"shared reads": tiles_out * cdiv(K, edge) * edge * per_step}


# ---------------------------------------------------------------- k_matmul_*


def product(draw: Draw, M: int, N: int, K: int) -> tuple[dict, dict]:
    """(A, B, C; what C must become)."""
    A, B = draw.normal(M, K), draw.normal(K, N)
    arguments = {"A": A, "B": B, "C": poison(M, N), "M": M, "N": N, "K": K}
    return arguments, {"C": reference.linear_forward(*wide(A, B))}


@recipe(
    "k_matmul_naive",
    {"one": {"M": 1, "N": 1, "K": 1}, "odd": {"M": 3, "N": 7, "K": 5}},
    {"strong": {"M": 18, "N": 20, "K": 3}, "wide": {"M": 9, "N": 33, "K": 4, "block": (32, 8)}},
)
def naive(draw: Draw, M: int, N: int, K: int, block: tuple[int, int] = (16, 16)) -> Setup:
    return Setup((cdiv(N, block[0]), cdiv(M, block[1])), block, *product(draw, M, N, K))


@recipe(
    "k_matmul_tiled",
    {"one": {"M": 1, "N": 1, "K": 1}, "odd": {"M": 3, "N": 7, "K": 5}},
    {"strong": {"M": 18, "N": 20, "K": 35}, "whole tile": {"M": 16, "N": 16, "K": 16}},
)
def tiled(draw: Draw, M: int, N: int, K: int) -> Setup:
    grid = (cdiv(N, TILE), cdiv(M, TILE))
    traffic = tiled_traffic(grid[0] * grid[1], K, TILE, 2 * TILE * TILE)
    return Setup(grid, (TILE, TILE), *product(draw, M, N, K), traffic=traffic)


FORMS = {"plain": (0, 0, 0), "ta": (1, 0, 0), "tb": (0, 1, 0), "add": (0, 0, 1)}
BLOCKED = {"M": 33, "N": 35, "K": 34}


@recipe(
    "k_matmul_blocked",
    {"one": {"M": 1, "N": 1, "K": 1}, "odd": {"M": 3, "N": 7, "K": 5}},
    {"strong": BLOCKED, "whole tile": {"M": 32, "N": 32, "K": 32}}
    | {name: BLOCKED | {"kind": name} for name in FORMS}
    | {f"whole tiles, {name}": {"M": 32, "N": 64, "K": 64, "kind": name} for name in ("ta", "tb")},
)
def blocked(draw: Draw, M: int, N: int, K: int, kind: str = "") -> Setup:
    """With `kind`, a form made for 4 rows a thread; a transposed operand lies turned, "add" adds to noise."""
    ta, tb, add = FORMS.get(kind, (0, 0, 0))
    rows = 4 if kind else 2
    form = {"TA": ta, "TB": tb, "ADD": add, "ROWS": rows, "LD": EDGE + tb, "STEP": EDGE // rows} if kind else {}
    arguments, expected = product(draw, M, N, K)
    for name, turned in (("A", ta), ("B", tb)):
        if turned:
            arguments[name] = np.ascontiguousarray(arguments[name].T)
    if add:
        arguments["C"] = draw.normal(M, N)
        expected["C"] = arguments["C"] + expected["C"]
    grid = (cdiv(N, EDGE), cdiv(M, EDGE))
    # Every thread reads a value of B and `rows` of A a term, but a value of B is counted once for each use.
    traffic = tiled_traffic(grid[0] * grid[1], K, EDGE, 2 * EDGE * EDGE)
    return Setup(grid, (EDGE, EDGE // rows), arguments, expected, form=form, traffic=traffic)


# ---------------------------------------------------------------- projections


def projection(draw: Draw, N: int, K: int, M: int) -> tuple[dict, dict]:
    """(inp, w, out; what out must become)."""
    inp, w = draw.normal(N, K), draw.normal(K, M, scale=K**-0.5)
    return {"inp": inp, "w": w, "out": poison(N, M)}, {"out": reference.linear_forward(*wide(inp, w))}


def projection_backward(draw: Draw, N: int, K: int, M: int) -> tuple[dict, dict]:
    """(inp, w, dout, dinp, dw, N, K, M; what the gradients must become)."""
    inp, w, dout = draw.normal(N, K), draw.normal(K, M, scale=K**-0.5), draw.normal(N, M)
    dinp, dw = reference.linear_backward(*wide(inp, w, dout))
    noise = {"dinp": draw.normal(N, K), "dw": draw.normal(K, M)}
    arguments = {"inp": inp, "w": w, "dout": dout, **noise, "N": N, "K": K, "M": M}
    return arguments, {"dinp": noise["dinp"] + dinp, "dw": noise["dw"] + dw}


@recipe("k_proj_fwd", {"one": ONE, "odd": ODD}, {"strong": {"N": 2, "K": 6, "M": 70}})
def proj_forward(draw: Draw, N: int, K: int, M: int) -> Setup:
    arguments, expected = projection(draw, N, K, M)
    return Setup(N, BLOCK, arguments | {"K": K, "M": M}, expected)


@recipe("k_proj_bwd", {"one": ONE, "odd": ODD}, {"strong": {"N": 3, "K": 35, "M": 40}})
def proj_backward(draw: Draw, N: int, K: int, M: int) -> Setup:
    return Setup(N + K, BLOCK, *projection_backward(draw, N, K, M))


@recipe("k_attn_out_fwd", {"one": ONE, "odd": ODD}, {"strong": STRONG, "whole tile": WHOLE})
def out_forward(draw: Draw, N: int, K: int, M: int) -> Setup:
    arguments, expected = projection(draw, N, K, M)
    grid = (cdiv(M, TILE), cdiv(N, TILE))
    traffic = tiled_traffic(grid[0] * grid[1], K, TILE, 2 * TILE * TILE)
    return Setup(grid, (TILE, TILE), arguments | {"N": N, "K": K, "M": M}, expected, traffic=traffic)


@recipe("k_attn_out_bwd", {"one": ONE, "odd": ODD}, {"strong": STRONG, "whole tile": WHOLE})
def out_backward(draw: Draw, N: int, K: int, M: int) -> Setup:
    reads = [tiled_traffic(tiles(N, K), M, TILE, 2 * TILE**2), tiled_traffic(tiles(K, M), N, TILE, 2 * TILE**2)]
    traffic = {"shared reads": sum(r["shared reads"] for r in reads)}
    grid = tiles(N, K) + tiles(K, M)
    return Setup(grid, (TILE, TILE), *projection_backward(draw, N, K, M), traffic=traffic)


# ---------------------------------------------------------------- queries, keys and values

QKV = (
    {"one": {"N": 1, "C": 1}, "odd": {"N": 3, "C": 5}},
    {"strong": {"N": 18, "C": 17}, "whole tile": {"N": 16, "C": 16}},
)


def qkv_inputs(draw: Draw, N: int, C: int) -> dict:
    """inp (N, C) and three weights (C, C)."""
    return {"inp": draw.normal(N, C)} | {n: draw.normal(C, C, scale=C**-0.5) for n in ("wq", "wk", "wv")}


@recipe("k_attn_qkv_fwd", *QKV)
def qkv_forward(draw: Draw, N: int, C: int) -> Setup:
    x = qkv_inputs(draw, N, C)
    expected = dict(zip(("q", "k", "v"), reference.qkv_forward(*wide(*x.values())), strict=True))
    grid = (cdiv(C, TILE), cdiv(N, TILE), 3)
    arguments = x | {n: poison(N, C) for n in expected} | {"N": N, "C": C}
    traffic = tiled_traffic(3 * grid[0] * grid[1], C, TILE, 2 * TILE * TILE)
    return Setup(grid, (TILE, TILE), arguments, expected, traffic=traffic)


@recipe("k_attn_qkv_bwd", *QKV)
def qkv_backward(draw: Draw, N: int, C: int) -> Setup:
    x = qkv_inputs(draw, N, C) | {n: draw.normal(N, C) for n in ("dq", "dk", "dv")}
    found = reference.qkv_backward(*wide(*x.values()))
    noise = {"dinp": draw.normal(N, C)} | {n: draw.normal(C, C) for n in ("dwq", "dwk", "dwv")}
    expected = {n: noise[n] + g for n, g in zip(noise, found, strict=True)}
    terms = tiles(N, C) * 3 * cdiv(C, TILE) + 3 * tiles(C, C) * cdiv(N, TILE)
    traffic = {"shared reads": terms * TILE * 2 * TILE * TILE}
    return Setup(tiles(N, C) + 3 * tiles(C, C), (TILE, TILE), x | noise | {"N": N, "C": C}, expected, traffic=traffic)
