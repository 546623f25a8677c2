"""The arguments of a launch: copies to run on, so that the caller's arrays change only when a run has ended."""

from math import prod

import numpy as np

from ..errors import LaunchError
from .arith import is_number, lift


class Placed:
    """An array argument: its elements lie in `flat`, the memory that overlapping arguments share (a group)."""

    def __init__(self, group, flat, value, base, align):
        self.group, self.flat, self.base, self.align = group, flat, base, align
        self.shape, self.writeable, self.count = value.shape, value.flags.writeable, len(flat)
        self.strides = tuple(s // value.itemsize for s in value.strides)
        self.value = value

    def back(self):
        """Write the elements into the caller's array."""
        if self.writeable and self.value.size:
            item = self.value.itemsize
            part = np.ndarray(
                self.shape, self.flat.dtype, self.flat.data, self.base * item, tuple(s * item for s in self.strides)
            )
            self.value[...] = part

    def result(self):
        """The elements after a run, as an array of the argument's shape."""
        item = self.value.itemsize
        strides = tuple(s * item for s in self.strides)
        return np.ndarray(self.shape, self.flat.dtype, self.flat.data, self.base * item, strides)


class Launch:
    """Grid, block and arguments by name. Each Launch has copies of its own of the arrays."""

    def __init__(self, params, args, grid, block, dynamic=0):
        self.params, self.args, self.grid, self.block, self.dynamic = params, args, grid, block, dynamic
        self.blocks, self.threads = prod(grid), prod(block)
        arrays = {n: as_array(v) for n, v in zip(params, args, strict=True) if hasattr(v, "__array_interface__")}
        arrays = {n: v for n, v in arrays.items() if v.ndim or not is_number(v)}
        placed = _place(arrays)
        self.arguments = {}
        for name, value in zip(params, args, strict=True):
            self.arguments[name] = placed[name] if name in placed else scalar(name, value)
        self.has_float64 = any(v.dtype == np.float64 for v in arrays.values())

    def again(self):
        """The same launch on fresh copies."""
        return Launch(self.params, self.args, self.grid, self.block, self.dynamic)

    def back(self):
        for v in self.arguments.values():
            if isinstance(v, Placed):
                v.back()

    def results(self):
        return {n: v.result() for n, v in self.arguments.items() if isinstance(v, Placed)}


def as_array(value):
    return value if isinstance(value, np.ndarray) else np.asarray(value)


def scalar(name, value):
    """A number or a tuple of numbers as the kernel sees it."""
    if isinstance(value, tuple):
        return tuple(scalar(name, v) for v in value)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise LaunchError(f"argument {name} is {value}, beyond 64 bits")
    out = lift(value)
    if not is_number(out) or out.dtype.kind not in "biuf":
        kind = "a list" if isinstance(value, list) else f"a {type(value).__name__}"
        raise LaunchError(f"argument {name} is {kind}, expected an array, a number or a tuple of numbers")
    return out


def _span(value):
    low = high = value.__array_interface__["data"][0]
    if value.size:
        for n, s in zip(value.shape, value.strides, strict=True):
            low, high = low + min(0, (n - 1) * s), high + max(0, (n - 1) * s)
        high += value.itemsize
    return low, high


def _place(arrays):
    """Copies of the arrays; those that overlap keep overlapping."""
    spans = []
    for name, value in arrays.items():
        if value.dtype.kind not in "biuf" or value.dtype.byteorder == ">":
            raise LaunchError(f"argument {name} has dtype {value.dtype}, expected whole numbers or floats")
        if value.ndim == 0:
            raise LaunchError(f"argument {name} is an array without axes; pass a number or an array of shape (1,)")
        spans.append((*_span(value), name))
    groups = []
    for low, high, name in sorted(spans, key=lambda s: s[:2]):
        if groups and low < groups[-1][1]:
            groups[-1][1] = max(groups[-1][1], high)
            groups[-1][2].append(name)
        else:
            groups.append([low, high, [name]])
    out = {}
    for low, high, names in groups:
        number = min(list(arrays).index(n) for n in names)
        size = arrays[names[0]].itemsize
        raw = np.zeros(max(1, -(-(high - low) // size)) * size, np.uint8)
        for name in names:
            value = arrays[name]
            at = value.__array_interface__["data"][0] - low
            if value.itemsize != size or at % size:
                raise LaunchError(f"argument {name} overlaps {names[0]} with elements of another size")
            placed = Placed(number, raw.view(value.dtype), value, at // size, _align(value, low))
            if value.size:
                placed.result()[...] = value
            out[name] = placed
    return out


def _align(value, low):
    """Elements between the last 32-byte boundary and the start: owners of memory start at one."""
    owner = value
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if owner.dtype != value.dtype:
        return 0
    return (low - _span(owner)[0]) % 32 // value.itemsize
