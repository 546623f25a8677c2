"""The vendor's matrix product behind gemm(): the BLAS inside NumPy, or cuBLAS.

On the CPU the library that NumPy itself loaded is called through ctypes, one single-threaded call per panel of the
output. A multi-threaded BLAS cuts its sums by the number of threads, so its bits move with it; a single-threaded call
on a panel that the shape alone fixes does not. `kernels.target.run` holds the library at one thread for the length of a
run; a task called by itself puts it there, and ``with one_thread():`` hands the former number back to NumPy afterwards.
"""

import ctypes
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np
from threadpoolctl import ThreadpoolController

from kernels.target import KernelError

ROW_MAJOR, NO_TRANS, TRANS = 101, 111, 112
SYMBOLS = (
    ("scipy_cblas_sgemm64_", ctypes.c_int64),
    ("cblas_sgemm64_", ctypes.c_int64),
    ("scipy_cblas_sgemm", ctypes.c_int32),
    ("cblas_sgemm", ctypes.c_int32),
)


class Blas:
    """One loaded BLAS: `sgemm` (the C function) and `threads` (threadpoolctl's handle on its thread count)."""

    def __init__(self, threads, sgemm, integer):
        enum, real, pointer = ctypes.c_int, ctypes.c_float, ctypes.c_void_p
        self.types = (*[enum] * 3, *[integer] * 3, real, pointer, integer, pointer, integer, real, pointer, integer)
        sgemm.restype = None
        self.threads, self.sgemm = threads, sgemm

    def arguments(self, *values):
        """The arguments of sgemm as C values, so that a call converts nothing."""
        return tuple(kind(value) for kind, value in zip(self.types, values, strict=True))

    def call(self, args, keep):
        """Run one prepared sgemm call on one thread; `keep` holds the arrays whose addresses are in `args`."""
        if self.threads.num_threads != 1:
            self.threads.set_num_threads(1)
        self.sgemm(*args)


@lru_cache(maxsize=1)
def numpy_blas():
    """The BLAS that NumPy loaded, as a Blas, or None where it can not be reached (Accelerate, no BLAS at all)."""
    found = [c for c in ThreadpoolController().lib_controllers if c.user_api == "blas"]
    beside_numpy = Path(np.__file__).parent.parent
    found.sort(key=lambda c: (beside_numpy / "numpy.libs" not in Path(c.filepath).parents, c.filepath))
    for controller in found:
        library = ctypes.CDLL(controller.filepath)
        for symbol, integer in SYMBOLS:
            if hasattr(library, symbol):
                return Blas(controller, getattr(library, symbol), integer)
    return None


@contextmanager
def one_thread():
    """Hold NumPy's BLAS at one thread inside the block and give it its former number back at the end."""
    blas = numpy_blas()
    before = blas.threads.num_threads if blas else 1
    try:
        if before != 1:
            blas.threads.set_num_threads(1)
        yield
    finally:
        if before != 1:
            blas.threads.set_num_threads(before)


def leading(x):
    """Floats from one row of `x` to the next, as BLAS wants it."""
    return max(x.strides[0] // 4, x.shape[1]) if x.shape[0] == 1 else x.strides[0] // 4


def sgemm_task(A, B, C, ta, tb, add):
    """One task (callable, args): C = or += op(A) @ op(B), single-threaded. Arrays as gemm() checked them."""
    blas = numpy_blas()
    if blas is None:
        a, b = A.T if ta else A, B.T if tb else B
        return _matmul, (a, b, C, np.empty(C.shape, np.float32) if add else None)
    M, N = C.shape
    args = blas.arguments(
        *(ROW_MAJOR, TRANS if ta else NO_TRANS, TRANS if tb else NO_TRANS, M, N, A.shape[0] if ta else A.shape[1]),
        *(1.0, A.ctypes.data, leading(A), B.ctypes.data, leading(B), 1.0 if add else 0.0, C.ctypes.data, leading(C)),
    )
    return blas.call, (args, (A, B, C))


def _matmul(a, b, out, scratch):
    """The same product where no BLAS can be called directly: NumPy's own matmul, into `scratch` first when adding."""
    if scratch is None:
        np.matmul(a, b, out=out)
    else:
        np.matmul(a, b, out=scratch)
        np.add(out, scratch, out=out)


@lru_cache(maxsize=1)
def cublas():
    """(nvmath's cublas module, a handle, the array [0, 1]). Raises KernelError naming the extra to install."""
    try:
        from numba import cuda
        from nvmath.bindings import cublas as library

        cuda.current_context()  # a handle belongs to the context that is current when it is made
        handle = library.create()
    except Exception as error:  # a missing wheel, a missing libcublas and a missing driver all raise different things
        raise KernelError(
            f"gemm: cuBLAS does not load ({type(error).__name__}); pip install 'andrea-lab[cu13]', or gemm=\"kernels\""
        ) from None
    scalars = np.array([0.0, 1.0], np.float32)
    return library, handle, scalars


def cublas_task(A, B, C, ta, tb, add):
    """One task: the product by cuBLAS, which counts by columns: a row-major C is its C.T = op(B).T @ op(A).T."""
    library, handle, scalars = cublas()
    op = library.Operation
    M, N = C.shape
    one, beta = scalars.ctypes.data + 4, scalars.ctypes.data + (4 if add else 0)
    pa, pb, pc = (x.__cuda_array_interface__["data"][0] for x in (A, B, C))
    args = (
        *(handle, op.T if tb else op.N, op.T if ta else op.N, N, M, A.shape[0] if ta else A.shape[1]),
        *(one, pb, leading(B), pa, leading(A), beta, pc, leading(C)),
    )
    return _cublas_call, (args, (A, B, C, scalars))


def _cublas_call(args, keep):
    cublas()[0].sgemm(*args)
