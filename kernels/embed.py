"""Token and position embedding: k_embed_fwd, k_embed_bwd, and the two fine pairs token and position."""

import numpy as np
from numba import cuda, float32

from kernels.registry import ANY_BLOCK, Pair, cdiv, register, row_block, tokens, wave
from kernels.target import current, kernel

COLS = 64  # columns of a block that walks all rows
SLICES = 16  # on a GPU, groups of token ids that walk the rows side by side

V_, B_, T_, C_ = 7, 3, 11, 40  # sizes of the examples: every token repeats


def _example_embed_fwd(block):
    N = B_ * T_
    return N, (tokens(B_, T_, vocab=V_), wave(V_, C_), wave(T_ + 2, C_, seed=2), np.zeros((N, C_), np.float32), T_, C_)


@register(ANY_BLOCK, _example_embed_fwd)
@kernel
def k_embed_fwd(tokens, wte, wpe, out, T, C):
    """The embedding of a token at a position.

    Maths: out[n] = wte[token of row n] + wpe[n mod T].
    Shapes: tokens (B, T) int32; wte (V, C); wpe (context, C), context >= T; out (B*T, C).
    Threads: block n owns row n; its threads take columns tx, tx + blockDim, ...
    Shared memory: none.
    Reads + writes: reads tokens B T blockDim, wte and wpe B T C each; writes out B T C. Every thread reads the token of
    its row.
    Saves: nothing new; backward needs the tokens.
    """
    row = cuda.blockIdx.x
    t = row % T
    token = tokens[row // T, t]
    for j in range(cuda.threadIdx.x, C, cuda.blockDim.x):
        out[row, j] = wte[token, j] + wpe[t, j]


def _example_embed_bwd(block):
    args = (tokens(B_, T_, vocab=V_), wave(B_ * T_, C_, seed=3), wave(V_, C_, seed=4), wave(T_ + 2, C_, seed=5))
    return cdiv(C_, block), (*args, B_, T_, C_)


@register(ANY_BLOCK, _example_embed_bwd)
@kernel
def k_embed_bwd(tokens, dout, dwte, dwpe, B, T, C):
    """Both tables' gradients in one walk over the rows.

    Maths: dwte[token of row n] += dout[n]; dwpe[n mod T] += dout[n].
    Shapes: tokens (B, T) int32; dout (B*T, C); dwte (V, C); dwpe (context, C).
    Threads: thread j owns column j of both tables and walks the rows in order.
    Shared memory: none.
    Reads + writes: reads tokens, dout, dwte and dwpe B T C each; writes dwte and dwpe B T C each.
    Saves: nothing; uses the tokens; an embedding has no other input, so there is no dinp.
    Changed: against one thread per element, no two threads add to one place, so the order of additions is fixed.
    """
    j = cuda.grid(1)
    if j < C:
        for b in range(B):
            for t in range(T):
                d = dout[b * T + t, j]
                dwte[tokens[b, t], j] += d
                dwpe[t, j] += d


# ---------------------------------------------------------------- fine pair: token


def _example_token_fwd(block):
    N = B_ * T_
    return N, (tokens(B_, T_, vocab=V_), wave(V_, C_), np.zeros((N, C_), np.float32), T_, C_)


@register(ANY_BLOCK, _example_token_fwd)
@kernel
def k_token_fwd(tokens, wte, out, T, C):
    """A lookup, no arithmetic.

    Maths: out[n] = wte[token of row n].
    Shapes: tokens (B, T) int32; wte (V, C); out (B*T, C).
    Threads: block n owns row n; its threads take columns tx, tx + blockDim, ...
    Shared memory: none.
    Reads + writes: reads tokens B T blockDim, wte B T C; writes out B T C. Every thread reads the token of its row.
    Saves: nothing new; backward needs the tokens.
    """
    row = cuda.blockIdx.x
    token = tokens[row // T, row % T]
    for j in range(cuda.threadIdx.x, C, cuda.blockDim.x):
        out[row, j] = wte[token, j]


def _example_token_bwd(block):
    args = (tokens(B_, T_, vocab=V_), wave(B_ * T_, C_, seed=3), wave(V_, C_, seed=4))
    return (cdiv(C_, block), 2), (*args, B_, T_, C_)


@register(ANY_BLOCK, _example_token_bwd)
@kernel
def k_token_bwd(tokens, dout, dwte, B, T, C):
    """The token table's gradient.

    Maths: dwte[token of row n] += dout[n].
    Shapes: tokens (B, T) int32; dout (B*T, C); dwte (V, C).
    Threads: grid (columns, slices): thread j of slice s owns column j of the table rows v with v mod slices = s, and
    walks the rows of dout in order. Bits depend on neither.
    Shared memory: none.
    Reads + writes: reads tokens B T C slices, dout and dwte B T C each; writes dwte B T C; where slices = gridDim.y. A
    row of dout is added in one slice alone, its token is read in all.
    Saves: nothing; uses the tokens.
    Changed: against k_embed_bwd, the table is cut into slices, so that a GPU has enough threads.
    """
    j = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if j < C:
        for b in range(B):
            for t in range(T):
                token = tokens[b, t]
                if token % cuda.gridDim.y == cuda.blockIdx.y:
                    dwte[token, j] += dout[b * T + t, j]


# ---------------------------------------------------------------- fine pair: position


def _example_position_fwd(block):
    N = B_ * T_
    return N, (wave(N, C_), wave(T_ + 2, C_, seed=2), np.zeros((N, C_), np.float32), T_, C_)


@register(ANY_BLOCK, _example_position_fwd)
@kernel
def k_position_fwd(inp, wpe, out, T, C):
    """Add the position's row.

    Maths: out[n] = inp[n] + wpe[n mod T].
    Shapes: inp, out (N, C), N = B*T; wpe (context, C).
    Threads: block n owns row n; its threads take columns tx, tx + blockDim, ...
    Shared memory: none.
    Reads + writes: reads inp and wpe N C each; writes out N C.
    Saves: nothing.
    """
    row = cuda.blockIdx.x
    for j in range(cuda.threadIdx.x, C, cuda.blockDim.x):
        out[row, j] = inp[row, j] + wpe[row % T, j]


def _example_position_bwd(block):
    N = B_ * T_
    return T_, (wave(N, C_, seed=3), wave(N, C_, seed=4), wave(T_ + 2, C_, seed=5), B_, T_, C_)


@register(ANY_BLOCK, _example_position_bwd)
@kernel
def k_position_bwd(dout, dinp, dwpe, B, T, C):
    """Hand the gradient on, and sum it over the sequences.

    Maths: dinp[n] += dout[n]; dwpe[t] += sum over the B rows at position t.
    Shapes: dout, dinp (B*T, C); dwpe (context, C).
    Threads: block t owns position t; its threads take columns tx, tx + blockDim, ... through the B sequences in
    order.
    Shared memory: none.
    Reads + writes: reads dout and dinp B T C each, dwpe T C; writes dinp B T C, dwpe T C.
    Saves: nothing.
    """
    t = cuda.blockIdx.x
    for j in range(cuda.threadIdx.x, C, cuda.blockDim.x):
        acc = float32(0.0)
        for b in range(B):
            d = dout[b * T + t, j]
            dinp[b * T + t, j] += d
            acc += d
        dwpe[t, j] += acc


def _example_position_dweight(block):
    return T_, (wave(B_ * T_, C_, seed=3), wave(T_ + 2, C_, seed=5), B_, T_, C_)


@register(ANY_BLOCK, _example_position_dweight)
@kernel
def k_position_dweight(dout, dwpe, B, T, C):
    """The second job of k_position_bwd alone, where nobody needs dinp.

    Maths: dwpe[t] += sum over the B rows at position t.
    Shapes: dout (B*T, C); dwpe (context, C).
    Threads: block t owns position t; its threads take columns tx, tx + blockDim, ... through the B sequences in
    order.
    Shared memory: none.
    Reads + writes: reads dout B T C, dwpe T C; writes dwpe T C.
    Saves: nothing.
    """
    t = cuda.blockIdx.x
    for j in range(cuda.threadIdx.x, C, cuda.blockDim.x):
        acc = float32(0.0)
        for b in range(B):
            acc += dout[b * T + t, j]
        dwpe[t, j] += acc


# ---------------------------------------------------------------- launches


def forward(tokens, wte, wpe, out):
    """One launch: out (B*T, C) = wte[tokens] + wpe[positions]. One kernel is the production path too."""
    (N, C), T = out.shape, tokens.shape[1]
    return [k_embed_fwd[N, row_block(C)].bind(tokens, wte, wpe, out, T, C)]


def backward(tokens, dout, dwte, dwpe):
    """Launches that add to dwte and dwpe."""
    (B, T), C = tokens.shape, dout.shape[1]
    return [*token_backward(tokens, dout, dwte), k_position_dweight[T, row_block(C)].bind(dout, dwpe, B, T, C)]


def named_backward(tokens, dout, dwte, dwpe):
    """One launch of k_embed_bwd, which adds to dwte and dwpe."""
    (B, T), C = tokens.shape, dout.shape[1]
    return [k_embed_bwd[cdiv(C, COLS), COLS].bind(tokens, dout, dwte, dwpe, B, T, C)]


def token_forward(tokens, wte, out):
    """out (B*T, C) = wte[tokens]."""
    (N, C), T = out.shape, tokens.shape[1]
    return [k_token_fwd[N, row_block(C)].bind(tokens, wte, out, T, C)]


def token_backward(tokens, dout, dwte):
    """Adds to dwte."""
    (B, T), C = tokens.shape, dout.shape[1]
    slices = SLICES if current() == "cuda" else 1
    return [k_token_bwd[(cdiv(C, COLS), slices), COLS].bind(tokens, dout, dwte, B, T, C)]


def position_forward(inp, wpe, out, T):
    """out (B*T, C) = inp + wpe[positions]; T is the length of a sequence."""
    N, C = inp.shape
    return [k_position_fwd[N, row_block(C)].bind(inp, wpe, out, T, C)]


def position_backward(dout, dinp, dwpe, T):
    """Adds to dinp and dwpe."""
    N, C = dout.shape
    return [k_position_bwd[T, row_block(C)].bind(dout, dinp, dwpe, N // T, T, C)]


PAIRS = (
    Pair(
        "embed",
        k_embed_fwd,
        k_embed_bwd,
        forward,
        backward,
        named_forward=forward,
        named_backward=named_backward,
        saved=("tokens",),
        folds=("token", "position"),
    ),
)
FINE = (
    Pair("token", k_token_fwd, k_token_bwd, token_forward, token_backward, token_forward, token_backward, ("tokens",)),
    Pair(
        "position",
        k_position_fwd,
        k_position_bwd,
        position_forward,
        position_backward,
        named_forward=position_forward,
        named_backward=position_backward,
    ),
)
