"""Cases of the embedding kernels: few tokens, so every one of them is met again and again, and T differs from B."""

from __future__ import annotations

import numpy as np

from andrea_lab.lesson.cases.case import Draw, Setup, poison, recipe, wide
from kernels import reference
from kernels.registry import cdiv

BLOCK = 32
PLAIN = {"one": {"B": 1, "T": 1, "C": 1, "V": 1}, "odd": {"B": 2, "T": 3, "C": 5, "V": 3}}
STRONG = {"strong": {"B": 3, "T": 5, "C": 70, "V": 4}}
CONTEXT = 2  # positions beyond T that the table has, too


def tables(draw: Draw, T: int, C: int, V: int) -> tuple[np.ndarray, np.ndarray]:
    """wte (V, C) and wpe (T + 2, C)."""
    return draw.normal(V, C), draw.normal(T + CONTEXT, C)


@recipe("k_embed_fwd", PLAIN, STRONG)
def embed_forward(draw: Draw, B: int, T: int, C: int, V: int) -> Setup:
    tokens, (wte, wpe) = draw.ids(B, T, below=V), tables(draw, T, C, V)
    arguments = {"tokens": tokens, "wte": wte, "wpe": wpe, "out": poison(B * T, C), "T": T, "C": C}
    return Setup(B * T, BLOCK, arguments, {"out": reference.embed_forward(tokens, *wide(wte, wpe))})


@recipe("k_embed_bwd", PLAIN, STRONG)
def embed_backward(draw: Draw, B: int, T: int, C: int, V: int) -> Setup:
    tokens, dout, (dwte, dwpe) = draw.ids(B, T, below=V), draw.normal(B * T, C), tables(draw, T, C, V)
    te, pe = reference.embed_backward(tokens, *wide(dout), V, T + CONTEXT)
    arguments = {"tokens": tokens, "dout": dout, "dwte": dwte, "dwpe": dwpe, "B": B, "T": T, "C": C}
    return Setup(cdiv(C, BLOCK), BLOCK, arguments, {"dwte": dwte + te, "dwpe": dwpe + pe})


@recipe("k_token_fwd", PLAIN, STRONG)
def token_forward(draw: Draw, B: int, T: int, C: int, V: int) -> Setup:
    tokens, (wte, _) = draw.ids(B, T, below=V), tables(draw, T, C, V)
    arguments = {"tokens": tokens, "wte": wte, "out": poison(B * T, C), "T": T, "C": C}
    return Setup(B * T, BLOCK, arguments, {"out": reference.token_forward(tokens, *wide(wte))})


@recipe("k_token_bwd", PLAIN, STRONG | {"slices": {"B": 2, "T": 3, "C": 33, "V": 5, "slices": 3}})
def token_backward(draw: Draw, B: int, T: int, C: int, V: int, slices: int = 1) -> Setup:
    tokens, dout, (dwte, _) = draw.ids(B, T, below=V), draw.normal(B * T, C), tables(draw, T, C, V)
    arguments = {"tokens": tokens, "dout": dout, "dwte": dwte, "B": B, "T": T, "C": C}
    expected = {"dwte": dwte + reference.token_backward(tokens, *wide(dout), V)}
    return Setup((cdiv(C, BLOCK), slices), BLOCK, arguments, expected)


@recipe("k_position_fwd", PLAIN, STRONG)
def position_forward(draw: Draw, B: int, T: int, C: int, V: int) -> Setup:
    inp, (_, wpe) = draw.normal(B * T, C), tables(draw, T, C, V)
    arguments = {"inp": inp, "wpe": wpe, "out": poison(B * T, C), "T": T, "C": C}
    return Setup(B * T, BLOCK, arguments, {"out": reference.position_forward(*wide(inp, wpe), T)})


@recipe("k_position_bwd", PLAIN, STRONG)
def position_backward(draw: Draw, B: int, T: int, C: int, V: int) -> Setup:
    dout, dinp, (_, dwpe) = draw.normal(B * T, C), draw.normal(B * T, C), tables(draw, T, C, V)
    di, pe = reference.position_backward(*wide(dout), T, T + CONTEXT)
    arguments = {"dout": dout, "dinp": dinp, "dwpe": dwpe, "B": B, "T": T, "C": C}
    return Setup(T, BLOCK, arguments, {"dinp": dinp + di, "dwpe": dwpe + pe})


@recipe("k_position_dweight", PLAIN, STRONG)
def position_dweight(draw: Draw, B: int, T: int, C: int, V: int) -> Setup:
    dout, (_, dwpe) = draw.normal(B * T, C), tables(draw, T, C, V)
    _, pe = reference.position_backward(*wide(dout), T, T + CONTEXT)
    arguments = {"dout": dout, "dwpe": dwpe, "B": B, "T": T, "C": C}
    return Setup(T, BLOCK, arguments, {"dwpe": dwpe + pe})
