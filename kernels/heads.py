"""Cutting a row into heads and joining them again: (N, C) to (B, NH, T, HS) and back.

The training path has no use for it: attention_flash.py reads the heads where they lie.
"""

import math

import numpy as np
from numba import cuda

from kernels.registry import ANY_BLOCK, Pair, cdiv, register, wave
from kernels.target import KernelError, kernel

NT = 128


def _blocks(n, block):
    return cdiv(n, math.prod(block) if isinstance(block, tuple) else block)


def _example_split(block):
    return _blocks(480, block), (wave(40, 12), np.zeros((2, 3, 20, 4), np.float32), 3, 20, 4, 480)


def _example_merge(block):
    return _blocks(480, block), (wave(2, 3, 20, 4), wave(40, 12), 3, 20, 4, 480)


@register(ANY_BLOCK, _example_split)
@kernel
def k_split_heads_fwd(inp, out, NH, T, HS, n):
    """Cut rows into heads.

    Maths: out[b, h, t, d] = inp[b T + t, h HS + d].
    Shapes: inp (N, C) = (B * T, NH * HS); out (B, NH, T, HS); n elements.
    Threads: one element of out a thread.
    Shared memory: none.
    Reads + writes: reads inp n; writes out n.
    Saves: nothing; the backward of a rearrangement is the rearrangement back.
    """
    i = cuda.grid(1)
    if i < n:
        d = i % HS
        t = i // HS % T
        h = i // (HS * T) % NH
        b = i // (HS * T * NH)
        out[b, h, t, d] = inp[b * T + t, h * HS + d]


@register(ANY_BLOCK, _example_merge)
@kernel
def k_split_heads_bwd(dout, dinp, NH, T, HS, n):
    """Hand the gradients of the heads back to the rows.

    Maths: dinp[b T + t, h HS + d] += dout[b, h, t, d].
    Shapes: dout (B, NH, T, HS); dinp (N, C) = (B * T, NH * HS); n elements.
    Threads: one element of dout a thread.
    Shared memory: none.
    Reads + writes: reads dout and dinp n each; writes dinp n.
    Saves: nothing.
    """
    i = cuda.grid(1)
    if i < n:
        d = i % HS
        t = i // HS % T
        h = i // (HS * T) % NH
        b = i // (HS * T * NH)
        dinp[b * T + t, h * HS + d] += dout[b, h, t, d]


@register(ANY_BLOCK, _example_merge)
@kernel
def k_merge_heads_fwd(inp, out, NH, T, HS, n):
    """Join heads to rows.

    Maths: out[b T + t, h HS + d] = inp[b, h, t, d].
    Shapes: inp (B, NH, T, HS); out (N, C) = (B * T, NH * HS); n elements.
    Threads: one element of inp a thread.
    Shared memory: none.
    Reads + writes: reads inp n; writes out n.
    Saves: nothing.
    """
    i = cuda.grid(1)
    if i < n:
        d = i % HS
        t = i // HS % T
        h = i // (HS * T) % NH
        b = i // (HS * T * NH)
        out[b * T + t, h * HS + d] = inp[b, h, t, d]


@register(ANY_BLOCK, _example_split)
@kernel
def k_merge_heads_bwd(dout, dinp, NH, T, HS, n):
    """Hand the gradients of the rows back to the heads.

    Maths: dinp[b, h, t, d] += dout[b T + t, h HS + d].
    Shapes: dout (N, C) = (B * T, NH * HS); dinp (B, NH, T, HS); n elements.
    Threads: one element of dinp a thread.
    Shared memory: none.
    Reads + writes: reads dout and dinp n each; writes dinp n.
    Saves: nothing.
    """
    i = cuda.grid(1)
    if i < n:
        d = i % HS
        t = i // HS % T
        h = i // (HS * T) % NH
        b = i // (HS * T * NH)
        dinp[b, h, t, d] += dout[b * T + t, h * HS + d]


def forward(inp, out):
    """One launch: (N, C) to (B, NH, T, HS) is a split, (B, NH, T, HS) to (N, C) a merge."""
    split = out.ndim == 4
    _, NH, T, HS = _cut(*((inp, out) if split else (out, inp)))
    k = k_split_heads_fwd if split else k_merge_heads_fwd
    return [k[cdiv(out.size, NT), NT].bind(inp, out, NH, T, HS, out.size)]


def backward(dout, dinp):
    """One launch that adds dout to dinp; dinp has the shape of forward's input and dout that of its output."""
    split = dout.ndim == 4
    _, NH, T, HS = _cut(*((dinp, dout) if split else (dout, dinp)))
    k = k_split_heads_bwd if split else k_merge_heads_bwd
    return [k[cdiv(dout.size, NT), NT].bind(dout, dinp, NH, T, HS, dout.size)]


def _cut(flat, heads):
    """Shape of `heads`, which holds the elements of `flat`; KernelError when the two do not fit."""
    if flat.ndim != 2 or heads.ndim != 4 or flat.shape != _merged(heads):
        raise KernelError(f"heads: shapes {flat.shape} and {heads.shape}, expected (B * T, NH * HS) and (B, NH, T, HS)")
    return heads.shape


def _merged(x):
    B, NH, T, HS = x.shape
    return B * T, NH * HS


HEADS = Pair(
    *("heads", k_split_heads_fwd, k_split_heads_bwd, forward, backward),
    *(forward, backward),
)
