"""Operations of a warp: shuffles, votes, syncwarp. A mask must name the lanes that are there, and no others."""

import ast

import numpy as np

from . import arith
from .arith import I64, array
from .expressions import Expressions

SHUFFLES = {
    "shfl_sync": lambda lane, d: (d & 31) + 0 * lane,
    "shfl_xor_sync": lambda lane, d: lane ^ d,
    "shfl_up_sync": lambda lane, d: np.where(lane >= d, lane - d, lane),
    "shfl_down_sync": lambda lane, d: np.where(lane + d < 32, lane + d, lane),
}
VOTES = ("ballot_sync", "any_sync", "all_sync", "eq_sync")


class WarpCalls(Expressions):
    """The part of a compiler that knows warp operations and CUDA's small functions."""

    def warp_call(self, node, path):
        args = [self.value(a) for a in node.args]
        if node.keywords:
            self.refuse(node, f"cuda.{path}() takes no keywords")
        line = node.lineno
        if path == "syncwarp":
            return lambda f, m: sync(f, m, args[0](f, m) if args else None, line)
        if path == "activemask":
            return lambda f, m: ballot(f.g, True, m)
        if path in VOTES or path in SHUFFLES:
            count = 2 if path in VOTES else 3
            if len(args) != count:
                self.refuse(node, f"cuda.{path}() takes {count} numbers, a mask first, got {len(args)}")
            if path in VOTES:
                return lambda f, m: vote(f, m, path, args[0](f, m), args[1](f, m), line)
            return lambda f, m: shuffle(f, m, path, [a(f, m) for a in args], line)
        small = self._small(node, path, args)
        if small is None:
            self.refuse(node, f"cuda.{path}() is unknown here", "is it spelled right?")
        return small

    def _small(self, node, path, args):
        if path in BITS and len(args) == 1:
            return lambda f, m: bits(path, args[0](f, m))
        if path == "fma" and len(args) == 3:
            return lambda f, m: arith.BINARY[ast.Add](
                arith.BINARY[ast.Mult](args[0](f, m), args[1](f, m)), args[2](f, m)
            )
        if path == "selp" and len(args) == 3:
            return lambda f, m: np.where(arith.truth(args[0](f, m)), args[1](f, m), args[2](f, m))
        if path == "nanosleep":
            return lambda f, m: None
        return None


def per_warp(g, positions):
    """For each warp of the group, the number that its lanes in `positions` (a boolean) add up to as bits."""
    out = np.zeros(g.warps, I64)
    np.add.at(out, g.warp[positions], np.int64(1) << g.lane[positions])
    return out


def ballot(g, p, m):
    b = m.b if p is True else np.broadcast_to(p, m.b.shape) & m.b
    return per_warp(g, b)[g.warp]


def sync(f, m, mask, line):
    check_mask(f, m, mask, line, "syncwarp")
    f.g.epoch = f.g.epoch + m.b
    f.mc.note_warp(f, line, m, "warp_barrier")


def vote(f, m, path, mask, p, line):
    check_mask(f, m, mask, line, path)
    p = np.broadcast_to(arith.truth(p), m.b.shape)
    yes, all_ = per_warp(f.g, p & m.b)[f.g.warp], per_warp(f.g, m.b)[f.g.warp]
    if path == "ballot_sync":
        return yes
    if path == "any_sync":
        return yes != 0
    return yes == all_ if path == "all_sync" else (yes == all_) | (yes == 0)


def check_mask(f, m, mask, line, what):
    """Every live lane that the mask names must be here, and every lane here must be named."""
    if not f.mc.recording or m.n == 0:
        return
    g = f.g
    if mask is None:
        mask = np.int64(0xFFFFFFFF)
    named = ((mask >> g.lane) & 1) == 1
    here = np.zeros(g.warps, bool)
    here[g.warp[m.b]] = True
    absent = here[g.warp] & named & g.live & ~m.b
    extra = m.b & ~named
    if absent.any():
        first = np.flatnonzero(absent)[0]
        warp = (g.warp == g.warp[first]) & m.b
        f.mc.fault_at(
            "barrier",
            f,
            line,
            lanes=[np.flatnonzero(warp)[0], first],
            count=int(absent.sum()),
            message=f"cuda.{what} waits for thread {{1}}, which is not there: only {int(warp.sum())} lanes of the "
            "warp came",
            hint="the mask must name the lanes that come: move the call out of the condition, or correct the mask",
        )
    elif extra.any():
        first = np.flatnonzero(extra)[:1]
        f.mc.fault_at(
            "barrier",
            f,
            line,
            lanes=first,
            count=int(extra.sum()),
            message=f"thread {{0}} calls cuda.{what}, but the mask leaves its lane out",
            hint="the mask must name the lanes that come: move the call out of the condition, or correct the mask",
        )


def shuffle(f, m, path, args, line):
    mask, v, d = args
    g = f.g
    check_mask(f, m, mask, line, path)
    f.mc.note_warp(f, line, m, "shuffle")
    d = d.astype(I64)
    v = np.broadcast_to(v, m.b.shape)
    source = np.broadcast_to(SHUFFLES[path](g.lane, d), m.b.shape)
    at = g.position[g.warp, np.clip(source, 0, 31)]
    missing = m.b & ((at < 0) | ~m.b[at])
    if missing.any() and f.mc.recording:
        first = np.flatnonzero(missing)[:1]
        f.mc.fault_at(
            "unset",
            f,
            line,
            lanes=first,
            count=int(missing.sum()),
            message=f"cuda.{path} reads lane {int(source[first[0]])}, which is not there",
            hint="what it gets is undefined: shuffle among lanes that all take part",
        )
    out = v[at]
    if missing.any():
        out = out.copy()
        out[missing] = np.nan if v.dtype.kind == "f" else 77
    return out


def _reverse(x, width):
    return int(format(x, f"0{width}b")[::-1], 2)


BITS = {
    "popc": lambda x, w: x.bit_count(),
    "clz": lambda x, w: w - x.bit_length(),
    "ffs": lambda x, w: (x & -x).bit_length(),
    "brev": _reverse,
}


def bits(name, v):
    """popc, clz, ffs, brev of whole numbers, in the width of their type."""
    if v.dtype.kind not in "iub":
        raise TypeError(f"cuda.{name} needs a whole number, got {v.dtype}")
    width = v.dtype.itemsize * 8
    function, top = BITS[name], (1 << width) - 1
    if type(v) is array:
        return np.array([function(x & top, width) for x in v.tolist()], I64)
    return np.int64(function(int(v) & top, width))
