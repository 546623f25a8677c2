"""What learners hand in: wrong kernels of every kind, the shipped kernel each stands for, and the reason it gets."""

import math

import numpy as np
from numba import cuda, float32

from kernels.target import kernel

NT = 32
LIST = [1.0, 2.0]
ARRAY = np.ones(4, np.float32)
WRONG = []


def learner(name, reason, where=WRONG, decorate=kernel):
    """Enter a kernel in the list."""

    def enter(fn):
        made = decorate(fn) if decorate else fn
        where.append((name, reason, made))
        return made

    return enter


# ---------------------------------------------------------------- cannot be run


@learner("k_residual_add", "signature")
def takes_too_few(a, b, out):
    i = cuda.grid(1)
    out[i] = a[i] + b[i]


@learner("k_residual_add", "endless loop")
def never_ends(a, b, out, n):
    i = cuda.grid(1)
    while i < n:
        out[i] = a[i] + b[i]


@learner("k_residual_add", "unsupported")
def raises(a, b, out, n):
    raise ValueError("no")


@learner("k_residual_add", "unsupported", decorate=None)
def calls_numpy(a, b, out, n):
    np.add(a, b, out=out)


@learner("k_residual_add", "unsupported", decorate=None)
def works_on_whole_arrays(a, b, out, n):
    out[:] = a + b


@learner("k_residual_add", "unsupported")
def makes_a_list(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        pair = [a[i], b[i]]
        out[i] = pair[0] + pair[1]


@learner("k_residual_add", "refused")
def prints(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        print(i)
        out[i] = a[i] + b[i]


@learner("k_residual_add", "outside value")
def reads_a_list(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = LIST[0] * a[i] + b[i]


@learner("k_residual_add", "outside value")
def reads_an_array_from_outside(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = ARRAY[0] * a[i] + b[i]


@learner("k_residual_add", "launch limits")
def fills_the_memory_of_a_block(a, b, out, n):
    s = cuda.shared.array(20_000_000_000, float32)
    i = cuda.grid(1)
    if i < n:
        s[0] = a[i]
        out[i] = s[0] + b[i]


@learner("k_residual_add", "launch limits")
def fills_the_memory_of_a_thread(a, b, out, n):
    x = cuda.local.array(20_000_000_000, float32)
    i = cuda.grid(1)
    if i < n:
        x[0] = a[i]
        out[i] = x[0] + b[i]


@learner("k_residual_add", "unknown name")
def misspells_a_name(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = a[i] + bb[i]  # noqa: F821


@learner("k_residual_add", "unfinished")
def is_half_written(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        ...


# ---------------------------------------------------------------- faults


@learner("k_residual_add", "no guard")
def has_no_guard(a, b, out, n):
    i = cuda.grid(1)
    out[i] = a[i] + b[i]


@learner("k_residual_add", "no guard")
def lets_one_too_many_in(a, b, out, n):
    i = cuda.grid(1)
    if i <= n:
        out[i] = a[i] + b[i]


@learner("k_residual_add", "out of bounds")
def goes_too_far_apart(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = a[i * 64] + b[i]


@learner("k_residual_add", "two writers")
def two_threads_an_element(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i // 2] = a[i] + b[i]


@learner("k_residual_add", "negative index")
def looks_to_the_left(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = a[i] + b[i - 1]


@learner("k_matmul_naive", "loop too far")
def walks_one_too_far(A, B, C, M, N, K):
    col, row = cuda.grid(2)
    if row < M and col < N:
        acc = float32(0.0)
        for k in range(K + 1):
            acc += A[row, k] * B[k, col]
        C[row, col] = acc


@learner("k_matmul_naive", "wrong axis")
def writes_columns_as_rows(A, B, C, M, N, K):
    col, row = cuda.grid(2)
    if row < M and col < N:
        acc = float32(0.0)
        for k in range(K):
            acc += A[row, k] * B[k, col]
        C[col, row] = acc


@learner("k_layernorm_bwd_atomic", "missing atomic")
def adds_without_atomics(inp, gamma, mean, rstd, dout, dinp, dgamma, dbeta, C):
    row = cuda.blockIdx.x
    tx = cuda.threadIdx.x
    for j in range(tx, C, NT):
        dgamma[j] += dout[row, j] * ((inp[row, j] - mean[row]) * rstd[row])
        dbeta[j] += dout[row, j]


@learner("k_residual_add", "same value")
def writes_with_every_thread(a, b, out, n):
    for i in range(n):
        out[i] = a[i] + b[i]


@learner("k_weighted_sum_fwd", "unset memory")
def starts_from_whatever_is_there(p, v, out, T, HS, n):
    e = cuda.grid(1)
    acc = cuda.local.array(1, float32)
    if e < n:
        d = e % HS
        t = e // HS % T
        g = e // (HS * T)
        for s in range(T):
            acc[0] += p[g, t, s] * v[g, s, d]
        out[g, t, d] = acc[0]


@learner("k_layernorm_fwd", "barrier not for all")
def waits_in_a_branch(inp, gamma, beta, out, mean, rstd, C, eps):
    row = cuda.blockIdx.x
    tx = cuda.threadIdx.x
    sums = cuda.shared.array(NT, float32)
    sums[tx] = float32(0.0)
    if tx < C:
        sums[tx] = inp[row, tx]
        cuda.syncthreads()
    out[row, 0] = sums[0]


# ---------------------------------------------------------------- values


@learner("k_residual_add", "float64")
def adds_in_float64(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = a[i] + 1.0 * b[i]


@learner("k_residual_add_bwd", "forgot +=")
def overwrites(dout, da, db, n):
    i = cuda.grid(1)
    if i < n:
        da[i] = dout[i]
        db[i] = dout[i]


@learner("k_residual_add_bwd", "added twice")
def adds_twice(dout, da, db, n):
    i = cuda.grid(1)
    if i < n:
        da[i] += dout[i]
        da[i] += dout[i]
        db[i] += dout[i]


@learner("k_residual_add_bwd", "never written")
def forgets_one_output(dout, da, db, n):
    i = cuda.grid(1)
    if i < n:
        da[i] += dout[i]


@learner("k_residual_add", "added, not written")
def adds_to_what_is_there(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] += a[i] + b[i]


@learner("k_residual_add", "input changed")
def writes_into_an_input(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        a[i] += b[i]
        out[i] = a[i]


@learner("k_residual_add", "wrong constant")
def halves(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = float32(0.5) * (a[i] + b[i])


@learner("k_scores_fwd", "wrong constant")
def scales_by_its_square(q, k, out, T, HS, scale, n):
    e = cuda.grid(1)
    if e < n:
        j = e % T
        i = e // T % T
        g = e // (T * T)
        acc = float32(0.0)
        for d in range(HS):
            acc += q[g, i, d] * k[g, j, d]
        out[g, i, j] = acc * scale * scale


@learner("k_scores_fwd", "wrong axis")
def transposes_the_scores(q, k, out, T, HS, scale, n):
    e = cuda.grid(1)
    if e < n:
        j = e % T
        i = e // T % T
        g = e // (T * T)
        acc = float32(0.0)
        for d in range(HS):
            acc += q[g, j, d] * k[g, i, d]
        out[g, i, j] = acc * scale


@learner("k_softmax_fwd", "missing maximum")
def takes_no_maximum(inp, out, cols, rows):
    r = cuda.grid(1)
    if r < rows:
        total = float32(0.0)
        for j in range(cols):
            total += math.exp(inp[r, j])
        for j in range(cols):
            out[r, j] = math.exp(inp[r, j]) / total


@learner("k_weighted_sum_fwd", "wrong values")
def squares_the_shares(p, v, out, T, HS, n):
    e = cuda.grid(1)
    if e < n:
        acc = float32(0.0)
        for s in range(T):
            acc += p[e // (HS * T), e // HS % T, s] * p[e // (HS * T), e // HS % T, s] * v[e // (HS * T), s, e % HS]
        out[e // (HS * T), e // HS % T, e % HS] = acc
