"""RMS norm backward: layer norm without its mean, the gradient of the input to be derived and written."""

import numpy as np
from numba import cuda, float32

from andrea_lab.lesson.cases.case import Case, Draw, narrow
from andrea_lab.lesson.parts import Exercise, Mistake, Wrong, without
from kernels.target import kernel

NT = 32
EPS = 1e-5


@kernel
def my_rms_bwd(inp, gamma, rstd, dout, dinp, C):
    """Adds to dinp the gradient through xhat = inp * rstd, rstd = 1 / sqrt(mean(inp * inp) + eps)."""
    n = cuda.blockIdx.x
    tx = cuda.threadIdx.x
    part = cuda.shared.array(NT, float32)
    # yours: derive dinp, then write it: a sum along the row, a tree, a result, about 15 lines
    acc = float32(0)
    for j in range(tx, C, NT):
        acc += dout[n, j] * gamma[j] * (inp[n, j] * rstd[n])
    part[tx] = acc
    cuda.syncthreads()
    half = NT // 2
    while half > 0:
        if tx < half:
            part[tx] += part[tx + half]
        cuda.syncthreads()
        half //= 2
    along = part[0] / float32(C)
    for j in range(tx, C, NT):
        dinp[n, j] += rstd[n] * (dout[n, j] * gamma[j] - inp[n, j] * rstd[n] * along)
    # end


@kernel
def keeps_the_mean(inp, gamma, rstd, dout, dinp, C):
    """Layer norm's formula: the mean of d is taken out, though no mean was."""
    n = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        a = float32(0)
        b = float32(0)
        for j in range(C):
            a += dout[n, j] * gamma[j]
            b += dout[n, j] * gamma[j] * (inp[n, j] * rstd[n])
        a /= float32(C)
        b /= float32(C)
        for j in range(C):
            dinp[n, j] += rstd[n] * (dout[n, j] * gamma[j] - a - inp[n, j] * rstd[n] * b)


def parts(case):
    """(dinp before, rstd, d, xhat) in float64."""
    a = {name: np.asarray(value, np.float64) for name, value in case.arguments.items()}
    rstd = a["rstd"][:, None]
    return a["dinp"], rstd, a["dout"] * a["gamma"], a["inp"] * rstd


def with_the_mean(case):
    """dinp with layer norm's second term, which belongs to the mean."""
    before, rstd, d, xhat = parts(case)
    along = (d * xhat).mean(axis=1, keepdims=True)
    return {"dinp": before + rstd * (d - d.mean(axis=1, keepdims=True) - xhat * along)}


def cases(seed):
    """Rows of 1, 5, 33 and 103 numbers, their mean well away from 0; dinp starts as noise."""
    made = []
    for label, N, C in (("one", 1, 1), ("odd", 3, 5), ("wide", 2, 33), ("strong", 5, 103)):
        draw = Draw(seed, "rms_norm_bwd", label)
        inp, gamma = draw.normal(N, C, scale=2.0, mean=1.0), draw.normal(C, mean=1.0)
        rstd = narrow(1.0 / np.sqrt((inp.astype(np.float64) ** 2).mean(axis=1) + EPS))
        arguments = {"inp": inp, "gamma": gamma, "rstd": rstd, "dout": draw.normal(N, C), "dinp": draw.normal(N, C)}
        case = Case(
            "rms_norm_bwd",
            label,
            N,
            NT,
            {**arguments, "C": C},
            ("dinp",),
            {},
            1e-5,
            label == "strong",
            {"N": N, "C": C},
        )
        before, rstd, d, xhat = parts(case)
        case.expected["dinp"] = before + rstd * (d - xhat * (d * xhat).mean(axis=1, keepdims=True))
        made.append(case)
    return made


EXERCISE = Exercise(
    id="rms_norm_bwd",
    notebook=4,
    title="RMS norm backward: derive it, then write it",
    statement=(
        "Many later models leave the mean out: `xhat = inp * rstd` with `rstd = 1 / sqrt(mean(inp * inp) + eps)`, and "
        "no beta. It is called RMS norm. Derive the gradient of the input as above and write it: one block of 32 "
        "threads a row, adding to `dinp`."
    ),
    solution=my_rms_bwd,
    hints=(
        "On how many paths does one input reach the outputs now? What, of the two things layer norm does not see, does "
        "RMS norm see?",
        "The derivative of xhat_j by x_i is rstd * (delta_ij - xhat_j * xhat_i / C): the term of the mean is gone, the "
        "other two stay. So there is one sum along the row, of d * xhat with d = dout * gamma.",
        "acc += dout[n, j] * gamma[j] * (inp[n, j] * rstd[n]); the tree of row_sum over part; along = part[0] / "
        "float32(C); dinp[n, j] += rstd[n] * (dout[n, j] * gamma[j] - inp[n, j] * rstd[n] * along).",
    ),
    explanation=(
        "A shift of the whole row changes the result of RMS norm, so nothing takes the gradient along a shift away; a "
        "stretch still does not, and the last term is the one that sees to it. One sum in place of two, one saved "
        "number a row in place of two: that is what leaving the mean out buys."
    ),
    wrong=(
        Wrong("the mean's term", kernel=keeps_the_mean),
        Wrong("forgot +=", edits=(("dinp[n, j] +=", "dinp[n, j] ="),)),
        Wrong("missing barrier", edits=(without("cuda.syncthreads()", 1),)),
        Wrong("missing barrier", edits=(without("cuda.syncthreads()", 2),)),
    ),
    mistakes=(
        Mistake(
            "the mean's term", "mean(d) is taken out; RMS norm has no mean, so there is no such term", with_the_mean
        ),
    ),
    cases=cases,
)
