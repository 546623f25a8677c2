"""Kernels written once as plain Numba CUDA, run on a GPU (`cuda`), on the processor (`cpu`), or checked (`check`).

    from numba import cuda, float32
    from kernels.target import kernel

    @kernel
    def k_add(a, b, out, n):
        i = cuda.grid(1)
        if i < n:
            out[i] = a[i] + b[i]

    k_add[(n + 255) // 256, 256](a, b, out, n)

    report = check(k_add)[(n + 255) // 256, 256](a, b, out, n)     # races, bounds, barriers, unset reads, traffic
    trace(k_add, block=0, warp=0)[(n + 255) // 256, 256](a, b, out, n).events

The check target runs the same source thread by thread in step and writes every access down; `use("check")` makes every
launch do so and raise KernelFault.

What a kernel may use on the CPU target: threadIdx, blockIdx, blockDim, gridDim, grid, gridsize, laneid, warpsize,
shared.array and local.array of constant size, syncthreads, syncwarp, shuffles, atomics, fma; if, while, `for ... in
range(...)`; math, abs, min, max, casts; functions decorated with @device. What it may not do is refused with file,
line and what to write instead.
"""

from .arrays import copy_to_host, empty, to_device, zeros
from .cache import folder as cache_folder
from .check import check, trace
from .device import Device, device
from .errors import KernelError, KernelFault, KernelRefused, LaunchError, TargetError
from .launch import Kernel, Launch, kernel
from .lint import lint
from .select import current, use
from .team import run, set_threads, threads

__all__ = [
    "Device",
    "Kernel",
    "KernelError",
    "KernelFault",
    "KernelRefused",
    "Launch",
    "LaunchError",
    "TargetError",
    "cache_folder",
    "check",
    "copy_to_host",
    "current",
    "device",
    "empty",
    "kernel",
    "lint",
    "run",
    "set_threads",
    "threads",
    "to_device",
    "trace",
    "use",
    "zeros",
]
