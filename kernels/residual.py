"""The residual connection: k_residual_add, k_residual_add_bwd."""

import numpy as np
from numba import cuda

from kernels.registry import ANY_BLOCK, Pair, register, wave
from kernels.target import kernel

NT = 128


def _example_fwd(block):
    return 3, (wave(3, 150), wave(3, 150, seed=2), np.zeros((3, 150), np.float32), 150)


@register(ANY_BLOCK, _example_fwd)
@kernel
def k_residual_add(a, b, out, C):
    """Add a branch to the stream.

    Maths: out = a + b.
    Shapes: a, b, out (N, C).
    Threads: block n owns row n; its threads take columns tx, tx + blockDim, ...
    Shared memory: none.
    Reads + writes: 2 reads + 1 write.
    Saves: nothing; the gradient of a sum needs no value.
    """
    row = cuda.blockIdx.x
    for j in range(cuda.threadIdx.x, C, cuda.blockDim.x):
        out[row, j] = a[row, j] + b[row, j]


def _example_bwd(block):
    return 3, (wave(3, 150), wave(3, 150, seed=2), wave(3, 150, seed=3), 150)


@register(ANY_BLOCK, _example_bwd)
@kernel
def k_residual_add_bwd(dout, da, db, C):
    """Both branches get the whole gradient.

    Maths: da += dout; db += dout.
    Shapes: dout, da, db (N, C).
    Threads: block n owns row n; its threads take columns tx, tx + blockDim, ...
    Shared memory: none.
    Reads + writes: 3 reads + 2 writes.
    Saves: nothing.
    """
    row = cuda.blockIdx.x
    for j in range(cuda.threadIdx.x, C, cuda.blockDim.x):
        d = dout[row, j]
        da[row, j] += d
        db[row, j] += d


def forward(a, b, out):
    """One launch: out (N, C) = a + b."""
    N, C = out.shape
    return [k_residual_add[N, NT].bind(a, b, out, C)]


def backward(dout, da, db):
    """One launch that adds dout to da and to db."""
    N, C = dout.shape
    return [k_residual_add_bwd[N, NT].bind(dout, da, db, C)]


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
