"""The residual connection: k_residual_add, k_residual_add_bwd."""

import numpy as np
from numba import cuda

from kernels.registry import ANY_BLOCK, Pair, cdiv, register, wave
from kernels.target import kernel

NT = 1024


def _example_fwd(block):
    return cdiv(1500, block), (wave(1500), wave(1500, seed=2), np.zeros(1500, np.float32), 1500)


@register(ANY_BLOCK, _example_fwd)
@kernel
def k_residual_add(a, b, out, n):
    """Add a branch to the stream.

    Maths: out = a + b.
    Shapes: a, b, out (n,), the N x C elements in a row.
    Threads: one element a thread.
    Shared memory: none.
    Reads + writes: reads a and b n each; writes out n.
    Saves: nothing; the gradient of a sum needs no value.
    """
    i = cuda.grid(1)
    if i < n:
        out[i] = a[i] + b[i]


def _example_bwd(block):
    return cdiv(1500, block), (wave(1500), wave(1500, seed=2), wave(1500, seed=3), 1500)


@register(ANY_BLOCK, _example_bwd)
@kernel
def k_residual_add_bwd(dout, da, db, n):
    """Both branches get the whole gradient.

    Maths: da += dout; db += dout.
    Shapes: dout, da, db (n,), the N x C elements in a row.
    Threads: one element a thread.
    Shared memory: none.
    Reads + writes: reads dout, da and db n each; writes da and db n each.
    Saves: nothing.
    """
    i = cuda.grid(1)
    if i < n:
        d = dout[i]
        da[i] += d
        db[i] += d


def forward(a, b, out):
    """One launch: out (N, C) = a + b."""
    return [k_residual_add[cdiv(out.size, NT), NT].bind(a.reshape(-1), b.reshape(-1), out.reshape(-1), out.size)]


def backward(dout, da, db):
    """One launch that adds dout to da and to db."""
    launch = k_residual_add_bwd[cdiv(dout.size, NT), NT]
    return [launch.bind(dout.reshape(-1), da.reshape(-1), db.reshape(-1), dout.size)]


PAIR = Pair(
    "residual",
    k_residual_add,
    k_residual_add_bwd,
    forward,
    backward,
    named_forward=forward,
    named_backward=backward,
    folds=("residual_attn", "residual_mlp"),
)
PAIRS = (PAIR,)
FINE = (PAIR.fine("residual_attn"), PAIR.fine("residual_mlp"))
