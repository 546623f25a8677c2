"""The GPU program: one file per operation, each a forward kernel and its backward twin.

    import kernels
    kernels.use("cpu")        # or "cuda"; by default a GPU if one answers

The kernels are plain Numba CUDA; `kernels.target` runs them on a GPU or on the processor.
"""

from .target import KernelError, current, device, kernel, run, set_threads, threads, use

__all__ = ["KernelError", "current", "device", "kernel", "run", "set_threads", "threads", "use"]
