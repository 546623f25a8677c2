"""Sums of a vector along a fixed tree: the order of every addition depends on the length alone."""

import numpy as np
from numba import cuda, float32

from kernels.registry import register, wave
from kernels.registry import tokens as ids
from kernels.target import kernel

NT = 256


def _example_sum(block):
    return 1, (wave(700), np.zeros(1, np.float32), 700)


@register((NT,), _example_sum)
@kernel
def k_sum(inp, out, n):
    """Sum of a vector.

    Maths: out[0] = sum of inp.
    Shapes: inp (n,); out (1,).
    Threads: one block; thread t adds inp[t], inp[t + 256], ... in order, then a tree adds the 256 parts.
    Shared memory: 256 floats.
    Reads + writes: reads inp n; writes out 1.
    Saves: nothing.
    """
    tx = cuda.threadIdx.x
    sums = cuda.shared.array(NT, float32)
    acc = float32(0.0)
    for i in range(tx, n, NT):
        acc += inp[i]
    sums[tx] = acc
    cuda.syncthreads()
    s = NT // 2
    while s > 0:
        if tx < s:
            sums[tx] += sums[tx + s]
        cuda.syncthreads()
        s //= 2
    if tx == 0:
        out[0] = sums[0]


def _example_mean_loss(block):
    return 1, (wave(20, 35).reshape(700), ids(20, 35, vocab=9) - np.int32(1), np.zeros(1, np.float32), 35, 700)


@register((NT,), _example_mean_loss)
@kernel
def k_mean_loss(losses, targets, out, T, n):
    """Mean of the losses over the targets that count.

    Maths: out[0] = sum of losses / number of targets >= 0; 0 when none is counted.
    Shapes: losses (n,), n = B*T, 0 where the target is ignored; targets (B, T) int32; out (1,).
    Threads: one block; thread t takes rows t, t + 256, ..., then a tree adds the 256 parts.
    Shared memory: 2 x 256 floats; a count is exact in float32 up to 2^24.
    Reads + writes: reads losses and targets n each; writes out 1.
    Saves: nothing.
    """
    tx = cuda.threadIdx.x
    sums = cuda.shared.array(NT, float32)
    counts = cuda.shared.array(NT, float32)
    acc = float32(0.0)
    count = float32(0.0)
    for i in range(tx, n, NT):
        acc += losses[i]
        if targets[i // T, i % T] >= 0:
            count += float32(1.0)
    sums[tx] = acc
    counts[tx] = count
    cuda.syncthreads()
    s = NT // 2
    while s > 0:
        if tx < s:
            sums[tx] += sums[tx + s]
            counts[tx] += counts[tx + s]
        cuda.syncthreads()
        s //= 2
    if tx == 0:
        out[0] = sums[0] / max(counts[0], float32(1.0))


def sum(inp, out):
    """One launch: out[0] = sum of the vector inp."""
    return [k_sum[1, NT].bind(inp, out, inp.shape[0])]


def mean_loss(losses, targets, out):
    """One launch: out[0] = sum of losses over the number of targets that are not ignored."""
    return [k_mean_loss[1, NT].bind(losses, targets, out, targets.shape[1], losses.shape[0])]
