"""Arrays as a kernel sees them, in global, shared and local memory: bounds, what has been set, the log of accesses."""

import numpy as np

from .arith import I64, U64
from .faults import Refused, Stop

array = np.ndarray
GARBAGE = 0xA5


class Buffer:
    """Memory that arrays may share. `log` holds the accesses of the barrier interval, `far` those of earlier ones."""

    __slots__ = ("far", "log", "name", "number", "size", "space", "written")

    def __init__(self, name, space, size, number, written=True):
        self.name, self.space, self.size, self.number = name, space, size, number
        self.log, self.far, self.written = [], [], written


class Array:
    """An array in a kernel. `flat` holds the elements of its buffer; shape and strides count elements.

    `base` is the element at index 0: an int, or one a lane where a lane has a view of its own. `per` is the number of
    elements a block has of it in shared memory. Local arrays have `flat` of shape (elements, lanes).
    """

    __slots__ = (
        "align",
        "base",
        "buffer",
        "flat",
        "left",
        "name",
        "per",
        "ready",
        "root",
        "shape",
        "strides",
        "writeable",
    )

    def __init__(self, name, buffer, flat, shape, strides, base=0, per=0, writeable=True, align=0):
        self.name, self.buffer, self.flat, self.shape, self.strides = name, buffer, flat, shape, strides
        self.base, self.per, self.writeable, self.align = base, per, writeable, align
        self.ready, self.left, self.root = None, 0, self

    @property
    def dtype(self):
        return self.flat.dtype

    @property
    def space(self):
        return self.buffer.space

    def view(self, base, shape, strides):
        """A part of the array: a row, a slice."""
        out = Array(self.name, self.buffer, self.flat, shape, strides, base, self.per, self.writeable, self.align)
        out.ready, out.left, out.root = self.ready, self.left, self.root
        return out

    def index(self, offset):
        """The index, as a tuple, of an element of the buffer."""
        rest = int(offset) - (self.base if isinstance(self.base, int) else 0)
        if self.per:
            rest %= self.per
        out = [0] * len(self.shape)
        for n, s in zip(self.shape, self.strides, strict=True):
            rest += (n - 1) * -s if s < 0 and not isinstance(n, array) else 0
        for k in sorted(range(len(self.shape)), key=lambda k: -abs(self.strides[k])):
            s, n = self.strides[k], self.shape[k]
            if s and not isinstance(n, array):
                at = min(max(rest // abs(s), 0), max(0, n - 1))
                rest -= at * abs(s)
                out[k] = at if s > 0 else n - 1 - at
        return tuple(out)


def c_strides(shape):
    out, n = [], 1
    for s in reversed(shape):
        out.append(n)
        n *= s
    return tuple(reversed(out))


def filled(count, dtype):
    """Elements nobody has set: NaN, or a pattern of bits."""
    if dtype.kind == "f":
        return np.full(count, np.nan, dtype)
    if dtype.kind == "b":
        return np.ones(count, dtype)
    return np.full(int(np.prod(count)) * dtype.itemsize, GARBAGE, np.uint8).view(dtype).reshape(count)


def local_array(name, shape, dtype, lanes):
    """An array that every lane has for itself."""
    count = int(np.prod(shape))
    out = Array(name, Buffer(name, "local", count, -1), filled((count, lanes), dtype), shape, c_strides(shape))
    out.ready, out.left = np.zeros((count, lanes), bool), count * lanes
    return out


def shared_array(name, shape, dtype, blocks, number):
    """An array that the threads of a block share, one copy for each of the blocks that run together."""
    count = int(np.prod(shape))
    buffer = Buffer(name, "shared", count * blocks, number)
    out = Array(name, buffer, filled(count * blocks, dtype), shape, c_strides(shape), per=count)
    out.ready, out.left = np.zeros(count * blocks, bool), count * blocks
    return out


def locate(mc, f, site, arr, ix, m, literal=()):
    """(offset, lanes with a legal index): the element of the buffer, one for all or one for each lane of the mask.

    A wrong index is noted, and its lanes are left out.
    """
    if len(ix) != len(arr.shape):
        dims = len(arr.shape)
        raise Refused(
            site.program, site.line, f"{arr.name} has {dims} dimension{'s' * (dims != 1)}, the index {len(ix)}"
        )
    some = None if m.full else m.idx
    off, wrong = arr.base, None
    if some is not None and type(off) is array:
        off = off[some]
    for k, (i, n, s) in enumerate(zip(ix, arr.shape, arr.strides, strict=True)):
        if some is not None and type(n) is array:
            n = n[some]
        if type(i) is array:
            if some is not None:
                i = i[some]
            if i.dtype is not I64:
                i = whole(i, site, arr, k)
            if i.size and (type(n) is array or i.view(U64).max() >= n):
                bad = (i < 0) | (i >= n)
                if bad.any():
                    wrong = bad if wrong is None else wrong | bad
        else:
            i = int(i) if type(i) is np.int64 else int(whole(i, site, arr, k))
            if i < 0 and k in literal:
                i += n
            if type(n) is array:
                bad = (i < 0) | (i >= n)
                wrong = (bad if wrong is None else wrong | bad) if bad.any() else wrong
            elif i < 0 or i >= n:
                wrong = np.ones(m.n, bool)
        off = off + (i if s == 1 else i * s)
    if wrong is not None and m.n:
        return _outside(mc, f, site, arr, ix, m, off, wrong)
    return off, m


def whole(i, site, arr, axis):
    if i.dtype.kind not in "iu":
        what = "a bool" if i.dtype.kind == "b" else f"a {i.dtype}"
        raise Refused(
            site.program,
            site.line,
            f"index {axis} of {arr.name} is {what}",
            "an index must be a whole number: int(...)",
        )
    return i.astype(I64)


def _outside(mc, f, site, arr, ix, m, off, wrong):
    at = m.idx[np.flatnonzero(wrong)]
    first = at[0]
    index = tuple(int(i[first]) if type(i) is array else int(i) for i in ix)
    shape = tuple(int(n[first]) if type(n) is array else int(n) for n in arr.shape)
    negative = any(i < 0 for i in index)
    verb = {"read": "reads", "write": "writes", "atomic": "adds to"}[site.kind]
    sizes = f"({shape[0]},)" if len(shape) == 1 else str(shape)
    mc.fault(
        "out_of_bounds",
        f,
        site,
        lanes=at[:1],
        array=arr.name,
        index=index,
        count=len(at),
        message=f"{verb} {arr.name}[{', '.join(map(str, index))}], outside its shape {sizes}",
        hint="a negative index reads from the end in Numba and outside the array in C: guard it"
        if negative
        else "guard it with an if, or correct the index",
    )
    left = np.zeros(m.b.size, bool)
    left[m.idx[np.flatnonzero(~wrong)]] = True
    good = type(m)(left)
    return (off[~wrong] if type(off) is array else off), good


def _note(mc, f, site, arr, off, m, values):
    """Write the access into the log of the buffer; returns the offset with the block's part of shared memory."""
    if arr.per and f.g.blocks > 1:
        own = f.g.part_of(arr)
        off = off + (own if m.full else own[m.idx])
    if mc.recording:
        mc.record(f.g, site, arr, off, m, values)
    return off


def read(mc, f, site, arr, off, m):
    """The elements at `off`: one value for all lanes or one a lane (what lanes outside the mask hold means nothing)."""
    if m.n == 0:
        return arr.dtype.type(0)
    if arr.buffer.space == "local":
        return _read_local(mc, f, site, arr, off, m)
    off = _note(mc, f, site, arr, off, m, None)
    if arr.left and mc.recording:
        _check_ready(mc, f, site, arr, off, m)
    if type(off) is not array:
        return arr.flat[off]
    values = arr.flat[off]
    if m.full:
        return values
    out = np.zeros(m.b.size, arr.dtype)
    out[m.idx] = values
    return out


def _read_local(mc, f, site, arr, off, m):
    if mc.recording:
        mc.record_local(f.g, site, arr, off, m)
    one = type(off) is not array
    if arr.left > 0 and mc.recording:
        ready = arr.ready[off, m.idx] if not (one and m.full) else arr.ready[off]
        if not ready.all():
            _unset(mc, f, site, arr, off, m, ~ready)
    if one:
        return arr.flat[off].copy()
    out = np.zeros(m.b.size, arr.dtype)
    out[m.idx] = arr.flat[off, m.idx]
    return out


def _check_ready(mc, f, site, arr, off, m):
    ready = arr.ready[off]
    if type(off) is array:
        if not ready.all():
            _unset(mc, f, site, arr, off, m, ~ready)
    elif not ready:
        _unset(mc, f, site, arr, off, m, np.ones(m.n, bool))


def _unset(mc, f, site, arr, off, m, bad):
    at = np.flatnonzero(bad)
    offset = off[at[0]] if type(off) is array else off
    index = arr.index(offset)
    where = f"{arr.space} memory"
    mc.fault(
        "unset",
        f,
        site,
        lanes=m.idx[at[:1]],
        array=arr.name,
        index=index,
        count=len(at),
        message=f"reads {arr.name}[{', '.join(map(str, index))}], which nobody has set",
        hint=f"{where} starts with whatever was there before: set every element that is read",
    )


def write(mc, f, site, arr, off, m, value):
    """Store a value into the elements at `off`."""
    if m.n == 0:
        return
    if not arr.writeable:
        raise Refused(site.program, site.line, f"{arr.name} is read-only, and the kernel writes into it", "", "error")
    if value.dtype is not arr.dtype:
        value = value.astype(arr.dtype)
    many = type(value) is array
    if many and not m.full:
        value = value[m.idx]
    if arr.buffer.space == "local":
        return _write_local(mc, f, site, arr, off, m, value)
    off = _note(mc, f, site, arr, off, m, value)
    if type(off) is array:
        if mc.seed is not None:
            p = mc.shuffle(len(off))
            off, value = off[p], value[p] if many else value
        arr.flat[off] = value
    else:
        arr.flat[off] = value[mc.shuffle(m.n)[-1] if mc.seed is not None else -1] if many else value
    if arr.ready is not None:
        arr.ready[off] = True
    return None


def _write_local(mc, f, site, arr, off, m, value):
    if mc.recording:
        mc.record_local(f.g, site, arr, off, m)
    if type(off) is not array and m.full:
        arr.flat[off] = value
        if arr.left > 0:
            arr.left -= int(np.count_nonzero(~arr.ready[off]))
            arr.ready[off] = True
        return
    arr.flat[off, m.idx] = value
    if arr.left > 0:
        arr.left -= int(np.count_nonzero(~arr.ready[off, m.idx]))
        arr.ready[off, m.idx] = True


def part(mc, f, site, arr, ix, m):
    """x[i] of a matrix, x[a:b]: a view. An index is a number, or (start, stop) of a slice with None for an end."""
    base, shape, strides = arr.base, [], []
    for k, (n, s) in enumerate(zip(arr.shape, arr.strides, strict=True)):
        i = ix[k] if k < len(ix) else (None, None)
        if isinstance(i, tuple):
            lo, hi = _ends(i, n)
            base = base + lo * s
            shape.append(hi - lo if type(hi) is array or type(lo) is array else max(0, hi - lo))
            strides.append(s)
            continue
        i = whole(i, site, arr, k)
        bad = (i < 0) | (i >= n)
        if (bad & m.b).any():
            _outside(mc, f, site, arr, [i], m, base, np.broadcast_to(bad, m.b.shape)[m.idx])
            raise Stop
        base = base + (i * s if type(i) is array else int(i) * s)
    return arr.view(base, tuple(shape), tuple(strides))


def _ends(pair, n):
    lo, hi = pair
    lo = 0 if lo is None else lo
    hi = n if hi is None else hi
    out = []
    for v in (lo, hi):
        if type(v) is array:
            v = np.where(v < 0, v + n, v)
            out.append(np.clip(v, 0, n))
        else:
            v = int(v)
            out.append(min(max(v + n if v < 0 else v, 0), n) if not isinstance(n, array) else np.clip(v, 0, n))
    return out
