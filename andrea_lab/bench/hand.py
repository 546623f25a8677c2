"""Peers written by hand: `@njit(parallel=True, fastmath=True)` loops, as a strong Numba user writes them for a CPU.

What such a user knows and does here: contiguous inner loops, no temporaries, no atomics (work is cut so that threads
never meet), keys and values of a head transposed once so that scores vectorise along the keys, loops unrolled by hand
where that saves loads, and a short polynomial in place of the maths library's scalar exp and tanh. Shapes as in
`kernels`: activations (N, C) float32, and gradients are added.
"""

import math

import numpy as np
from numba import njit, prange

F = np.float32
ZERO, HALF, ONE, TWO = F(0.0), F(0.5), F(1.0), F(2.0)
GELU_ROOT, GELU_CUBE, GELU_CUBE3 = F(math.sqrt(2.0 / math.pi)), F(0.044715), F(3 * 0.044715)
LOG2_E = F(1.4426950408889634)
LN2_HIGH = F(0.693145751953125)  # ln 2 = high + low, the high part with zeros at its end, so that n * high is exact
LN2_LOW = F(1.4286068203094172e-06)
ROUND = F(12582912.0)  # 1.5 * 2^23: adding and taking it away again rounds to the nearest integer
LOWEST, HIGHEST = F(-87.0), F(88.0)
# Taylor's coefficients 1/k!; on |r| <= ln(2)/2 the first one left out is below half a unit in the last place.
C2, C3, C4, C5, C6, C7 = F(1 / 2), F(1 / 6), F(1 / 24), F(1 / 120), F(1 / 720), F(1 / 5040)
CHUNK = 1 << 14
HEAD = 32  # width of a head; a constant, so that the compiler knows the length of the short loops

loop = njit(parallel=True, fastmath=True, error_model="numpy", cache=True)
fast = njit(fastmath=True, error_model="numpy", cache=True)
# No reassociation here, it would cancel the rounding trick of exp32; loops around these may have it.
inner = njit(fastmath={"contract"}, error_model="numpy", cache=True)


@inner
def exp32(x):
    """e^x for float32 x, clamped to [-87, 88]; relative error below 2e-7."""
    x = min(max(x, LOWEST), HIGHEST)
    n = (x * LOG2_E + ROUND) - ROUND
    r = x - n * LN2_HIGH - n * LN2_LOW
    p = ((((C7 * r + C6) * r + C5) * r + C4) * r + C3) * r + C2
    p = p * r * r + r + ONE
    power = (np.int32(n) + np.int32(127)) << np.int32(23)  # the bits of 2^n
    return p * np.int32(power).view(np.float32)


@inner
def tanh32(x):
    """tanh x for float32 x; absolute error below 2e-7."""
    return ONE - TWO / (exp32(TWO * x) + ONE)


@loop
def gelu_fwd(inp, out):
    for r in prange(inp.shape[0]):
        for j in range(inp.shape[1]):
            x = inp[r, j]
            u = GELU_ROOT * x * (ONE + GELU_CUBE * x * x)
            out[r, j] = HALF * x * (ONE + tanh32(u))


@loop
def gelu_bwd(inp, dout, dinp):
    for r in prange(inp.shape[0]):
        for j in range(inp.shape[1]):
            x = inp[r, j]
            t = tanh32(GELU_ROOT * x * (ONE + GELU_CUBE * x * x))
            slope = GELU_ROOT * (ONE + GELU_CUBE3 * x * x)
            dinp[r, j] += dout[r, j] * HALF * (ONE + t + x * (ONE - t * t) * slope)


@loop
def layernorm_fwd(inp, gamma, beta, out, mean, rstd, eps):
    width = F(inp.shape[1])
    for r in prange(inp.shape[0]):
        total = ZERO
        for j in range(inp.shape[1]):
            total += inp[r, j]
        mu = total / width
        total = ZERO
        for j in range(inp.shape[1]):
            d = inp[r, j] - mu
            total += d * d
        rs = ONE / math.sqrt(total / width + eps)
        for j in range(inp.shape[1]):
            out[r, j] = (inp[r, j] - mu) * rs * gamma[j] + beta[j]
        mean[r] = mu
        rstd[r] = rs


@loop
def layernorm_bwd(inp, gamma, mean, rstd, dout, dinp, dgamma, dbeta, part):
    """part: (chunks, 2, C) scratch, one row of sums for dgamma and one for dbeta in each chunk of rows."""
    rows, width = inp.shape
    chunks = part.shape[0]
    for c in prange(chunks):
        for j in range(width):
            part[c, 0, j] = ZERO
            part[c, 1, j] = ZERO
        for r in range(c * rows // chunks, (c + 1) * rows // chunks):
            mu, rs = mean[r], rstd[r]
            a, b = ZERO, ZERO
            for j in range(width):
                g = dout[r, j] * gamma[j]
                a += g
                b += g * (inp[r, j] - mu) * rs
            a /= F(width)
            b /= F(width)
            for j in range(width):
                d = dout[r, j]
                xhat = (inp[r, j] - mu) * rs
                dinp[r, j] += rs * (d * gamma[j] - a - xhat * b)
                part[c, 0, j] += d * xhat
                part[c, 1, j] += d
    for c in range(chunks):
        for j in range(width):
            dgamma[j] += part[c, 0, j]
            dbeta[j] += part[c, 1, j]


@loop
def xent_fwd(logits, targets, lse, losses):
    for r in prange(logits.shape[0]):
        top = logits[r, 0]
        for j in range(logits.shape[1]):
            top = max(top, logits[r, j])
        total = ZERO
        for j in range(logits.shape[1]):
            total += exp32(logits[r, j] - top)
        lse[r] = top + math.log(total)
        losses[r] = lse[r] - logits[r, targets[r]] if targets[r] >= 0 else ZERO


@loop
def xent_bwd(logits, targets, lse, dlosses, dlogits):
    for r in prange(logits.shape[0]):
        scale = dlosses[r] if targets[r] >= 0 else ZERO
        for j in range(logits.shape[1]):
            dlogits[r, j] = exp32(logits[r, j] - lse[r]) * scale
        if targets[r] >= 0:
            dlogits[r, targets[r]] -= scale


@inner
def head_of(x, row, col, rows):
    """The (rows, HEAD) piece of x at (row, col), copied: contiguous, and indexed from zero."""
    piece = np.empty((rows, HEAD), np.float32)
    for i in range(rows):
        for d in range(HEAD):
            piece[i, d] = x[row + i, col + d]
    return piece


@fast
def products(x, columns, n, out):
    """out[j] = sum over d of x[d] * columns[d, j] for j < n; d goes four at a time."""
    for j in range(n):
        out[j] = x[0] * columns[0, j] + x[1] * columns[1, j] + x[2] * columns[2, j] + x[3] * columns[3, j]
    for d in range(4, HEAD, 4):
        x0, x1, x2, x3 = x[d], x[d + 1], x[d + 2], x[d + 3]
        for j in range(n):
            out[j] += x0 * columns[d, j] + x1 * columns[d + 1, j] + x2 * columns[d + 2, j] + x3 * columns[d + 3, j]


@fast
def gather(p, n, x, out):
    """out += sum over j < n of p[j] * x[j]; j goes four at a time."""
    full = n // 4 * 4
    for j in range(0, full, 4):
        p0, p1, p2, p3 = p[j], p[j + 1], p[j + 2], p[j + 3]
        for d in range(HEAD):
            out[d] += p0 * x[j, d] + p1 * x[j + 1, d] + p2 * x[j + 2, d] + p3 * x[j + 3, d]
    for j in range(full, n):
        for d in range(HEAD):
            out[d] += p[j] * x[j, d]


@fast
def scatter(p, n, x0, x1, x2, x3, out):
    """out[j] += p[0, j] * x0 + ... + p[3, j] * x3 for j < n."""
    for j in range(n):
        p0, p1, p2, p3 = p[0, j], p[1, j], p[2, j], p[3, j]
        for d in range(HEAD):
            out[j, d] += p0 * x0[d] + p1 * x1[d] + p2 * x2[d] + p3 * x3[d]


@fast
def attn_fwd_head(q, keys, v, scale, out, lse):
    p = np.empty(q.shape[0], np.float32)
    for i in range(q.shape[0]):
        n = i + 1
        products(q[i], keys, n, p)
        top = p[0]
        for j in range(n):
            top = max(top, p[j])
        total = ZERO
        for j in range(n):
            p[j] = exp32((p[j] - top) * scale)
            total += p[j]
        for d in range(HEAD):
            out[i, d] = ZERO
        gather(p, n, v, out[i])
        for d in range(HEAD):
            out[i, d] /= total
        lse[i] = top * scale + math.log(total)


@loop
def attn_fwd(q, k, v, out, lse):
    """Heads of width HEAD; one task a head, one query at a time, scores of a query in one short array."""
    batch, heads, steps = lse.shape
    scale = F(1.0 / math.sqrt(HEAD))
    for bh in prange(batch * heads):
        row, col = bh // heads * steps, bh % heads * HEAD
        keys = np.ascontiguousarray(head_of(k, row, col, steps).T)
        result = np.empty((steps, HEAD), np.float32)
        piece = lse[bh // heads, bh % heads]
        attn_fwd_head(head_of(q, row, col, steps), keys, head_of(v, row, col, steps), scale, result, piece)
        out[row : row + steps, col : col + HEAD] = result


@fast
def attn_bwd_head(q, k, keys, values, out, dout, lse, scale, dq, dk, dv):
    steps = q.shape[0]
    p, s = np.empty((4, steps), np.float32), np.empty((4, steps), np.float32)
    for first in range(0, steps, 4):
        for u in range(4):
            i, n = first + u, first + u + 1
            products(q[i], keys, n, p[u])
            products(dout[i], values, n, s[u])
            delta = ZERO
            for d in range(HEAD):
                delta += out[i, d] * dout[i, d]
            shift = lse[i]
            for j in range(n):
                p[u, j] = exp32(p[u, j] * scale - shift)
                s[u, j] = p[u, j] * (s[u, j] - delta) * scale
            for j in range(n, first + 4):
                p[u, j] = ZERO
                s[u, j] = ZERO
            gather(s[u], n, k, dq[i])
        scatter(s, first + 4, q[first], q[first + 1], q[first + 2], q[first + 3], dk)
        scatter(p, first + 4, dout[first], dout[first + 1], dout[first + 2], dout[first + 3], dv)


@loop
def attn_bwd(q, k, v, out, lse, dout, dq, dk, dv):
    """As attn_fwd; four queries share a pass over dk and dv, so the number of steps is a multiple of four."""
    batch, heads, steps = lse.shape
    scale = F(1.0 / math.sqrt(HEAD))
    for bh in prange(batch * heads):
        row, col = bh // heads * steps, bh % heads * HEAD
        end, right = row + steps, col + HEAD
        hk, hv = head_of(k, row, col, steps), head_of(v, row, col, steps)
        hq, ho, hd = head_of(q, row, col, steps), head_of(out, row, col, steps), head_of(dout, row, col, steps)
        gq, gk, gv = np.zeros_like(hq), np.zeros_like(hq), np.zeros_like(hq)
        keys, values = np.ascontiguousarray(hk.T), np.ascontiguousarray(hv.T)
        attn_bwd_head(hq, hk, keys, values, ho, hd, lse[bh // heads, bh % heads], scale, gq, gk, gv)
        dq[row:end, col:right] += gq
        dk[row:end, col:right] += gk
        dv[row:end, col:right] += gv


@loop
def embed_fwd(tokens, wte, wpe, out):
    steps = tokens.shape[1]
    for r in prange(out.shape[0]):
        token, t = tokens[r // steps, r % steps], r % steps
        for j in range(out.shape[1]):
            out[r, j] = wte[token, j] + wpe[t, j]


@loop
def embed_bwd(tokens, dout, dwte, dwpe, pieces):
    """The columns are cut into `pieces`, one task each, so that no two threads add to the same element."""
    steps, width = tokens.shape[1], dout.shape[1]
    for c in prange(pieces):
        first, last = c * width // pieces, (c + 1) * width // pieces
        for r in range(dout.shape[0]):
            token, t = tokens[r // steps, r % steps], r % steps
            source, word, place = dout[r][first:last], dwte[token][first:last], dwpe[t][first:last]
            for j in range(last - first):
                word[j] += source[j]
                place[j] += source[j]


@loop
def residual_fwd(a, b, out):
    for r in prange(a.shape[0]):
        for j in range(a.shape[1]):
            out[r, j] = a[r, j] + b[r, j]


@loop
def residual_bwd(dout, da, db):
    for r in prange(dout.shape[0]):
        for j in range(dout.shape[1]):
            da[r, j] += dout[r, j]
            db[r, j] += dout[r, j]


@loop
def adamw(w, g, m, v, factor, lr, beta1, beta2, eps, decay, corr1, corr2):
    for i in prange(w.size):
        d = g[i] * factor
        m[i] = beta1 * m[i] + (ONE - beta1) * d
        v[i] = beta2 * v[i] + (ONE - beta2) * d * d
        w[i] -= lr * (m[i] * corr1 / (math.sqrt(v[i] * corr2) + eps) + decay * w[i])


@loop
def grad_norm(g, part, out):
    """out[0] = the length of g; part: (chunks,) scratch. Sums of short chunks keep float32 accurate."""
    for c in prange(part.size):
        piece = g[c * CHUNK : (c + 1) * CHUNK]
        total = ZERO
        for i in range(piece.size):
            total += piece[i] * piece[i]
        part[c] = total
    total = ZERO
    for c in range(part.size):
        total += part[c]
    out[0] = math.sqrt(total)


@loop
def zero(g):
    for i in prange(g.size):
        g[i] = ZERO


@loop
def scale(g, factor):
    for i in prange(g.size):
        g[i] *= factor


@loop
def matmul_rows(a, b, out):
    """out = a @ b, row by row: a row of b is added, scaled, to a row of out."""
    for i in prange(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = ZERO
        for k in range(a.shape[1]):
            x = a[i, k]
            for j in range(b.shape[1]):
                out[i, j] += x * b[k, j]


@loop
def matmul_unrolled(a, b, out):
    """out = a @ b with 2 rows and 4 values of k in one pass; rows must be even, the inner size a multiple of 4."""
    for pair in prange(a.shape[0] // 2):
        i, n = 2 * pair, 2 * pair + 1
        for j in range(b.shape[1]):
            out[i, j] = ZERO
            out[n, j] = ZERO
        for k in range(0, a.shape[1], 4):
            x0, x1, x2, x3 = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
            y0, y1, y2, y3 = a[n, k], a[n, k + 1], a[n, k + 2], a[n, k + 3]
            for j in range(b.shape[1]):
                b0, b1, b2, b3 = b[k, j], b[k + 1, j], b[k + 2, j], b[k + 3, j]
                out[i, j] += x0 * b0 + x1 * b1 + x2 * b2 + x3 * b3
                out[n, j] += y0 * b0 + y1 * b1 + y2 * b2 + y3 * b3
