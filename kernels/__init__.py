"""The GPU program: one file per operation, each a forward kernel and its backward twin.

    import kernels
    kernels.use("cpu")        # or "cuda", "check"; by default a GPU if one answers
    kernels.check(k)[grid, block](*args)      # a report: races, bounds, barriers, traffic

The kernels are plain Numba CUDA; `kernels.target` runs them on a GPU or on the processor.
"""

from .target import KernelError, KernelFault, check, current, device, kernel, run, set_threads, threads, trace, use

__all__ = ["KernelError", "KernelFault", "check", "current", "device", "kernel", "run", "set_threads", "threads"]
__all__ += ["trace", "use"]
