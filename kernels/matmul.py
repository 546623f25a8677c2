"""Matrix product: three kernels from slow to fast, and gemm(), the library call behind one small interface.

C (M, N) = A (M, K) @ B (K, N); float32, row-major.
"""

from contextlib import contextmanager
from functools import cache

import numpy as np
from numba import cuda, float32

from kernels import blas
from kernels.registry import cdiv, register, wave
from kernels.target import KernelError, Launch, current, device, kernel
from kernels.target.processor import processor


def wide_vectors():
    """Whether the CPU target compiles for vectors of 512 bits."""
    return "+avx512f" in processor()[1].split(",")


TILE = 16  # side of the square tiles of k_matmul_tiled
EDGE = 32  # side of the tiles of k_matmul_blocked
# Rows of C that one thread of k_matmul_blocked owns. On the CPU a row of a block is 32 lanes wide: two rows of running
# sums fill half of the 16 vector registers of AVX2, four a quarter of the 32 twice as wide ones of AVX-512. A GPU
# thread has 255 registers. Sums have one order for any number.
ROWS = {"cpu": 4 if wide_vectors() else 2, "cuda": 8}
LIBRARIES = ("blas", "kernels")
# A panel is one BLAS call, and every call packs the whole of B again: measured with OpenBLAS on the shapes of a step of
# 1024 tokens, 2 panels cost 4 % of one thread's time, 4 cost 9 %, 8 cost 16 %. Small products stay whole.
PANEL_ROWS = 512
PANEL_FLOPS = 2**24
MOST_PANELS = 32

_library = "blas"


@device
def at(x, i, j, rows, cols):
    """x[i, j], or 0 beyond the edges."""
    value = float32(0.0)
    if i < rows and j < cols:
        value = x[i, j]
    return value


def _example_naive(block):
    M, N, K = 33, 35, 20
    args = (wave(M, K), wave(K, N, seed=2), np.zeros((M, N), np.float32), M, N, K)
    return (cdiv(N, block[0]), cdiv(M, block[1])), args


@register(((16, 16), (32, 8)), _example_naive, teaching=True)
@kernel
def k_matmul_naive(A, B, C, M, N, K):
    """Version 1, one thread one dot product.

    Maths: C[i, j] = sum over k of A[i, k] * B[k, j].
    Shapes: A (M, K), B (K, N), C (M, N).
    Threads: 2-D grid; thread (x, y) owns C[y, x].
    Shared memory: none.
    Reads + writes: reads A and B M N K each; writes C M N.
    Saves: nothing.
    """
    col, row = cuda.grid(2)
    if row < M and col < N:
        acc = float32(0.0)
        for k in range(K):
            acc += A[row, k] * B[k, col]
        C[row, col] = acc


@register(((TILE, TILE),), _example_naive, teaching=True)
@kernel
def k_matmul_tiled(A, B, C, M, N, K):
    """Version 2, a block of threads shares what it reads.

    Maths: as k_matmul_naive, the sum over k taken TILE terms at a time.
    Shapes: A (M, K), B (K, N), C (M, N); parts of tiles beyond the edges count as zero.
    Threads: block (TILE, TILE) owns one TILE x TILE tile of C; thread (x, y) owns one element of it.
    Shared memory: two tiles, 2 * TILE * TILE floats = 2 KiB.
    Reads + writes: reads A M K ceil(N / TILE), B K N ceil(M / TILE); writes C M N. About 2 K / TILE + 1 per element of
    C.
    Saves: nothing.
    Changed: every value of A and B is read from global memory once per tile instead of once per thread.
    """
    As = cuda.shared.array((TILE, TILE), float32)
    Bs = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + ty
    col = cuda.blockIdx.x * TILE + tx
    acc = float32(0.0)
    for t in range((K + TILE - 1) // TILE):
        k0 = t * TILE
        if row < M and k0 + tx < K:
            As[ty, tx] = A[row, k0 + tx]
        else:
            As[ty, tx] = float32(0.0)
        if k0 + ty < K and col < N:
            Bs[ty, tx] = B[k0 + ty, col]
        else:
            Bs[ty, tx] = float32(0.0)
        cuda.syncthreads()
        for k in range(TILE):
            acc += As[ty, k] * Bs[k, tx]
        cuda.syncthreads()
    if row < M and col < N:
        C[row, col] = acc


@cache
def make_blocked(ta=False, tb=False, add=False, rows=2):
    """k_matmul_blocked for one form of the product: ta, tb say which operand is stored transposed; add is += for =.

    rows (a divisor of EDGE) is the number of rows of C that a thread owns; the block is (EDGE, EDGE / rows).
    """
    TA, TB, ADD, ROWS = int(ta), int(tb), int(add), rows
    LD = EDGE + 1 if tb else EDGE  # the odd row length spreads a column over the banks when B is turned on its way in
    STEP = EDGE // rows

    def example(block):
        M, N, K = 33, 35, 40
        A, B = wave(*((K, M) if ta else (M, K))), wave(*((N, K) if tb else (K, N)), seed=2)
        return (cdiv(N, EDGE), cdiv(M, EDGE)), (A, B, wave(M, N, seed=3), M, N, K)

    @register(((EDGE, STEP),), example)
    @kernel
    def k_matmul_blocked(A, B, C, M, N, K):
        """Version 3, a thread owns a strip of C in registers.

        Maths: C = or += op(A) @ op(B), the sum over k taken EDGE terms at a time, in order.
        Shapes: op(A) (M, K), op(B) (K, N), C (M, N); a transposed operand lies as (K, M) or (N, K).
        Threads: block (EDGE, EDGE / ROWS) owns one EDGE x EDGE tile of C; thread (x, y) owns ROWS rows of column x.
        Shared memory: two tiles, 2 * EDGE * EDGE floats = 8 KiB (and a little padding when B is transposed).
        Reads + writes: reads A M K ceil(N / EDGE), B K N ceil(M / EDGE), C ADD M N; writes C M N. ADD is 1 for C +=,
        else 0. About 2 K / EDGE + 1 per element of C, and K (1 + 1 / ROWS) of shared memory.
        Saves: nothing.
        Changed: ROWS running sums a thread, so a value of B read from shared memory serves ROWS products.
        """
        As = cuda.shared.array((EDGE, EDGE), float32)
        Bs = cuda.shared.array((EDGE, LD), float32)
        acc = cuda.local.array(ROWS, float32)
        tx = cuda.threadIdx.x
        ty = cuda.threadIdx.y
        row0 = cuda.blockIdx.y * EDGE
        col0 = cuda.blockIdx.x * EDGE
        for i in range(ROWS):
            acc[i] = float32(0.0)
        a_rows = M  # A and B as they lie
        a_cols = K
        if TA:
            a_rows = K
            a_cols = M
        b_rows = K
        b_cols = N
        if TB:
            b_rows = N
            b_cols = K
        for t in range((K + EDGE - 1) // EDGE):
            k0 = t * EDGE
            a_row = row0  # corners of the two tiles
            a_col = k0
            if TA:
                a_row = k0
                a_col = row0
            b_row = k0
            b_col = col0
            if TB:
                b_row = col0
                b_col = k0
            if a_row + EDGE <= a_rows and a_col + EDGE <= a_cols:
                for p in range(ROWS):
                    As[p * STEP + ty, tx] = A[a_row + p * STEP + ty, a_col + tx]
            else:
                for p in range(ROWS):
                    As[p * STEP + ty, tx] = at(A, a_row + p * STEP + ty, a_col + tx, a_rows, a_cols)
            inside = b_row + EDGE <= b_rows and b_col + EDGE <= b_cols
            if TB and inside:
                for p in range(ROWS):
                    Bs[tx, p * STEP + ty] = B[b_row + p * STEP + ty, b_col + tx]
            elif TB:
                for p in range(ROWS):
                    Bs[tx, p * STEP + ty] = at(B, b_row + p * STEP + ty, b_col + tx, b_rows, b_cols)
            elif inside:
                for p in range(ROWS):
                    Bs[p * STEP + ty, tx] = B[b_row + p * STEP + ty, b_col + tx]
            else:
                for p in range(ROWS):
                    Bs[p * STEP + ty, tx] = at(B, b_row + p * STEP + ty, b_col + tx, b_rows, b_cols)
            cuda.syncthreads()
            for k in range(EDGE):
                for i in range(ROWS):
                    if TA:
                        acc[i] += As[k, ty * ROWS + i] * Bs[k, tx]
                    else:
                        acc[i] += As[ty * ROWS + i, k] * Bs[k, tx]
            cuda.syncthreads()
        for i in range(ROWS):
            row = row0 + ty * ROWS + i
            if row < M and col0 + tx < N:
                if ADD:
                    C[row, col0 + tx] += acc[i]
                else:
                    C[row, col0 + tx] = acc[i]

    return k_matmul_blocked


k_matmul_blocked = make_blocked()


def gemm_library():
    """Name of the library that gemm() builds with now: "blas" (the vendor's) or "kernels" (ours)."""
    return _library


@contextmanager
def gemm_with(name):
    """Build every gemm() inside the block with "blas" or "kernels". Raises KernelError for another name."""
    global _library
    if name not in LIBRARIES:
        raise KernelError(f'gemm: library is {name!r}, expected "blas" or "kernels"')
    before, _library = _library, name
    try:
        yield
    finally:
        _library = before


def gemm(A, B, C, ta=False, tb=False, add=False):
    """Launches for C = op(A) @ op(B), or C += with `add`; op transposes when `ta` / `tb` is set.

    op(A) (M, K), op(B) (K, N), C (M, N): float32, last stride one element; rows may lie further apart than their
    length only for the vendor's library. C must not overlap A or B. Raises KernelError when a shape, type or layout
    does not fit, and when cuBLAS is asked for and not installed. The library is the one of gemm_library() now.
    """
    M, N, K = _check(A, B, C, ta, tb)
    if _library == "kernels":
        rows = ROWS["cuda" if current() == "cuda" else "cpu"]
        k = make_blocked(bool(ta), bool(tb), bool(add), rows)
        return [k[(cdiv(N, EDGE), cdiv(M, EDGE)), (EDGE, EDGE // rows)].bind(A, B, C, M, N, K)]
    if current() == "cuda":
        return [Launch("gemm", [blas.cublas_task(A, B, C, ta, tb, add)])]
    tasks = []
    for lo, hi in panels(M, N, K):
        part = A[:, lo:hi] if ta else A[lo:hi]
        tasks.append(blas.sgemm_task(part, B, C[lo:hi], ta, tb, add))
    return [Launch("gemm", tasks, blas=True)]


def together(*lists):
    """One launch made of launches that do not wait for each other: their tasks share the workers without a barrier."""
    launches = [launch for launches in lists for launch in launches]
    tasks = [task for launch in launches for task in launch.tasks]
    shared = [share for launch in launches for share in launch.shared] if all(x.shared for x in launches) else []
    return [Launch(launches[0].name, tasks, any(launch.blas for launch in launches), shared)]


def panels(M, N, K):
    """Row ranges [(lo, hi)] of C, one BLAS call each: from the shape alone, so that bits never depend on threads."""
    count = min(max(2, M // PANEL_ROWS), MOST_PANELS) if 2 * M * N * K >= PANEL_FLOPS and M >= 32 else 1
    cuts = [M * i // count // 16 * 16 for i in range(count)] + [M]
    return list(zip(cuts, cuts[1:], strict=False))


def _check(A, B, C, ta, tb):
    for name, x in (("A", A), ("B", B), ("C", C)):
        if getattr(x, "ndim", None) != 2 or x.dtype != np.float32 or 0 in x.shape:
            found = f"{getattr(x, 'dtype', type(x).__name__)} of shape {getattr(x, 'shape', None)}"
            raise KernelError(f"gemm: {name} is {found}, expected a non-empty 2-D float32 array")
        if x.shape[1] > 1 and x.strides[1] != 4:
            raise KernelError(f"gemm: {name} has strides {x.strides}, expected neighbours of a row 4 bytes apart")
    M, K = A.shape[::-1] if ta else A.shape
    K2, N = B.shape[::-1] if tb else B.shape
    if K2 != K:
        raise KernelError(f"gemm: B {B.shape}, tb={tb} sums over {K2} terms, expected {K} as A {A.shape}, ta={ta}")
    if C.shape != (M, N):
        raise KernelError(f"gemm: C has shape {C.shape}, expected {(M, N)}")
    return M, N, K
