"""Peers in NumPy, as their author would defend them: no power function, results into `out=`, temporaries allocated
once, BLAS where a sum is a product of matrices, and long vectors walked in pieces that stay in the cache.

Each function allocates what it needs and returns a callable of no arguments that does the work. Shapes as in `kernels`:
activations (N, C) float32, and gradients are added.
"""

from math import sqrt

import numpy as np

F = np.float32
GELU_ROOT, GELU_CUBE = F(sqrt(2.0 / np.pi)), F(0.044715)
PIECE = 1 << 16  # elements of a temporary: 256 KiB, so that the few in use stay in the cache


def pieces(size):
    return [slice(i, min(i + PIECE, size)) for i in range(0, size, PIECE)]


def _gelu_tanh(x, square, t):
    """square = x^2 and t = tanh(sqrt(2/pi) (x + 0.044715 x^3))."""
    np.multiply(x, x, out=square)
    np.multiply(square, GELU_CUBE * GELU_ROOT, out=t)
    np.add(t, GELU_ROOT, out=t)
    np.multiply(t, x, out=t)
    np.tanh(t, out=t)


def gelu_fwd(inp, out):
    flat, result = inp.ravel(), out.reshape(-1)
    square, t = np.empty(PIECE, F), np.empty(PIECE, F)

    def run():
        for cut in pieces(flat.size):
            x, y = flat[cut], result[cut]
            a, b = square[: x.size], t[: x.size]
            _gelu_tanh(x, a, b)
            np.add(b, F(1.0), out=b)
            np.multiply(b, x, out=b)
            np.multiply(b, F(0.5), out=y)

    return run


def gelu_bwd(inp, dout, dinp):
    flat, up, down = inp.ravel(), dout.ravel(), dinp.reshape(-1)
    square, tanh, slope = np.empty(PIECE, F), np.empty(PIECE, F), np.empty(PIECE, F)

    def run():
        for cut in pieces(flat.size):
            x, dy, dx = flat[cut], up[cut], down[cut]
            a, t, s = square[: x.size], tanh[: x.size], slope[: x.size]
            _gelu_tanh(x, a, t)
            np.multiply(a, F(3.0) * GELU_CUBE * GELU_ROOT, out=a)
            np.add(a, GELU_ROOT, out=a)
            np.multiply(t, t, out=s)
            np.subtract(F(1.0), s, out=s)
            np.multiply(s, a, out=s)
            np.multiply(s, x, out=s)
            np.add(s, t, out=s)
            np.add(s, F(1.0), out=s)
            np.multiply(s, F(0.5), out=s)
            np.multiply(s, dy, out=s)
            np.add(dx, s, out=dx)

    return run


def layernorm_fwd(inp, gamma, beta, out, mean, rstd, eps):
    square = np.empty(inp.shape[0], F)
    width = F(inp.shape[1])

    def run():
        np.mean(inp, axis=1, out=mean)
        np.subtract(inp, mean[:, None], out=out)
        np.einsum("nc,nc->n", out, out, out=square)
        np.divide(square, width, out=square)
        np.add(square, eps, out=square)
        np.sqrt(square, out=square)
        np.divide(F(1.0), square, out=rstd)
        np.multiply(out, rstd[:, None], out=out)
        np.multiply(out, gamma, out=out)
        np.add(out, beta, out=out)

    return run


def layernorm_bwd(inp, gamma, mean, rstd, dout, dinp, dgamma, dbeta):
    xhat, d = np.empty_like(inp), np.empty_like(inp)
    row, along, column = np.empty(len(inp), F), np.empty(len(inp), F), np.empty(inp.shape[1], F)
    width = F(inp.shape[1])

    def run():
        np.subtract(inp, mean[:, None], out=xhat)
        np.multiply(xhat, rstd[:, None], out=xhat)
        np.einsum("nc,nc->c", dout, xhat, out=column)
        np.add(dgamma, column, out=dgamma)
        np.sum(dout, axis=0, out=column)
        np.add(dbeta, column, out=dbeta)
        np.multiply(dout, gamma, out=d)
        np.mean(d, axis=1, out=row)
        np.einsum("nc,nc->n", d, xhat, out=along)
        np.divide(along, width, out=along)
        np.multiply(xhat, along[:, None], out=xhat)
        np.subtract(d, row[:, None], out=d)
        np.subtract(d, xhat, out=d)
        np.multiply(d, rstd[:, None], out=d)
        np.add(dinp, d, out=dinp)

    return run


def xent_fwd(logits, targets, lse, losses):
    e, top = np.empty_like(logits), np.empty(len(logits), F)
    rows, ids, ignored = np.arange(len(logits)), np.maximum(targets, 0), targets < 0

    def run():
        np.max(logits, axis=1, out=top)
        np.subtract(logits, top[:, None], out=e)
        np.exp(e, out=e)
        np.sum(e, axis=1, out=lse)
        np.log(lse, out=lse)
        np.add(lse, top, out=lse)
        np.subtract(lse, logits[rows, ids], out=losses)
        losses[ignored] = 0.0

    return run


def xent_bwd(logits, targets, lse, dlosses, dlogits):
    rows, ids, counted = np.arange(len(logits)), np.maximum(targets, 0), (targets >= 0).astype(F)
    scale = np.empty(len(logits), F)

    def run():
        np.multiply(dlosses, counted, out=scale)
        np.subtract(logits, lse[:, None], out=dlogits)
        np.exp(dlogits, out=dlogits)
        np.multiply(dlogits, scale[:, None], out=dlogits)
        dlogits[rows, ids] -= scale

    return run


def _heads(x, lse):
    """(N, C) seen as (B, NH, T, HS), without a copy; BLAS takes the rows as they lie."""
    batch, heads, steps = lse.shape
    return x.reshape(batch, steps, heads, -1).transpose(0, 2, 1, 3)


def attn_fwd(q, k, v, out, lse):
    batch, heads, steps = lse.shape
    hq, hk, hv, ho = (_heads(x, lse) for x in (q, k, v, out))
    s, row = np.empty((batch, heads, steps, steps), F), np.empty((batch, heads, steps, 1), F)
    scale, future = F(1.0 / sqrt(hq.shape[-1])), np.triu(np.full((steps, steps), -np.inf, F), 1)

    def run():
        np.matmul(hq, hk.swapaxes(2, 3), out=s)
        np.multiply(s, scale, out=s)
        np.add(s, future, out=s)
        np.max(s, axis=3, keepdims=True, out=row)
        np.subtract(s, row, out=s)
        np.exp(s, out=s)
        lse[:] = row[..., 0]
        np.sum(s, axis=3, keepdims=True, out=row)
        np.divide(s, row, out=s)
        np.log(row, out=row)
        np.add(lse, row[..., 0], out=lse)
        np.matmul(s, hv, out=ho)

    return run


def attn_bwd(q, k, v, out, lse, dout, dq, dk, dv):
    batch, heads, steps = lse.shape
    hq, hk, hv, ho, hd = (_heads(x, lse) for x in (q, k, v, out, dout))
    gq, gk, gv = (_heads(x, lse) for x in (dq, dk, dv))
    p, s = np.empty((batch, heads, steps, steps), F), np.empty((batch, heads, steps, steps), F)
    delta, product = np.empty((batch, heads, steps), F), np.empty(hq.shape, F)
    scale, future = F(1.0 / sqrt(hq.shape[-1])), np.triu(np.full((steps, steps), -np.inf, F), 1)

    def run():
        np.matmul(hq, hk.swapaxes(2, 3), out=p)
        np.multiply(p, scale, out=p)
        np.add(p, future, out=p)
        np.subtract(p, lse[..., None], out=p)
        np.exp(p, out=p)
        np.einsum("bhtd,bhtd->bht", ho, hd, out=delta)
        np.matmul(hd, hv.swapaxes(2, 3), out=s)
        np.subtract(s, delta[..., None], out=s)
        np.multiply(s, p, out=s)
        np.multiply(s, scale, out=s)
        for left, right, grad in ((s, hk, gq), (s.swapaxes(2, 3), hq, gk), (p.swapaxes(2, 3), hd, gv)):
            np.matmul(left, right, out=product)
            np.add(grad, product, out=grad)

    return run


def embed_fwd(tokens, wte, wpe, out):
    steps = tokens.shape[1]
    ids, sequences = tokens.ravel(), out.reshape(*tokens.shape, -1)

    def run():
        np.take(wte, ids, axis=0, out=out, mode="clip")  # "clip" writes into out directly; the ids are in range
        np.add(sequences, wpe[:steps], out=sequences)

    return run


def embed_bwd(tokens, dout, dwte, dwpe):
    steps = tokens.shape[1]
    ids, sequences = tokens.ravel(), dout.reshape(*tokens.shape, -1)

    def run():
        np.add.at(dwte, ids, dout)
        for sequence in sequences:
            np.add(dwpe[:steps], sequence, out=dwpe[:steps])

    return run


def residual_fwd(a, b, out):
    return lambda: np.add(a, b, out=out)


def residual_bwd(dout, da, db):
    def run():
        np.add(da, dout, out=da)
        np.add(db, dout, out=db)

    return run


def adamw(w, g, m, v, factor, lr, beta1, beta2, eps, corr1, corr2, regions):
    """regions: (start, stop, decay) cut the vectors, decay a number."""
    grad, step = np.empty(PIECE, F), np.empty(PIECE, F)

    def update(w, g, m, v, decay):
        d, s = grad[: w.size], step[: w.size]
        np.multiply(g, factor, out=d)
        np.multiply(m, beta1, out=m)
        np.multiply(d, F(1.0) - beta1, out=s)
        np.add(m, s, out=m)
        np.multiply(d, d, out=d)
        np.multiply(d, F(1.0) - beta2, out=d)
        np.multiply(v, beta2, out=v)
        np.add(v, d, out=v)
        np.multiply(v, corr2, out=d)
        np.sqrt(d, out=d)
        np.add(d, eps, out=d)
        np.divide(m, d, out=s)
        np.multiply(s, lr * corr1, out=s)
        if decay:
            np.multiply(w, F(1.0) - lr * decay, out=w)
        np.subtract(w, s, out=w)

    def run():
        for start, stop, decay in regions:
            for cut in pieces(stop - start):
                update(w[start:stop][cut], g[start:stop][cut], m[start:stop][cut], v[start:stop][cut], decay)

    return run


def grad_norm(g, out):
    def run():
        out[0] = sqrt(sum(float(np.dot(g[cut], g[cut])) for cut in pieces(g.size)))  # one long float32 sum loses digits

    return run


def zero(g):
    return lambda: g.fill(0.0)


def scale(g, factor):
    return lambda: np.multiply(g, factor, out=g)


def matmul(a, b, out):
    return lambda: np.matmul(a, b, out=out)
