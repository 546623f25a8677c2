"""Kernels without a GPU: as PTX text for any card, or on Numba's simulator, thread by thread."""

from .gpu import for_cuda, rebuilt


def compile_ptx(kernel, argtypes, cc=(8, 0)):
    """PTX of a kernel for Numba argument types and a compute capability (major, minor)."""
    from numba import cuda, types

    text, _ = cuda.compile_ptx(for_cuda(kernel.fn), types.void(*argtypes), cc=cc)
    return text


def simulate(kernel, grid, block, args):
    """Run a kernel on Numba's CUDA simulator, in this process and without its environment variable; slow, for tests."""
    from numba.cuda.simulator.kernel import FakeCUDAKernel

    def fake(fn):
        return FakeCUDAKernel(fn, device=True)

    FakeCUDAKernel(rebuilt(kernel.fn, fake), device=False)[grid, block](*args)
