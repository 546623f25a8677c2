"""Gradients as one flat vector: its norm, clipping to a largest norm, scaling by the token count, zeroing.

The training path takes `norm` and lets k_adamw multiply by hp[FACTOR] as it reads the gradients; k_scale_grads and
k_grad_scale do the same two multiplications as steps of their own.
"""

import math

import numpy as np
from numba import cuda, float32

from kernels.adamw import FACTOR, INV_COUNT, MAX_NORM, NORM, example_hp
from kernels.registry import ANY_BLOCK, cdiv, register, wave
from kernels.target import KernelError, device, kernel

NT = 256
FLAT = 1024  # threads of a block where each thread has one element
LANES = 256  # columns of the fixed tree: sums depend on the length of the vector, never on the block
ROWS = 64
CHUNK = LANES * ROWS  # elements that one block sums
LARGEST = float(np.finfo(np.float32).max)


@device
def clip_scale(norm, max_norm):
    """min(1, max_norm / norm), 1 when max_norm <= 0; NaN for a norm that is not finite: a step with it must show."""
    scale = float32(1.0)
    if max_norm > float32(0.0) and norm > max_norm:
        scale = max_norm / norm
    if not norm <= float32(LARGEST):
        scale = norm - norm
    return scale


def _threads(block):
    return math.prod(block) if isinstance(block, tuple) else block


def _example_partial(block):
    n = 2 * CHUNK + 77
    return partials(n), (wave(n), np.zeros(partials(n), np.float32), n)


@register(ANY_BLOCK, _example_partial)
@kernel
def k_grad_norm_partial(g, partial, n):
    """partial[b] = sum of g^2 over the b-th CHUNK elements of the vector.

    Maths: element r * LANES + c of the chunk goes to running sum c, in the order of r; a tree then adds the sums.
    Shapes: g (n,); partial (blocks,) with blocks = n / CHUNK rounded up.
    Threads: one block a chunk; its threads share the LANES sums out among them.
    Shared memory: LANES floats.
    Reads + writes: reads g n; writes partial blocks.
    Saves: nothing.
    """
    sums = cuda.shared.array(LANES, float32)
    tx = cuda.threadIdx.x
    base = cuda.blockIdx.x * CHUNK
    for c in range(tx, LANES, cuda.blockDim.x):
        acc = float32(0.0)
        for r in range(ROWS):
            if base + r * LANES + c < n:
                x = g[base + r * LANES + c]
                acc += x * x
        sums[c] = acc
    cuda.syncthreads()
    s = LANES // 2
    while s > 0:
        for c in range(tx, s, cuda.blockDim.x):
            sums[c] += sums[c + s]
        cuda.syncthreads()
        s //= 2
    if tx == 0:
        partial[cuda.blockIdx.x] = sums[0]


def _example_final(block):
    return 1, (np.abs(wave(700)), example_hp(), 700)


@register(ANY_BLOCK, _example_final)
@kernel
def k_grad_norm_final(partial, hp, blocks):
    """The norm from the partial sums, and the factor that brings a gradient to the mean and inside the norm.

    Maths: NORM = INV_COUNT sqrt(sum of partial); FACTOR = INV_COUNT min(1, MAX_NORM / NORM), or INV_COUNT when
    MAX_NORM <= 0. A norm that is not finite makes FACTOR NaN.
    Shapes: partial (blocks,); hp (16,).
    Threads: one block.
    Shared memory: LANES floats.
    Reads + writes: reads partial blocks, hp 3; writes hp 2.
    Saves: nothing.
    """
    sums = cuda.shared.array(LANES, float32)
    tx = cuda.threadIdx.x
    for c in range(tx, LANES, cuda.blockDim.x):
        acc = float32(0.0)
        for i in range(c, blocks, LANES):
            acc += partial[i]
        sums[c] = acc
    cuda.syncthreads()
    s = LANES // 2
    while s > 0:
        for c in range(tx, s, cuda.blockDim.x):
            sums[c] += sums[c + s]
        cuda.syncthreads()
        s //= 2
    if tx == 0:
        norm = math.sqrt(sums[0]) * hp[INV_COUNT]
        hp[NORM] = norm
        hp[FACTOR] = hp[INV_COUNT] * clip_scale(norm, hp[MAX_NORM])


def _example_scale(block):
    n = 1500
    return cdiv(n, _threads(block)), (wave(n), example_hp(), n)


@register(ANY_BLOCK, _example_scale)
@kernel
def k_scale_grads(g, hp, n):
    """From the sum over all tokens of all microbatches to the mean over them.

    Maths: g *= INV_COUNT.
    Shapes: g (n,); hp (16,).
    Threads: one element a thread.
    Shared memory: none.
    Reads + writes: reads g n, hp gridDim blockDim; writes g n. Every thread reads hp.
    Saves: nothing.
    """
    i = cuda.grid(1)
    inv = hp[INV_COUNT]
    if i < n:
        g[i] *= inv


@register(ANY_BLOCK, _example_scale)
@kernel
def k_grad_scale(g, hp, n):
    """The vector keeps its direction and gets at most the norm MAX_NORM.

    Maths: g *= min(1, MAX_NORM / NORM). MAX_NORM <= 0 leaves g as it is; NaN for a NORM that is not finite.
    Shapes: g (n,); hp (16,), NORM as k_grad_norm_final left it.
    Threads: one element a thread.
    Shared memory: none.
    Reads + writes: reads g n, hp 2 gridDim blockDim; writes g n. Every thread reads hp.
    Saves: nothing.
    """
    i = cuda.grid(1)
    scale = clip_scale(hp[NORM], hp[MAX_NORM])
    if i < n:
        g[i] *= scale


def _example_zero(block):
    n = 1500
    return cdiv(n, _threads(block)), (wave(n), n)


@register(ANY_BLOCK, _example_zero)
@kernel
def k_zero_grads(g, n):
    """Zero, so that the next step's backward kernels add to nothing.

    Maths: g = 0.
    Shapes: g (n,).
    Threads: one element a thread.
    Shared memory: none.
    Reads + writes: writes g n.
    Saves: nothing.
    """
    i = cuda.grid(1)
    if i < n:
        g[i] = float32(0.0)


def partials(n):
    """Number of partial sums that `norm` needs for a vector of n elements."""
    return cdiv(n, CHUNK)


def norm(grads, partial, hp):
    """Launches that write hp[NORM] and hp[FACTOR] from grads (n,), with partial (partials(n),) as scratch.

    Raises KernelError when `partial` has another size.
    """
    blocks = partials(grads.size)
    if partial.shape != (blocks,):
        raise KernelError(f"clip.norm: partial has shape {partial.shape}, expected {(blocks,)}")
    return [
        k_grad_norm_partial[blocks, NT].bind(grads, partial, grads.size),
        k_grad_norm_final[1, NT].bind(partial, hp, blocks),
    ]


def scale_by_count(grads, hp):
    """Launch of k_scale_grads on grads (n,)."""
    return [k_scale_grads[cdiv(grads.size, FLAT), FLAT].bind(grads, hp, grads.size)]


def scale_to_norm(grads, hp):
    """Launch of k_grad_scale on grads (n,), after `norm`."""
    return [k_grad_scale[cdiv(grads.size, FLAT), FLAT].bind(grads, hp, grads.size)]


def zero(*arrays):
    """Launches that set each array, of any shape, to zero."""
    return [k_zero_grads[cdiv(a.size, FLAT), FLAT].bind(a.reshape(-1), a.size) for a in arrays]
