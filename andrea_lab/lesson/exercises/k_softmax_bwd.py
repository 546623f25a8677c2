"""Softmax backward: a score is pushed as far as its slope differs from the row's mean slope."""

import numpy as np
from numba import cuda, float32

from andrea_lab.lesson.parts import Exercise, Mistake, Wrong
from kernels.target import kernel


@kernel
def my_softmax_bwd(p, dout, dinp, cols, rows):
    """dinp[r, j] += p[r, j] (dout[r, j] - sum over k of p[r, k] dout[r, k]); one thread a row."""
    r = cuda.grid(1)
    if r < rows:
        # yours: the row's mean of dout, each weighted with its share; then dinp, about 5 lines
        mean = float32(0)
        for j in range(cols):
            mean += p[r, j] * dout[r, j]
        for j in range(cols):
            dinp[r, j] += p[r, j] * (dout[r, j] - mean)
        # end


def wide(case, *names):
    """Arguments of a case in float64."""
    return [case.arguments[name].astype(np.float64) for name in names]


def without_mean(case):
    """Each share for itself, as if they did not have to sum to 1."""
    p, dout, dinp = wide(case, "p", "dout", "dinp")
    return {"dinp": dinp + p * dout}


def plain_mean(case):
    """The mean of the row with equal weights."""
    p, dout, dinp = wide(case, "p", "dout", "dinp")
    return {"dinp": dinp + p * (dout - dout.mean(axis=1, keepdims=True))}


def outside(case):
    """The mean subtracted outside the brackets."""
    p, dout, dinp = wide(case, "p", "dout", "dinp")
    return {"dinp": dinp + p * dout - (p * dout).sum(axis=1, keepdims=True)}


EXERCISE = Exercise(
    id="k_softmax_bwd",
    notebook=5,
    title="softmax backward",
    statement=(
        "The formula for $ds$ as a kernel, one thread a row. `dout` holds $dp$ and `dinp` is to receive $ds$. Like "
        "every gradient it is **added** to what is there."
    ),
    solution=my_softmax_bwd,
    hints=(
        "The sum inside the brackets is the same for the whole row. How often does it have to be computed?",
        "Two walks along the row. The first adds up p dout; the second adds p (dout - that sum) to dinp.",
        "mean = float32(0); for j in range(cols): mean += p[r, j] * dout[r, j]; then for j in range(cols): "
        "dinp[r, j] += p[r, j] * (dout[r, j] - mean).",
    ),
    explanation=(
        "The weighted mean comes from the division by the row's sum: raise one exponential and the sum rises too, so "
        "that all shares shrink a little. The gradients of a row add up to 0, as they must, since adding the same "
        "number to all scores changes nothing."
    ),
    wrong=(
        Wrong("forgot +=", edits=(("+= p[r, j] * (", "= p[r, j] * ("),)),
        Wrong("no mean", edits=(("(dout[r, j] - mean)", "dout[r, j]"),)),
        Wrong("equal weights", edits=(("p[r, j] * dout[r, j]", "dout[r, j] / float32(cols)"),)),
        Wrong("brackets", edits=(("p[r, j] * (dout[r, j] - mean)", "p[r, j] * dout[r, j] - mean"),)),
        Wrong("sign", edits=(("(dout[r, j] - mean)", "(mean - dout[r, j])"),)),
        Wrong("no guard", edits=(("if r < rows:", "for _ in range(1):"),)),
        Wrong("float64", edits=(("mean = float32(0)", "mean = 0.0"),)),
    ),
    mistakes=(
        Mistake("no mean", "each share stands for itself; the row's mean is not subtracted", without_mean),
        Mistake("equal weights", "the mean counts every column alike; each weighs its share p", plain_mean),
        Mistake("brackets", "the mean is subtracted after the product; p multiplies both", outside),
    ),
)
