"""Arrays where launches find them: NumPy's own on the CPU, device arrays on a GPU."""

import numpy as np

from . import select

ALIGNMENT = 64


def _cuda():
    from numba import cuda

    return cuda


def empty(shape, dtype=np.float32):
    """An array of undefined content; on the CPU its data starts at a multiple of 64 bytes."""
    if select.current() == "cuda":
        return _cuda().device_array(shape, dtype)
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    raw = np.empty(count * dtype.itemsize + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + count * dtype.itemsize].view(dtype).reshape(shape)


def zeros(shape, dtype=np.float32):
    """An array of zeros, as `empty` otherwise."""
    if select.current() == "cuda":
        return _cuda().to_device(np.zeros(shape, dtype))
    out = empty(shape, dtype)
    out.fill(0)
    return out


def to_device(array):
    """The array itself on the CPU, a copy on the GPU."""
    return _cuda().to_device(array) if select.current() == "cuda" else array


def copy_to_host(array):
    """A NumPy array: the array itself on the CPU, a copy from the GPU."""
    return array.copy_to_host() if hasattr(array, "copy_to_host") else array
