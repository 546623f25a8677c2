"""The loss: k_loss_fwd, k_loss_bwd (output head and softmax cross-entropy), and the fine pairs head and xent.

logits = inp @ head.T; losses[n] = logsumexp(logits[n]) - logits[n, target]. A row with target -1 is ignored: its loss
and its gradient are 0. Backprop starts at d(loss)/d(loss) = 1, so a mean over M counted rows means dlosses = 1/M.
"""

import math

import numpy as np
from numba import cuda, float32

from kernels.matmul import gemm, together
from kernels.registry import ANY_BLOCK, Pair, register, row_block, tokens, wave
from kernels.target import device, kernel

NT = 128  # threads of a block that reduces a row of logits; the tree over them fixes the order of the sum
CHUNK = 128  # gradients of logits that a block of k_loss_bwd holds at a time
LOWEST = -3.0e38  # below every finite logit that matters, and finite itself


@device
def dlogit(logit, lse, dloss, v, target):
    """Gradient of one logit: (softmax - onehot) * dloss, 0 for an ignored target."""
    d = math.exp(logit - lse)
    if v == target:
        d -= float32(1.0)
    if target < 0:
        d = float32(0.0)
    return d * dloss


def _example_loss_fwd(block):
    B, T, C, V = 2, 3, 10, 150
    N = B * T
    targets = tokens(B, T, vocab=V) - np.int32(1)
    targets[0, 1] = -1
    args = (wave(N, C, scale=9.0), wave(V, C, seed=2), targets, np.zeros((N, V), np.float32))
    return N, (*args, np.zeros(N, np.float32), np.zeros(N, np.float32), T, C, V)


@register((NT,), _example_loss_fwd)
@kernel
def k_loss_fwd(inp, head, targets, logits, lse, losses, T, C, V):
    """Output head and cross-entropy of a row in one block.

    Maths: logits = inp @ head.T; lse = logsumexp(logits); losses = lse - logits[target], 0 for an ignored target.
    Shapes: inp (N, C); head (V, C); targets (B, T) int32; logits (N, V); lse, losses (N,).
    Threads: block n owns row n; thread t makes logits t, t + 128, ... and joins the trees of their maximum and sum.
    Shared memory: 128 floats.
    Reads + writes: reads inp and head N V C each, logits N V + hits, targets N; writes logits N V,
    lse and losses N each; where hits = count(targets >= 0).
    Saves: logits and lse; softmax = exp(logits - lse).
    Changed: against the plain sum of exponentials, the maximum is taken out first, so that a logit of 1000 overflows
    nothing.
    """
    row = cuda.blockIdx.x
    tx = cuda.threadIdx.x
    part = cuda.shared.array(NT, float32)
    top = float32(LOWEST)
    for v in range(tx, V, NT):
        acc = float32(0.0)
        for c in range(C):
            acc += inp[row, c] * head[v, c]
        logits[row, v] = acc
        top = max(top, acc)
    part[tx] = top
    cuda.syncthreads()
    s = NT // 2
    while s > 0:
        if tx < s:
            part[tx] = max(part[tx], part[tx + s])
        cuda.syncthreads()
        s //= 2
    m = part[0]
    cuda.syncthreads()
    total = float32(0.0)
    for v in range(tx, V, NT):
        total += math.exp(logits[row, v] - m)
    part[tx] = total
    cuda.syncthreads()
    s = NT // 2
    while s > 0:
        if tx < s:
            part[tx] += part[tx + s]
        cuda.syncthreads()
        s //= 2
    if tx == 0:
        log_sum = m + math.log(part[0])
        lse[row] = log_sum
        target = targets[row // T, row % T]
        loss = float32(0.0)
        if target >= 0:
            loss = log_sum - logits[row, target]
        losses[row] = loss


def _example_loss_bwd(block):
    B, T, C, V = 2, 6, 40, 9
    N = B * T
    targets = tokens(B, T, vocab=V)
    targets[0, 1] = -1
    args = (wave(N, C), wave(V, C, seed=2), targets, wave(N, V, seed=3), wave(N, seed=4), wave(N, seed=5))
    return N + V, (*args, wave(N, C, seed=6), wave(V, C, seed=7), N, T, C, V)


@register(ANY_BLOCK, _example_loss_bwd)
@kernel
def k_loss_bwd(inp, head, targets, logits, lse, dlosses, dinp, dhead, N, T, C, V):
    """Both gradients of head and cross-entropy in one launch.

    Maths: d = (softmax - onehot) * dlosses, 0 in ignored rows; dinp += d @ head; dhead += d.T @ inp.
    Shapes: inp, dinp (N, C); head, dhead (V, C); targets (B, T) int32; logits (N, V); lse, dlosses (N,).
    Threads: both jobs in one launch, by the block's role. Block n < N owns row n of dinp and walks the vocabulary 128
    tokens at a time; block N + v owns row v of dhead and walks the rows 128 at a time.
    Shared memory: 128 floats: the part of d in hand. d is never stored, so nobody waits for it.
    Reads + writes: reads inp and head N V C each, logits, lse and dlosses 2 N V each, targets N (V + blockDim),
    dinp N C ceil(V / 128), dhead V C ceil(N / 128); writes dinp N C ceil(V / 128), dhead V C ceil(N / 128). Each role
    makes d, and so reads the logits, for itself.
    Saves: nothing; uses logits and lse from forward (and inp).
    """
    tx = cuda.threadIdx.x
    part = cuda.shared.array(CHUNK, float32)
    if cuda.blockIdx.x < N:
        row = cuda.blockIdx.x
        target = targets[row // T, row % T]
        for v0 in range(0, V, CHUNK):
            size = min(CHUNK, V - v0)
            for i in range(tx, size, cuda.blockDim.x):
                part[i] = dlogit(logits[row, v0 + i], lse[row], dlosses[row], v0 + i, target)
            cuda.syncthreads()
            for c in range(tx, C, cuda.blockDim.x):
                acc = float32(0.0)
                for i in range(size):
                    acc += part[i] * head[v0 + i, c]
                dinp[row, c] += acc
            cuda.syncthreads()
    else:
        token = cuda.blockIdx.x - N
        for r0 in range(0, N, CHUNK):
            size = min(CHUNK, N - r0)
            for i in range(tx, size, cuda.blockDim.x):
                r = r0 + i
                part[i] = dlogit(logits[r, token], lse[r], dlosses[r], token, targets[r // T, r % T])
            cuda.syncthreads()
            for c in range(tx, C, cuda.blockDim.x):
                acc = float32(0.0)
                for i in range(size):
                    acc += part[i] * inp[r0 + i, c]
                dhead[token, c] += acc
            cuda.syncthreads()


# ---------------------------------------------------------------- fine pair: head


def _example_head_fwd(block):
    N, C, V = 5, 20, 150
    return N, (wave(N, C), wave(V, C, seed=2), np.zeros((N, V), np.float32), C, V)


@register(ANY_BLOCK, _example_head_fwd)
@kernel
def k_head_fwd(inp, head, logits, C, V):
    """The output head, a projection by the transposed weight.

    Maths: logits = inp @ head.T.
    Shapes: inp (N, C); head (V, C); logits (N, V).
    Threads: block n owns row n; its threads take tokens tx, tx + blockDim, ...
    Shared memory: none.
    Reads + writes: reads inp and head N V C each; writes logits N V.
    Saves: nothing new; backward needs inp.
    """
    row = cuda.blockIdx.x
    for v in range(cuda.threadIdx.x, V, cuda.blockDim.x):
        acc = float32(0.0)
        for c in range(C):
            acc += inp[row, c] * head[v, c]
        logits[row, v] = acc


def _example_head_bwd(block):
    N, C, V = 7, 40, 6
    return N + V, (wave(N, C), wave(V, C, seed=2), wave(N, V, seed=3), wave(N, C, seed=4), wave(V, C, seed=5), N, C, V)


@register(ANY_BLOCK, _example_head_bwd)
@kernel
def k_head_bwd(inp, head, dlogits, dinp, dhead, N, C, V):
    """Both gradients of the output head in one launch.

    Maths: dinp += dlogits @ head; dhead += dlogits.T @ inp.
    Shapes: inp, dinp (N, C); head, dhead (V, C); dlogits (N, V).
    Threads: both jobs in one launch: block n < N owns row n of dinp, block N + v owns row v of dhead.
    Shared memory: none.
    Reads + writes: reads dlogits 2 N V C, inp and head N V C each, dinp N C, dhead V C; writes dinp N C, dhead V C.
    Saves: nothing; uses inp.
    """
    if cuda.blockIdx.x < N:
        row = cuda.blockIdx.x
        for c in range(cuda.threadIdx.x, C, cuda.blockDim.x):
            acc = float32(0.0)
            for v in range(V):
                acc += dlogits[row, v] * head[v, c]
            dinp[row, c] += acc
    else:
        token = cuda.blockIdx.x - N
        for c in range(cuda.threadIdx.x, C, cuda.blockDim.x):
            acc = float32(0.0)
            for r in range(N):
                acc += dlogits[r, token] * inp[r, c]
            dhead[token, c] += acc


# ---------------------------------------------------------------- fine pair: xent


def _example_xent_fwd(block):
    logits, targets = wave(6, 300, scale=200.0), tokens(2, 3, vocab=300)
    targets[0, 1] = -1
    return 6, (logits, targets, np.zeros(6, np.float32), np.zeros(6, np.float32), 3, 300)


@register((NT,), _example_xent_fwd)
@kernel
def k_xent_fwd(logits, targets, lse, losses, T, V):
    """Softmax cross-entropy of a row.

    Maths: lse = logsumexp(logits); losses = lse - logits[target], 0 for an ignored target.
    Shapes: logits (N, V); targets (B, T) int32; lse, losses (N,).
    Threads: block n owns row n; thread t takes logits t, t + 128, ...
    Shared memory: 128 floats, for the trees of maximum and sum.
    Reads + writes: reads logits 2 N V + hits, targets N; writes lse and losses N each;
    where hits = count(targets >= 0). One exponential per logit.
    Saves: lse; softmax = exp(logits - lse).
    """
    row = cuda.blockIdx.x
    tx = cuda.threadIdx.x
    part = cuda.shared.array(NT, float32)
    top = float32(LOWEST)
    for v in range(tx, V, NT):
        top = max(top, logits[row, v])
    part[tx] = top
    cuda.syncthreads()
    s = NT // 2
    while s > 0:
        if tx < s:
            part[tx] = max(part[tx], part[tx + s])
        cuda.syncthreads()
        s //= 2
    m = part[0]
    cuda.syncthreads()
    total = float32(0.0)
    for v in range(tx, V, NT):
        total += math.exp(logits[row, v] - m)
    part[tx] = total
    cuda.syncthreads()
    s = NT // 2
    while s > 0:
        if tx < s:
            part[tx] += part[tx + s]
        cuda.syncthreads()
        s //= 2
    if tx == 0:
        log_sum = m + math.log(part[0])
        lse[row] = log_sum
        target = targets[row // T, row % T]
        loss = float32(0.0)
        if target >= 0:
            loss = log_sum - logits[row, target]
        losses[row] = loss


def _example_xent_bwd(block):
    targets = tokens(2, 3, vocab=300)
    targets[0, 1] = -1
    args = (wave(6, 300, scale=4.0), targets, wave(6, seed=2), wave(6, seed=3), wave(6, 300, seed=4))
    return 6, (*args, 3, 300)


@register(ANY_BLOCK, _example_xent_bwd)
@kernel
def k_xent_bwd(logits, targets, lse, dlosses, dlogits, T, V):
    """The gradient of the logits.

    Maths: dlogits += (softmax - onehot) * dlosses, where the target is not ignored.
    Shapes: logits, dlogits (N, V); targets (B, T) int32; lse, dlosses (N,).
    Threads: block n owns row n; its threads take tokens tx, tx + blockDim, ...; one thread then takes away the one-hot.
    Shared memory: none.
    Reads + writes: reads logits N V, dlogits N V + hits, targets, lse and dlosses N blockDim each;
    writes dlogits N V + hits; where hits = count(targets >= 0). One exponential per logit.
    Saves: nothing; uses lse from forward (and logits).
    """
    row = cuda.blockIdx.x
    target = targets[row // T, row % T]
    shift = lse[row]
    scale = dlosses[row]
    if target < 0:
        scale = float32(0.0)
    for v in range(cuda.threadIdx.x, V, cuda.blockDim.x):
        dlogits[row, v] += math.exp(logits[row, v] - shift) * scale
    cuda.syncthreads()
    if cuda.threadIdx.x == 0 and target >= 0:
        dlogits[row, target] -= scale


@register(ANY_BLOCK, _example_xent_bwd)
@kernel
def k_xent_dlogits(logits, targets, lse, dlosses, dlogits, T, V):
    """The gradient of the logits, overwriting what was there.

    Maths: dlogits = (softmax - onehot) * dlosses, 0 in ignored rows; dlogits may be the array logits itself.
    Shapes: logits, dlogits (N, V); targets (B, T) int32; lse, dlosses (N,).
    Threads: block n owns row n; its threads take tokens tx, tx + blockDim, ...; one thread then takes away the one-hot.
    Shared memory: none.
    Reads + writes: reads logits N V, dlogits hits, targets, lse and dlosses N blockDim each; writes dlogits N V + hits;
    where hits = count(targets >= 0). One exponential per logit.
    Saves: nothing; uses lse from forward (and logits).
    Changed: against k_xent_bwd, nothing is kept, so the largest activation of the model needs no second buffer.
    """
    row = cuda.blockIdx.x
    target = targets[row // T, row % T]
    shift = lse[row]
    scale = dlosses[row]
    if target < 0:
        scale = float32(0.0)
    for v in range(cuda.threadIdx.x, V, cuda.blockDim.x):
        dlogits[row, v] = math.exp(logits[row, v] - shift) * scale
    cuda.syncthreads()
    if cuda.threadIdx.x == 0 and target >= 0:
        dlogits[row, target] -= scale


# ---------------------------------------------------------------- launches


def forward(inp, head, targets, logits, lse, losses):
    """Launches: logits = inp @ head.T, then lse and losses."""
    return [*head_forward(inp, head, logits), *xent_forward(logits, targets, lse, losses)]


def backward(inp, head, targets, logits, lse, dlosses, dlogits, dinp, dhead):
    """Launches that overwrite the scratch dlogits (N, V), which may be logits itself, and add to dinp and dhead."""
    (N, V), T = logits.shape, targets.shape[1]
    return [
        k_xent_dlogits[N, row_block(V)].bind(logits, targets, lse, dlosses, dlogits, T, V),
        *head_backward(inp, head, dlogits, dinp, dhead),
    ]


def named_forward(inp, head, targets, logits, lse, losses):
    """One launch of k_loss_fwd."""
    (N, C), V, T = inp.shape, head.shape[0], targets.shape[1]
    return [k_loss_fwd[N, NT].bind(inp, head, targets, logits, lse, losses, T, C, V)]


def named_backward(inp, head, targets, logits, lse, dlosses, dlogits, dinp, dhead):
    """One launch of k_loss_bwd; it leaves the scratch dlogits alone."""
    (N, C), V, T = inp.shape, head.shape[0], targets.shape[1]
    return [k_loss_bwd[N + V, NT].bind(inp, head, targets, logits, lse, dlosses, dinp, dhead, N, T, C, V)]


def head_forward(inp, head, logits):
    """Launches: logits (N, V) = inp @ head.T."""
    return gemm(inp, head, logits, tb=True)


def head_backward(inp, head, dlogits, dinp, dhead):
    """Launches that add to dinp and dhead."""
    return together(gemm(dlogits, head, dinp, add=True), gemm(dlogits, inp, dhead, ta=True, add=True))


def head_named_forward(inp, head, logits):
    """One launch of k_head_fwd."""
    (N, C), V = inp.shape, head.shape[0]
    return [k_head_fwd[N, NT].bind(inp, head, logits, C, V)]


def head_named_backward(inp, head, dlogits, dinp, dhead):
    """One launch of k_head_bwd."""
    (N, C), V = inp.shape, head.shape[0]
    return [k_head_bwd[N + V, NT].bind(inp, head, dlogits, dinp, dhead, N, C, V)]


def xent_forward(logits, targets, lse, losses):
    """One launch that writes lse and losses."""
    (N, V), T = logits.shape, targets.shape[1]
    return [k_xent_fwd[N, NT].bind(logits, targets, lse, losses, T, V)]


def xent_backward(logits, targets, lse, dlosses, dlogits):
    """One launch that adds to dlogits."""
    (N, V), T = logits.shape, targets.shape[1]
    return [k_xent_bwd[N, row_block(V)].bind(logits, targets, lse, dlosses, dlogits, T, V)]


PAIRS = (
    Pair(
        "loss",
        k_loss_fwd,
        k_loss_bwd,
        forward,
        backward,
        named_forward,
        named_backward,
        saved=("inp", "logits", "lse"),
        folds=("head", "xent"),
    ),
)
FINE = (
    Pair(
        "head",
        k_head_fwd,
        k_head_bwd,
        head_forward,
        head_backward,
        head_named_forward,
        head_named_backward,
        saved=("inp",),
    ),
    Pair(
        "xent",
        k_xent_fwd,
        k_xent_bwd,
        xent_forward,
        xent_backward,
        xent_forward,
        xent_backward,
        saved=("logits", "lse"),
    ),
)
