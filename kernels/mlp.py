"""The MLP: k_mlp_fwd, k_mlp_bwd, the GELU pair, and the production path through gemm().

out = gelu(inp @ w1) @ w2, with F = 4C hidden columns. Its fine pairs are w1, gelu and w2; w1 and w2 are projections.
"""

import math

import numpy as np
from numba import cuda, float32

from kernels.matmul import gemm, together
from kernels.projection import PROJ
from kernels.registry import ANY_BLOCK, Pair, register, row_block, wave
from kernels.target import device, kernel

NT = 128
CHUNK = 32  # rows whose dpre a weight block of k_mlp_bwd holds at a time


@device
def gelu(x):
    """0.5 x (1 + tanh(a (x + b x^3))), a = sqrt(2 / pi), b = 0.044715."""
    t = math.tanh(float32(0.7978845608) * (x + float32(0.044715) * x * x * x))
    return float32(0.5) * x * (float32(1.0) + t)


@device
def gelu_slope(x):
    """The derivative of gelu: 0.5 (1 + t) + 0.5 x (1 - t^2) a (1 + 3 b x^2), t the tanh."""
    t = math.tanh(float32(0.7978845608) * (x + float32(0.044715) * x * x * x))
    du = float32(0.7978845608) * (float32(1.0) + float32(0.134145) * x * x)
    return float32(0.5) * (float32(1.0) + t) + float32(0.5) * x * (float32(1.0) - t * t) * du


def _example_mlp_fwd(block):
    N, C, F = 5, 10, 40
    hidden = np.zeros((N, F), np.float32)
    args = (wave(N, C), wave(C, F, seed=2), wave(F, C, seed=3), hidden, hidden.copy(), np.zeros((N, C), np.float32))
    return N, (*args, C, F)


@register(ANY_BLOCK, _example_mlp_fwd)
@kernel
def k_mlp_fwd(inp, w1, w2, pre, act, out, C, F):
    """The whole MLP of a row in one block.

    Maths: pre = inp @ w1; act = gelu(pre); out = act @ w2.
    Shapes: inp, out (N, C); w1 (C, F); w2 (F, C); pre, act (N, F).
    Threads: block n owns row n; its threads take hidden columns, then, after a barrier, output columns.
    Shared memory: none; the threads hand act over through global memory, which a barrier makes visible inside the
    block.
    Reads + writes: reads inp, w1, act and w2 N C F each; writes pre and act N F each, out N C. What a tiled product
    shares between rows is read again for each.
    Saves: pre (the slope of gelu needs it) and act (the gradient of w2 needs it).
    """
    row = cuda.blockIdx.x
    tx = cuda.threadIdx.x
    for f in range(tx, F, cuda.blockDim.x):
        acc = float32(0.0)
        for c in range(C):
            acc += inp[row, c] * w1[c, f]
        pre[row, f] = acc
        act[row, f] = gelu(acc)
    cuda.syncthreads()
    for c in range(tx, C, cuda.blockDim.x):
        acc = float32(0.0)
        for f in range(F):
            acc += act[row, f] * w2[f, c]
        out[row, c] = acc


def _example_mlp_bwd(block):
    N, C, F = 35, 5, 20
    inp, w1, w2 = wave(N, C), wave(C, F, seed=2), wave(F, C, seed=3)
    saved = wave(N, F, seed=4), wave(N, F, seed=5), wave(N, C, seed=6)
    grads = np.zeros((N, F), np.float32), wave(N, C, seed=7), wave(C, F, seed=8), wave(F, C, seed=9)
    return N + F, (inp, w1, w2, *saved, *grads, N, C, F)


@register(ANY_BLOCK, _example_mlp_bwd)
@kernel
def k_mlp_bwd(inp, w1, w2, pre, act, dout, dpre, dinp, dw1, dw2, N, C, F):
    """All three gradients of the MLP in one launch.

    Maths: dpre = (dout @ w2.T) * gelu'(pre); dinp += dpre @ w1.T; dw1 += inp.T @ dpre; dw2 += act.T @ dout.
    Shapes: inp, dout, dinp (N, C); w1, dw1 (C, F); w2, dw2 (F, C); pre, act, dpre (N, F).
    Threads: both jobs in one launch, by the block's role. Block n < N owns row n of dpre and of dinp; block N + f
    owns column f of dw1 and row f of dw2, and walks the rows 32 at a time.
    Shared memory: 32 floats: the weight block's own copy of dpre, since it may not wait for the row blocks.
    Reads + writes: reads dout 3 N C F, w2 2 N C F, inp, act, w1 and dpre N C F each, pre 2 N F, dinp N C,
    dw1 and dw2 C F ceil(N / 32) each; writes dpre N F, dinp N C, dw1 and dw2 C F ceil(N / 32) each. dout @ w2.T is made
    twice, in the row blocks and in the weight blocks.
    Saves: nothing; uses pre and act from forward (and inp); dpre is scratch and overwritten.
    """
    tx = cuda.threadIdx.x
    part = cuda.shared.array(CHUNK, float32)
    if cuda.blockIdx.x < N:
        row = cuda.blockIdx.x
        for f in range(tx, F, cuda.blockDim.x):
            acc = float32(0.0)
            for c in range(C):
                acc += dout[row, c] * w2[f, c]
            dpre[row, f] = acc * gelu_slope(pre[row, f])
        cuda.syncthreads()
        for c in range(tx, C, cuda.blockDim.x):
            acc = float32(0.0)
            for f in range(F):
                acc += dpre[row, f] * w1[c, f]
            dinp[row, c] += acc
    else:
        col = cuda.blockIdx.x - N
        for r0 in range(0, N, CHUNK):
            rows = min(CHUNK, N - r0)
            for r in range(tx, rows, cuda.blockDim.x):
                acc = float32(0.0)
                for c in range(C):
                    acc += dout[r0 + r, c] * w2[col, c]
                part[r] = acc * gelu_slope(pre[r0 + r, col])
            cuda.syncthreads()
            for c in range(tx, C, cuda.blockDim.x):
                sum1 = float32(0.0)
                sum2 = float32(0.0)
                for r in range(rows):
                    sum1 += inp[r0 + r, c] * part[r]
                    sum2 += act[r0 + r, col] * dout[r0 + r, c]
                dw1[c, col] += sum1
                dw2[col, c] += sum2
            cuda.syncthreads()


# ---------------------------------------------------------------- fine pair: gelu


def _example_gelu_fwd(block):
    return 3, (wave(3, 150, scale=4.0), np.zeros((3, 150), np.float32), 150)


@register(ANY_BLOCK, _example_gelu_fwd)
@kernel
def k_gelu_fwd(pre, act, F):
    """GELU in its tanh form.

    Maths: act = 0.5 pre (1 + tanh(a (pre + b pre^3))), a = sqrt(2 / pi), b = 0.044715.
    Shapes: pre, act (N, F).
    Threads: block n owns row n; its threads take columns tx, tx + blockDim, ...
    Shared memory: none.
    Reads + writes: reads pre N F; writes act N F. One tanh per element.
    Saves: pre.
    """
    row = cuda.blockIdx.x
    for j in range(cuda.threadIdx.x, F, cuda.blockDim.x):
        act[row, j] = gelu(pre[row, j])


def _example_gelu_bwd(block):
    return 3, (wave(3, 150, scale=4.0), wave(3, 150, seed=2), wave(3, 150, seed=3), 150)


@register(ANY_BLOCK, _example_gelu_bwd)
@kernel
def k_gelu_bwd(pre, dact, dpre, F):
    """The gradient through GELU.

    Maths: dpre += dact * gelu'(pre).
    Shapes: pre, dact, dpre (N, F).
    Threads: block n owns row n; its threads take columns tx, tx + blockDim, ...
    Shared memory: none.
    Reads + writes: reads pre, dact and dpre N F each; writes dpre N F. One tanh per element.
    Saves: nothing; uses pre from forward.
    """
    row = cuda.blockIdx.x
    for j in range(cuda.threadIdx.x, F, cuda.blockDim.x):
        dpre[row, j] += dact[row, j] * gelu_slope(pre[row, j])


def _example_gelu_bwd_inplace(block):
    return 3, (wave(3, 150, scale=4.0), wave(3, 150, seed=2), 150)


@register(ANY_BLOCK, _example_gelu_bwd_inplace)
@kernel
def k_gelu_bwd_inplace(pre, dpre, F):
    """The gradient through GELU, in place.

    Maths: dpre *= gelu'(pre): dpre comes in as dact and leaves as the gradient of pre.
    Shapes: pre, dpre (N, F).
    Threads: block n owns row n; its threads take columns tx, tx + blockDim, ...
    Shared memory: none.
    Reads + writes: reads pre and dpre N F each; writes dpre N F. One tanh per element.
    Saves: nothing; uses pre from forward.
    Changed: against k_gelu_bwd, no second (N, F) buffer, and nothing to set to zero.
    """
    row = cuda.blockIdx.x
    for j in range(cuda.threadIdx.x, F, cuda.blockDim.x):
        dpre[row, j] *= gelu_slope(pre[row, j])


# ---------------------------------------------------------------- launches


def forward(inp, w1, w2, pre, act, out):
    """Launches: pre = inp @ w1, act = gelu(pre), out = act @ w2."""
    return [*gemm(inp, w1, pre), *gelu_forward(pre, act), *gemm(act, w2, out)]


def backward(inp, w1, w2, pre, act, dout, dpre, dinp, dw1, dw2):
    """Launches that overwrite the scratch dpre (N, F) and add to dinp, dw1 and dw2."""
    N, F = pre.shape
    return [
        *together(gemm(act, dout, dw2, ta=True, add=True), gemm(dout, w2, dpre, tb=True)),
        k_gelu_bwd_inplace[N, row_block(F)].bind(pre, dpre, F),
        *together(gemm(inp, dpre, dw1, ta=True, add=True), gemm(dpre, w1, dinp, tb=True, add=True)),
    ]


def named_forward(inp, w1, w2, pre, act, out):
    """One launch of k_mlp_fwd."""
    (N, C), F = inp.shape, pre.shape[1]
    return [k_mlp_fwd[N, NT].bind(inp, w1, w2, pre, act, out, C, F)]


def named_backward(inp, w1, w2, pre, act, dout, dpre, dinp, dw1, dw2):
    """One launch of k_mlp_bwd."""
    (N, C), F = inp.shape, pre.shape[1]
    return [k_mlp_bwd[N + F, NT].bind(inp, w1, w2, pre, act, dout, dpre, dinp, dw1, dw2, N, C, F)]


def gelu_forward(pre, act):
    """One launch: act (N, F) = gelu(pre)."""
    N, F = pre.shape
    return [k_gelu_fwd[N, row_block(F)].bind(pre, act, F)]


def gelu_backward(pre, dact, dpre):
    """One launch that adds to dpre (N, F)."""
    N, F = pre.shape
    return [k_gelu_bwd[N, row_block(F)].bind(pre, dact, dpre, F)]


PAIRS = (
    Pair(
        "mlp",
        k_mlp_fwd,
        k_mlp_bwd,
        forward,
        backward,
        named_forward,
        named_backward,
        saved=("inp", "pre", "act"),
        folds=("w1", "gelu", "w2"),
    ),
)
GELU = Pair("gelu", k_gelu_fwd, k_gelu_bwd, gelu_forward, gelu_backward, gelu_forward, gelu_backward, saved=("pre",))
FINE = (PROJ.fine("w1"), GELU, PROJ.fine("w2"))
