"""The arguments of a launch, checked and described: one line for every mistake."""

import functools
import struct

import numpy as np
from numba.core import types
from numba.np.numpy_support import from_dtype

from .errors import LaunchError

_INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
DTYPES = frozenset(("bool", *_INTEGERS, "float32", "float64"))
_NAMES = {np.dtype(name): name for name in DTYPES}
_INT64 = (-(2**63), 2**63 - 1)


def count_error(name, params, args):
    text = f"{len(params)} argument{'s' * (len(params) != 1)} ({', '.join(params)})"
    return LaunchError(f"kernel {name}: takes {text}, got {len(args)}")


def describe(kernel, params, args):
    """(key, slots, distinct): types as a hashable key, the 8-byte slots of the call, whether no two arrays overlap."""
    if len(args) != len(params):
        raise count_error(kernel, params, args)
    key, slots, spans = [], [], []
    for name, value in zip(params, args, strict=True):
        if isinstance(value, np.ndarray):
            key.append(_array_key(kernel, name, value))
            address = value.ctypes.data
            slots.append(address)
            slots += value.shape
            if value.nbytes:
                spans.append((address, address + value.nbytes))
        else:
            kind, bits = _scalar(kernel, name, value)
            key.append(kind)
            slots.append(bits)
    return tuple(key), slots, _distinct(spans)


def _distinct(spans):
    spans.sort()
    return all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))


def _array_key(kernel, name, value):
    if not value.flags.c_contiguous:
        raise LaunchError(
            f"kernel {kernel}: argument '{name}' is not contiguous (shape {value.shape}, strides {value.strides}); "
            "pass np.ascontiguousarray of it, or the whole array and an offset"
        )
    dtype = _NAMES.get(value.dtype)
    if dtype is None:
        known = ", ".join(sorted(DTYPES))
        raise LaunchError(f"kernel {kernel}: argument '{name}' has dtype {value.dtype.str}, expected one of {known}")
    if value.ndim == 0:
        raise LaunchError(
            f"kernel {kernel}: argument '{name}' is an array without axes; pass a scalar or an array of shape (1,)"
        )
    return dtype, value.ndim, value.flags.writeable


def _scalar(kernel, name, value):
    if isinstance(value, (bool, np.bool_)):
        return "bool", int(value)
    if isinstance(value, int):
        if not _INT64[0] <= value <= _INT64[1]:
            raise LaunchError(f"kernel {kernel}: argument '{name}' is {value}, beyond 64 bits")
        return "int64", value
    if isinstance(value, np.float32):
        return "float32", struct.unpack("<i", struct.pack("<f", value))[0]
    if isinstance(value, np.integer):
        number = int(value)
        return value.dtype.name, number - 2**64 if number > _INT64[1] else number
    if isinstance(value, (float, np.floating)):
        kind = "a Python float" if type(value) is float else f"a NumPy {value.dtype}"
        raise LaunchError(
            f"kernel {kernel}: argument '{name}' is {kind}, which would make the kernel compute in float64; "
            f"pass np.float32({float(value)!r})"
        )
    module = type(value).__module__.split(".")[0]
    if module in ("numba", "numba_cuda", "cupy", "torch"):
        raise LaunchError(f"kernel {kernel}: argument '{name}' is a {module} array, expected NumPy's; use copy_to_host")
    raise LaunchError(
        f"kernel {kernel}: argument '{name}' is a {type(value).__name__}, expected a NumPy array, an int or np.float32"
    )


@functools.cache
def types_of(key):
    """Numba types and the positions of read-only arrays, for a key of `describe`."""
    out, readonly = [], []
    for k, part in enumerate(key):
        if isinstance(part, str):
            out.append(types.boolean if part == "bool" else getattr(types, part))
            continue
        name, ndim, writeable = part
        out.append(types.Array(from_dtype(np.dtype(name)), ndim, "C"))
        if not writeable:
            readonly.append(k)
    return tuple(out), tuple(readonly)


_GRID = (2**31 - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)


def shape(kernel, what, given):
    """A grid or block as three positive integers within CUDA's limits."""
    if type(given) is int and 0 < given <= _BLOCK[0]:
        return given, 1, 1
    parts = given if isinstance(given, (tuple, list)) else (given,)
    whole = all(isinstance(n, (int, np.integer)) and not isinstance(n, (bool, np.bool_)) for n in parts)
    if not whole or not 1 <= len(parts) <= 3:
        raise LaunchError(f"kernel {kernel}: {what} is {given!r}, expected one to three integers")
    parts = tuple(int(n) for n in parts) + (1,) * (3 - len(parts))
    if min(parts) < 1:
        raise LaunchError(f"kernel {kernel}: {what} is {given!r}, expected every part to be at least 1")
    if what == "block" and parts[0] * parts[1] * parts[2] > 1024:
        count = parts[0] * parts[1] * parts[2]
        raise LaunchError(f"kernel {kernel}: block {given!r} has {count:,} threads, expected at most 1,024")
    for n, limit, axis in zip(parts, _BLOCK if what == "block" else _GRID, "xyz", strict=True):
        if n > limit:
            raise LaunchError(f"kernel {kernel}: {what} has {n:,} along {axis}, expected at most {limit:,}")
    return parts
