"""Layer norm backward: both jobs in one launch, the columns' half to be written."""

import numpy as np
from numba import cuda, float32

from andrea_lab.lesson.parts import Exercise, Mistake, Wrong, without
from kernels.target import kernel

NT = 32


@kernel
def my_layernorm_bwd(inp, gamma, mean, rstd, dout, dinp, dgamma, dbeta, N, C):
    """Blocks 0 to N - 1 own the rows of dinp; the blocks after them own NT columns each of dgamma and dbeta."""
    tx = cuda.threadIdx.x
    sum1 = cuda.shared.array(NT, float32)
    sum2 = cuda.shared.array(NT, float32)
    if cuda.blockIdx.x < N:
        n = cuda.blockIdx.x
        a = float32(0)
        b = float32(0)
        for j in range(tx, C, NT):
            d = dout[n, j] * gamma[j]
            a += d
            b += d * ((inp[n, j] - mean[n]) * rstd[n])
        sum1[tx] = a
        sum2[tx] = b
        cuda.syncthreads()
        half = NT // 2
        while half > 0:
            if tx < half:
                sum1[tx] += sum1[tx + half]
                sum2[tx] += sum2[tx + half]
            cuda.syncthreads()
            half //= 2
        for j in range(tx, C, NT):
            xhat = (inp[n, j] - mean[n]) * rstd[n]
            dinp[n, j] += rstd[n] * (dout[n, j] * gamma[j] - sum1[0] / float32(C) - xhat * (sum2[0] / float32(C)))
    else:
        # yours: the block's number tells its columns; a thread owns one of them and walks all rows, about 9 lines
        j = (cuda.blockIdx.x - N) * NT + tx
        if j < C:
            dg = float32(0)
            db = float32(0)
            for n in range(N):
                dg += dout[n, j] * ((inp[n, j] - mean[n]) * rstd[n])
                db += dout[n, j]
            dgamma[j] += dg
            dbeta[j] += db
        # end


def without_spread(case):
    """The outputs with inp - mean in dgamma where xhat belongs."""
    a = {name: np.asarray(value, np.float64) for name, value in case.arguments.items()}
    centred = a["inp"] - a["mean"][:, None]
    found = {name: case.expected[name] for name in ("dinp", "dbeta")}
    return {**found, "dgamma": a["dgamma"] + (a["dout"] * centred).sum(axis=0)}


EXERCISE = Exercise(
    id="k_layernorm_bwd",
    notebook=4,
    title="layer norm backward: two jobs, one launch",
    statement=(
        "Put both jobs into one launch of `N + ceil(C / 32)` blocks of 32 threads. The first N blocks own rows, as in "
        "`ln_dinp`; that half is there. The others own 32 columns each of `dgamma` and `dbeta`, a thread one column. "
        "Write their half."
    ),
    solution=my_layernorm_bwd,
    hints=(
        "Block N is the first that owns columns. Which column is its thread 0's, and which that of thread 0 of the "
        "next block? And how many columns has the last block?",
        "j = (cuda.blockIdx.x - N) * NT + tx, and nothing to do unless j < C. Two sums in registers, a loop over all "
        "rows, and at the end one += each into dgamma[j] and dbeta[j].",
        "for n in range(N): dg += dout[n, j] * ((inp[n, j] - mean[n]) * rstd[n]); db += dout[n, j]. After the loop: "
        "dgamma[j] += dg; dbeta[j] += db.",
    ),
    explanation=(
        "No barrier is needed in the second half, since its threads share nothing; and a barrier in the first half is "
        "allowed, although it stands under an `if`, because the condition is the same for every thread of a block. The "
        "sums are kept in registers and added once: `+=` into `dgamma[j]` for every row would give the same bits at N "
        "times the traffic."
    ),
    wrong=(
        Wrong("no guard", edits=(("if j < C:", "if j < C + NT:"),)),
        Wrong("forgot +=", edits=(("dgamma[j] += dg", "dgamma[j] = dg"),)),
        Wrong("forgot +=", edits=(("dbeta[j] += db", "dbeta[j] = db"),)),
        Wrong(
            "xhat not divided",
            edits=(
                ("dg += dout[n, j] * ((inp[n, j] - mean[n]) * rstd[n])", "dg += dout[n, j] * (inp[n, j] - mean[n])"),
            ),
        ),
        Wrong("missing barrier", edits=(without("cuda.syncthreads()", 1),)),
        Wrong("missing barrier", edits=(without("cuda.syncthreads()", 2),)),
    ),
    mistakes=(
        Mistake(
            "xhat not divided",
            "dgamma has inp - mean where xhat belongs: multiply by rstd[n]",
            without_spread,
        ),
    ),
)
