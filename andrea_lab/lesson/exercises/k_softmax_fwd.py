"""Softmax of a row, for scores of any size: the maximum is taken out first."""

import math

import numpy as np
from numba import cuda, float32

from andrea_lab.lesson.cases import Case, case_list
from andrea_lab.lesson.parts import Exercise, Mistake, Wrong
from kernels.target import kernel


@kernel
def my_softmax_fwd(inp, out, cols, rows):
    """out[r, j] = exp(inp[r, j]) / sum over j of exp(inp[r, j]), for scores of any size; one thread a row."""
    r = cuda.grid(1)
    if r < rows:
        # yours: the row's maximum m; exp(inp - m) into out, and their total, about 7 lines
        m = inp[r, 0]
        for j in range(1, cols):
            m = max(m, inp[r, j])
        total = float32(0)
        for j in range(cols):
            out[r, j] = math.exp(inp[r, j] - m)
            total += out[r, j]
        # end
        for j in range(cols):
            out[r, j] /= total


def cases(seed: int) -> list[Case]:
    """The cases of k_softmax_fwd but one: a row in which nothing can be seen, which attention does not have."""
    return [case for case in case_list("k_softmax_fwd", seed) if case.label != "masked"]


def unnormalised(case):
    """The exponentials before they are divided by their sum."""
    inp = case.arguments["inp"].astype(np.float64)
    return {"out": np.exp(inp - inp.max(axis=1, keepdims=True))}


EXERCISE = Exercise(
    id="k_softmax_fwd",
    notebook=5,
    title="softmax that cannot overflow",
    statement=(
        "Mend the kernel: find the row's maximum before any exponential is taken. (`inp` is s and `out` is p, for any "
        "number of rows and columns.)"
    ),
    solution=my_softmax_fwd,
    hints=(
        "How does a thread find the largest of some numbers that it sees one after the other? And which number may it "
        "start from, if all of them can be far below 0?",
        "Three walks along the row: one for the maximum, starting from the first score; one that writes "
        "exp(inp - m) and adds it up; the last, which divides, is there.",
        "m = inp[r, 0]; for j in range(1, cols): m = max(m, inp[r, j]); total = float32(0); for j in range(cols): "
        "out[r, j] = math.exp(inp[r, j] - m); total += out[r, j].",
    ),
    explanation=(
        "`m` starts from the first score and not from 0: where all scores are far below 0, a maximum of 0 would leave "
        "only exponentials that have vanished, and a division of 0 by 0. The row is read twice and written twice; "
        "storing the exponential, and not computing it again for the division, is worth the traffic, for an "
        "exponential costs as much as many multiplications."
    ),
    wrong=(
        Wrong("missing maximum", edits=(("inp[r, j] - m", "inp[r, j]"),)),
        Wrong("missing maximum", edits=(("m = inp[r, 0]", "m = float32(0)"),)),
        Wrong("wrong row factor", edits=(("total += out[r, j]", "total = out[r, j]"),)),
        Wrong("no guard", edits=(("if r < rows:", "for _ in range(1):"),)),
        Wrong("float64", edits=(("total = float32(0)", "total = 0.0"),)),
        Wrong("not divided", edits=(("out[r, j] /= total", "out[r, j] /= float32(1)"),)),
    ),
    mistakes=(Mistake("not divided", "the exponentials are there, but not divided by their sum", unnormalised),),
    cases=cases,
)
