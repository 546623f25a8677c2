"""Atomic operations: one after the other, in the order of lanes, or in a seeded order."""

import numpy as np

from . import memory
from .arith import array
from .faults import Refused

OPERANDS = {"add": 1, "sub": 1, "max": 1, "min": 1, "nanmax": 1, "nanmin": 1, "and_": 1, "or_": 1, "xor": 1}
OPERANDS |= {"exch": 1, "inc": 1, "dec": 1, "cas": 2, "compare_and_swap": 2}
_UFUNC = {
    "add": np.add,
    "sub": np.subtract,
    "max": np.maximum,
    "min": np.minimum,
    "nanmax": np.fmax,
    "nanmin": np.fmin,
    "and_": np.bitwise_and,
    "or_": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _step(op, x, y, z):
    """The new value of an element that holds x."""
    if op == "exch":
        return y
    if op == "inc":
        return x.dtype.type(0) if x >= y else x + x.dtype.type(1)
    if op == "dec":
        return y if x == 0 or x > y else x - x.dtype.type(1)
    return z if x == y else x


def apply(mc, f, site, arr, off, m, op, values, used):
    """Do it for the lanes of the mask; returns what each lane found there."""
    zero = arr.dtype.type(0)
    if m.n == 0:
        return zero
    if not arr.writeable:
        raise Refused(site.program, site.line, f"{arr.name} is read-only, and the kernel writes into it", "", "error")
    if arr.space == "local":
        raise Refused(site.program, site.line, f"{arr.name} is a local array: only its thread sees it", "use +=")
    if not mc.float64_meant and any(v.dtype == np.float64 for v in values) and arr.dtype == np.float32:
        mc.wide(f, site.line, arr.name)
    off = memory._note(mc, f, site, arr, off, m, None)
    if type(off) is not array:
        off = np.full(m.n, off)
    if arr.ready is not None:
        if mc.recording and op != "exch":
            memory._check_ready(mc, f, site, arr, off, m)
        arr.ready[off] = True
    if arr.space == "global":
        mc.atomic_order(f, arr, off, m)
    values = [np.broadcast_to(v, m.b.shape)[m.idx].astype(arr.dtype) for v in values]
    p = np.arange(m.n) if mc.seed is None else mc.shuffle(m.n)
    ufunc = _UFUNC.get(op)
    if not used and ufunc is not None:
        ufunc.at(arr.flat, off[p], values[0][p])
        return None
    old = np.empty(m.n, arr.dtype)
    flat = arr.flat
    for k in p.tolist():
        at = off[k]
        x = old[k] = flat[at]
        y = values[0][k]
        flat[at] = ufunc(x, y) if ufunc is not None else _step(op, x, y, values[-1][k])
    if m.full:
        return old
    out = np.zeros(m.b.size, arr.dtype)
    out[m.idx] = old
    return out
