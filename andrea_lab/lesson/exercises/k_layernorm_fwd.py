"""Layer norm forward: the variance of a row, by a block, in two passes."""

import math

import numpy as np
from numba import cuda, float32

from andrea_lab.lesson.parts import Exercise, Mistake, Wrong, without
from kernels.target import kernel

NT = 32


@kernel
def my_layernorm_fwd(inp, gamma, beta, out, mean, rstd, C, eps):
    """out = (inp - mean) * rstd * gamma + beta, one block of NT threads a row; saves mean and rstd."""
    row = cuda.blockIdx.x
    tx = cuda.threadIdx.x
    sums = cuda.shared.array(NT, float32)
    acc = float32(0.0)
    for j in range(tx, C, NT):
        acc += inp[row, j]
    sums[tx] = acc
    cuda.syncthreads()
    s = NT // 2
    while s > 0:
        if tx < s:
            sums[tx] += sums[tx + s]
        cuda.syncthreads()
        s //= 2
    mu = sums[0] / float32(C)
    # yours: rs = 1 / sqrt(variance + eps), the variance summed from (inp - mu) squared, about 14 lines
    cuda.syncthreads()
    acc = float32(0.0)
    for j in range(tx, C, NT):
        d = inp[row, j] - mu
        acc += d * d
    sums[tx] = acc
    cuda.syncthreads()
    s = NT // 2
    while s > 0:
        if tx < s:
            sums[tx] += sums[tx + s]
        cuda.syncthreads()
        s //= 2
    rs = float32(1.0) / math.sqrt(sums[0] / float32(C) + eps)
    # end
    for j in range(tx, C, NT):
        out[row, j] = (inp[row, j] - mu) * rs * gamma[j] + beta[j]
    if tx == 0:
        mean[row] = mu
        rstd[row] = rs


@kernel
def for_rows_of_70(inp, gamma, beta, out, mean, rstd, C, eps):
    """Right for 70 columns, and for no other number of them."""
    row = cuda.blockIdx.x
    tx = cuda.threadIdx.x
    if tx == 0:
        acc = float32(0.0)
        for j in range(70):
            acc += inp[row, j % C]
        mu = acc / float32(70.0)
        acc = float32(0.0)
        for j in range(70):
            acc += (inp[row, j % C] - mu) * (inp[row, j % C] - mu)
        rs = float32(1.0) / math.sqrt(acc / float32(70.0) + eps)
        for j in range(C):
            out[row, j] = (inp[row, j] - mu) * rs * gamma[j] + beta[j]
        mean[row] = mu
        rstd[row] = rs


def sample_variance(case):
    """The outputs with C - 1 under the sum of squares."""
    a = case.arguments
    inp = a["inp"].astype(np.float64)
    C = inp.shape[1]
    mu = inp.mean(axis=1)
    rs = 1.0 / np.sqrt(inp.var(axis=1) * C / max(C - 1, 1) + float(a["eps"]))
    return {"out": (inp - mu[:, None]) * rs[:, None] * a["gamma"] + a["beta"], "mean": mu, "rstd": rs}


EXERCISE = Exercise(
    id="k_layernorm_fwd",
    notebook=4,
    title="layer norm forward: the variance",
    statement=(
        "The mean is there. Write the variance: the threads add the squares of `inp - mu`, each over its own columns, "
        "and the tree that added the mean adds their sums. Then `rs = 1 / sqrt(variance + eps)`."
    ),
    solution=my_layernorm_fwd,
    hints=(
        "The tree in shared memory works as it did for the mean. What must be true before a thread may write into "
        "`sums` again?",
        "A barrier first: other threads may still be reading sums[0]. Then acc = 0, a loop over the thread's columns "
        "with d = inp[row, j] - mu, the tree once more, and a division by C.",
        "cuda.syncthreads(); acc += d * d for j in range(tx, C, NT); sums[tx] = acc; cuda.syncthreads(); the while "
        "loop of the mean; rs = float32(1.0) / math.sqrt(sums[0] / float32(C) + eps).",
    ),
    explanation=(
        "The first barrier is the one that is easily left out: `mu` is read from `sums[0]` by all threads, and a fast "
        "one must not overwrite it while a slow one still has to read. Summing from `inp - mu` costs one more walk "
        "over the row; the shorter way, mean of squares minus square of mean, loses its digits when the mean is large."
    ),
    wrong=(
        Wrong("missing barrier", edits=(without("cuda.syncthreads()", 1),)),
        Wrong("missing barrier", edits=(without("cuda.syncthreads()", 3),)),
        Wrong("missing barrier", edits=(without("cuda.syncthreads()", 4),)),
        Wrong("missing barrier", edits=(without("cuda.syncthreads()", 5),)),
        Wrong(
            "only the first items", edits=(("for j in range(tx, C, NT):", "for j in range(tx, min(C, NT), NT):", 3),)
        ),
        Wrong("loop too far", edits=(("for j in range(tx, C, NT):", "for j in range(tx, C + NT, NT):", 2),)),
        Wrong("float64", edits=(("acc = float32(0.0)", "acc = 0.0", 2),)),
        Wrong("some sizes only", kernel=for_rows_of_70),
        Wrong("C - 1", edits=(("sums[0] / float32(C) + eps", "sums[0] / float32(max(C - 1, 1)) + eps"),)),
    ),
    mistakes=(Mistake("C - 1", "the sum of squares is divided by C - 1; layer norm divides by C", sample_variance),),
)
