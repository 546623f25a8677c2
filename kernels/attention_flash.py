"""Attention for training: no score matrix in memory, only one number a row (lse) kept between forward and backward.

q, k, v, out and their gradients are (N, C) with head h in columns h * HS to (h + 1) * HS and are read where they lie:
no heads are split or merged. A block has 32 threads. The kernels are made for one head size, HS = 1 to 64, because the
sizes of arrays in registers must be known when a kernel is compiled.
"""

import math
from functools import cache, partial

import numpy as np
from numba import cuda, float32

from kernels.matmul import at, wide_vectors
from kernels.registry import cdiv, register, wave
from kernels.target import KernelError, current, kernel

TILE = 32  # threads of a block; queries and keys of a tile
# Running sums that a thread keeps in registers while it walks a tile: 32 threads times 2 fill half of the 16 vector
# registers of AVX2, times 8 half of the 32 twice as wide ones of AVX-512. Sums have one order for any number.
STRIP = 8 if wide_vectors() else 2
CARD_STRIP = 8  # on a GPU, whatever its host is: heads of up to 48 columns fit into the registers of a thread
MAX_HS = 64


def _example_forward(HS, block):
    B, T, NH = 1, 34, 2
    q, k, v = (wave(B * T, NH * HS, seed=s) for s in (1, 2, 3))
    out, lse = np.zeros_like(q), np.zeros((B, NH, T), np.float32)
    return (cdiv(T, TILE), NH, B), (q, k, v, out, lse, T, np.float32(HS**-0.5))


def _example_backward(HS, block):
    B, T, NH = 1, 34, 2
    q, k, v, out, dout = (wave(B * T, NH * HS, seed=s) for s in (1, 2, 3, 4, 5))
    lse = np.full((B, NH, T), 3.0, np.float32)
    dq, dk, dv = (np.zeros_like(q) for _ in range(3))
    return (NH, B), (q, k, v, out, lse, dout, dq, dk, dv, T, np.float32(HS**-0.5))


@cache
def make_forward(HS, strip=STRIP):
    """k_flash_fwd for heads of HS columns; strip divides TILE."""
    STRIP = strip
    HP = cdiv(HS, STRIP) * STRIP  # padded with zeros to whole strips

    @register((TILE,), partial(_example_forward, HS))
    @kernel
    def k_flash_fwd(q, k, v, out, lse, T, scale):
        """Causal attention, one pass over the keys.

        Maths: s_j = scale q_i . k_j for j <= i; out_i = sum_j exp(s_j - m) v_j / norm, with m the largest s_j and
        norm = sum_j exp(s_j - m); lse_i = m + log(norm). m, norm and the sum are kept for the keys seen so far; when
        a tile brings a larger m, norm and the sum shrink by exp(m_old - m_new).
        Shapes: q, k, v, out (N, C) = (B * T, NH * HS); lse (B, NH, T).
        Threads: block (tile of 32 queries, head, sequence); a thread owns one query. It keeps q_i, the sum and 32
        scores in registers.
        Shared memory: one tile of keys and one of values, 2 * 32 * HS floats (16 KiB at HS = 64).
        Reads + writes: reads q N C, k and v C seen each; writes out N C, lse B NH T; where tiles = ceil(T / TILE),
        seen = B (T + TILE tiles (tiles - 1) / 2). seen counts the keys that tiles of queries read: about T / TILE + 3
        per element of out.
        Saves: lse.
        Changed: against k_attn_fwd, scores are made once and not twice, keys are read once a tile of queries and not
        once a query, sums live in registers.
        """
        Ks = cuda.shared.array((TILE, HP), float32)
        Vs = cuda.shared.array((TILE, HP), float32)
        qi = cuda.local.array(HP, float32)
        total = cuda.local.array(HP, float32)
        s = cuda.local.array(TILE, float32)
        a = cuda.local.array(STRIP, float32)
        tx = cuda.threadIdx.x
        b = cuda.blockIdx.z
        h = cuda.blockIdx.y
        r0 = b * T
        c0 = h * HS
        i0 = cuda.blockIdx.x * TILE
        for d in range(HP):
            qi[d] = float32(0.0)
            total[d] = float32(0.0)
        if i0 + tx < T:
            for d in range(HS):
                qi[d] = q[r0 + i0 + tx, c0 + d] * scale
        for j in range(TILE):
            for d in range(HS + tx, HP, TILE):
                Ks[j, d] = float32(0.0)
                Vs[j, d] = float32(0.0)
        m = float32(-1e30)
        norm = float32(0.0)
        for kt in range(cuda.blockIdx.x + 1):
            k0 = kt * TILE
            cuda.syncthreads()
            if k0 + TILE <= T:
                for j in range(TILE):
                    for d in range(tx, HS, TILE):
                        Ks[j, d] = k[r0 + k0 + j, c0 + d]
                        Vs[j, d] = v[r0 + k0 + j, c0 + d]
            else:
                for j in range(TILE):
                    for d in range(tx, HS, TILE):
                        Ks[j, d] = at(k, r0 + k0 + j, c0 + d, r0 + T, c0 + HS)
                        Vs[j, d] = at(v, r0 + k0 + j, c0 + d, r0 + T, c0 + HS)
            cuda.syncthreads()
            for j0 in range(0, TILE, STRIP):
                for j in range(STRIP):
                    a[j] = float32(0.0)
                for d in range(HP):
                    for j in range(STRIP):
                        a[j] += qi[d] * Ks[j0 + j, d]
                for j in range(STRIP):
                    s[j0 + j] = a[j]
            if k0 == i0:
                for j in range(TILE):
                    if j > tx:
                        s[j] = float32(-1e30)
            top = m
            for j in range(TILE):
                top = max(top, s[j])
            shrink = math.exp(m - top)
            m = top
            norm *= shrink
            for j in range(TILE):
                p = math.exp(s[j] - top)
                s[j] = p
                norm += p
            for d0 in range(0, HP, STRIP):
                for d in range(STRIP):
                    a[d] = total[d0 + d] * shrink
                for j in range(TILE):
                    for d in range(STRIP):
                        a[d] += s[j] * Vs[j, d0 + d]
                for d in range(STRIP):
                    total[d0 + d] = a[d]
        if i0 + tx < T:
            inv = float32(1.0) / norm
            for d in range(HS):
                out[r0 + i0 + tx, c0 + d] = total[d] * inv
            lse[b, h, i0 + tx] = m + math.log(norm)

    return k_flash_fwd


@cache
def make_backward(HS, strip=STRIP):
    """k_flash_bwd for heads of HS columns; strip divides TILE."""
    STRIP = strip
    HP = cdiv(HS, STRIP) * STRIP

    @register((TILE,), partial(_example_backward, HS))
    @kernel
    def k_flash_bwd(q, k, v, out, lse, dout, dq, dk, dv, T, scale):
        """Gradients of causal attention; scores are made again from q, k and lse.

        Maths: p_ij = exp(scale q_i . k_j - lse_i) for j <= i; delta_i = dout_i . out_i;
        ds_ij = scale p_ij (dout_i . v_j - delta_i);
        dq_i += sum_j ds_ij k_j; dk_j += sum_i ds_ij q_i; dv_j += sum_i p_ij dout_i.
        Shapes: q, k, v, out, dout, dq, dk, dv (N, C) = (B * T, NH * HS); lse (B, NH, T).
        Threads: one block owns one head of one sequence and walks tiles of queries, and for each the tiles of keys up
        to it: nobody else writes its columns, so no atomics and one order of sums. For s, dp and dq a thread owns a
        query, for dk and dv a column of the head.
        Shared memory: tiles of q, dout, k, v and the 32 x 32 tiles p and ds: 4 * 32 * HS + 2 * 1024 floats (40 KiB at
        HS = 64).
        Reads + writes: reads q and dout 2 N C each, out and dq N C each, lse B NH T, k, v, dk and dv C seen each;
        writes dq N C, dk and dv C seen each; where tiles = ceil(T / TILE), seen = B (T + TILE tiles (tiles - 1) / 2).
        About T / 64 reads per element of k and v, T / 64 reads and writes per element of dk and dv.
        Saves: nothing.
        Changed: against k_attn_bwd, every score is made once and not twice, tiles are shared by 32 threads.
        """
        Qs = cuda.shared.array((TILE, HP), float32)
        Ds = cuda.shared.array((TILE, HP), float32)
        Ks = cuda.shared.array((TILE, HP), float32)
        Vs = cuda.shared.array((TILE, HP), float32)
        P = cuda.shared.array((TILE, TILE), float32)
        S = cuda.shared.array((TILE, TILE), float32)
        qi = cuda.local.array(HP, float32)
        gi = cuda.local.array(HP, float32)
        total = cuda.local.array(HP, float32)
        a = cuda.local.array(STRIP, float32)
        tx = cuda.threadIdx.x
        b = cuda.blockIdx.y
        h = cuda.blockIdx.x
        r0 = b * T
        c0 = h * HS
        for j in range(TILE):
            for d in range(HS + tx, HP, TILE):
                Ks[j, d] = float32(0.0)
                Vs[j, d] = float32(0.0)
        for qt in range((T + TILE - 1) // TILE):
            i0 = qt * TILE
            # No barrier here: a column of Qs and Ds belongs to one thread, which fills it and later reads it.
            for i in range(TILE):
                for d in range(tx, HS, TILE):
                    Qs[i, d] = at(q, r0 + i0 + i, c0 + d, r0 + T, c0 + HS)
                    Ds[i, d] = at(dout, r0 + i0 + i, c0 + d, r0 + T, c0 + HS)
            for d in range(HP):
                qi[d] = float32(0.0)
                gi[d] = float32(0.0)
                total[d] = float32(0.0)
            delta = float32(0.0)
            L = float32(0.0)
            if i0 + tx < T:
                L = lse[b, h, i0 + tx]
                for d in range(HS):
                    gi[d] = dout[r0 + i0 + tx, c0 + d]
                    qi[d] = q[r0 + i0 + tx, c0 + d] * scale
                    delta += gi[d] * out[r0 + i0 + tx, c0 + d]
            for kt in range(qt + 1):
                k0 = kt * TILE
                # Nor here: the barrier before the sums of dk and dv comes after every read of Ks and Vs.
                if k0 + TILE <= T:
                    for j in range(TILE):
                        for d in range(tx, HS, TILE):
                            Ks[j, d] = k[r0 + k0 + j, c0 + d]
                            Vs[j, d] = v[r0 + k0 + j, c0 + d]
                else:
                    for j in range(TILE):
                        for d in range(tx, HS, TILE):
                            Ks[j, d] = at(k, r0 + k0 + j, c0 + d, r0 + T, c0 + HS)
                            Vs[j, d] = at(v, r0 + k0 + j, c0 + d, r0 + T, c0 + HS)
                cuda.syncthreads()
                for j0 in range(0, TILE, STRIP):
                    for j in range(STRIP):
                        a[j] = float32(0.0)
                    for d in range(HP):
                        for j in range(STRIP):
                            a[j] += qi[d] * Ks[j0 + j, d]
                    for j in range(STRIP):
                        P[j0 + j, tx] = a[j]
                    for j in range(STRIP):
                        a[j] = float32(0.0)
                    for d in range(HP):
                        for j in range(STRIP):
                            a[j] += gi[d] * Vs[j0 + j, d]
                    for j in range(STRIP):
                        S[j0 + j, tx] = a[j]
                for j in range(TILE):
                    p = math.exp(P[j, tx] - L)
                    if k0 + j > i0 + tx:
                        p = float32(0.0)
                    P[j, tx] = p
                    S[j, tx] = p * (S[j, tx] - delta) * scale
                for d0 in range(0, HP, STRIP):
                    for d in range(STRIP):
                        a[d] = total[d0 + d]
                    for j in range(TILE):
                        for d in range(STRIP):
                            a[d] += S[j, tx] * Ks[j, d0 + d]
                    for d in range(STRIP):
                        total[d0 + d] = a[d]
                cuda.syncthreads()
                for d in range(tx, HS, TILE):
                    for j0 in range(0, TILE, STRIP):
                        for j in range(STRIP):
                            a[j] = float32(0.0)
                        for i in range(TILE):
                            for j in range(STRIP):
                                a[j] += P[j0 + j, i] * Ds[i, d]
                        for j in range(STRIP):
                            if k0 + j0 + j < T:
                                dv[r0 + k0 + j0 + j, c0 + d] += a[j]
                        for j in range(STRIP):
                            a[j] = float32(0.0)
                        for i in range(TILE):
                            for j in range(STRIP):
                                a[j] += S[j0 + j, i] * Qs[i, d]
                        for j in range(STRIP):
                            if k0 + j0 + j < T:
                                dk[r0 + k0 + j0 + j, c0 + d] += a[j]
            if i0 + tx < T:
                for d in range(HS):
                    dq[r0 + i0 + tx, c0 + d] += total[d]

    return k_flash_bwd


k_flash_fwd, k_flash_bwd = make_forward(32), make_backward(32)


def forward(q, k, v, out, lse):
    """Launches of causal attention: q, k, v, out (N, C), lse (B, NH, T). Raises KernelError on a head above 64."""
    (B, NH, T), HS = lse.shape, head_size(q, lse)
    return [make_forward(HS, _strip())[(cdiv(T, TILE), NH, B), TILE].bind(q, k, v, out, lse, T, np.float32(HS**-0.5))]


def backward(q, k, v, out, lse, dout, dq, dk, dv):
    """Launches of its gradients: dq, dk, dv (N, C) are added to."""
    (B, NH, T), HS = lse.shape, head_size(q, lse)
    return [
        make_backward(HS, _strip())[(NH, B), TILE].bind(q, k, v, out, lse, dout, dq, dk, dv, T, np.float32(HS**-0.5)),
    ]


def _strip():
    return CARD_STRIP if current() == "cuda" else STRIP


def head_size(q, lse):
    """HS from q (N, C) and lse (B, NH, T); KernelError when the two do not fit each other."""
    B, NH, T = lse.shape
    N, C = q.shape
    if N != B * T or C % NH:
        raise KernelError(f"attention: q has shape {q.shape}, expected {B * T} rows and a multiple of {NH} columns")
    if C // NH > MAX_HS:
        raise KernelError(f"attention: a head has {C // NH} columns, expected at most {MAX_HS}")
    return C // NH
