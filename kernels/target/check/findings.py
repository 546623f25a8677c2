"""Conflicts gathered over a run, and the faults they make: one for a pair of places in the text, with exact counts."""

import numpy as np

from .faults import Fault
from .places import short, unravel

_VERB = {"read": "reads", "write": "writes", "atomic": "changes"}


class Pair:
    """Two sites that conflict: the elements where they do, and the first example."""

    def __init__(self, buffer, a, b, far, example):
        self.buffer, self.a, self.b, self.far, self.example = buffer, a, b, far, example
        self.places, self.different = [], False

    def count(self):
        return len(np.unique(np.concatenate(self.places)))


class Findings:
    """All conflicts of a run."""

    def __init__(self):
        self.pairs = {}

    def add(self, mc, buffer, t, pair, far=False):
        """Enter the entries x, y of a table at which the sites a, b conflict."""
        a, b, x, y = pair
        a, b = mc.family.sites[a], mc.family.sites[b]
        rank = {"write": 0, "atomic": 1, "read": 2}
        if (rank[b.kind], b.line) < (rank[a.kind], a.line):
            a, b, x, y = b, a, y, x
        key = (a.number, b.number, far)
        found = self.pairs.get(key)
        if found is None:
            found = self.pairs[key] = Pair(buffer, a, b, far, self._example(mc, buffer, t, x[0], y[0], far))
        found.places.append(self._places(mc, buffer, t, x, far))
        if a.kind == b.kind == "write" and not found.different:
            found.different = self._different(t, x)

    def _places(self, mc, buffer, t, x, far):
        off = t.off[x]
        if buffer.space == "global":
            return off
        per = buffer.size // len(mc.numbers)
        return mc.numbers[off // per] * per + off % per

    def _different(self, t, x):
        """True if one of the elements was given two values."""
        same = np.isin(t.off, t.off[x]) & (t.bits is not None)
        off, bits = t.off[same], t.bits[same]
        kind = self.written[t.site[same]]
        off, bits = off[kind], bits[kind]
        order = np.lexsort((bits, off))
        off, bits = off[order], bits[order]
        return bool(((off[1:] == off[:-1]) & (bits[1:] != bits[:-1])).any())

    def _example(self, mc, buffer, t, x, y, far):
        out = []
        for e in (x, y):
            lane = int(t.lane[e])
            number = lane // mc.threads
            number = number if far else int(mc.numbers[number])
            out.append((unravel(number, mc.grid), unravel(lane % mc.threads, mc.block), int(t.step[e])))
        return int(t.off[x]), tuple(out)

    # ---- faults ----------------------------------------------------------------------------------------------------
    def faults(self, mc):
        """The faults, those of one mistake put together."""
        lost = {p.a.number for p in self.pairs.values() if p.a.kind == "write" and p.b.kind == "read" and twins(p)}
        told, out = {}, []
        for key in sorted(self.pairs):
            p = self.pairs[key]
            kind = self._kind(p, lost)
            held = (kind, p.a.number, p.b.number if kind != "lost_update" else -1)
            told.setdefault(held, []).append(p)
        for (kind, _, _), pairs in told.items():
            out.append(self._fault(mc, kind, sorted(pairs, key=lambda p: (p.far, p.b.number))))
        return out

    def _kind(self, p, lost):
        if p.b.kind == "read" and twins(p) or p.b is p.a and p.a.number in lost:
            return "lost_update"
        if p.a.kind == p.b.kind == "write" and not p.different:
            return "same_value"
        return "race"

    def _fault(self, mc, kind, pairs):
        p = pairs[0]
        if kind == "lost_update":
            p = next((q for q in pairs if q.b.kind == "read" and q.far == pairs[0].far), p)
        places = len(np.unique(np.concatenate([x for q in pairs for x in q.places])))
        off, ((block, thread, t0), (other, second, t1)) = p.example
        arr = mc.array_of(p.buffer, p.a)
        index = arr.index(off) if arr is not None else (off,)
        name = arr.name if arr is not None else p.buffer.name
        at = f"{name}[{', '.join(map(str, index))}]"
        one, two = short(thread, mc.block), short(second, mc.block)
        elsewhere = f" (line {p.b.line})" if p.b.line != p.a.line else ""
        if p.far:
            one, two = f"{one} of block {short(block, mc.grid)}", f"{two} of block {short(other, mc.grid)}"
        verb = _VERB[p.b.kind]
        if kind == "same_value":
            message = f"thread {one} and thread {two}{elsewhere} write the same value into {at}"
        else:
            message = f"thread {one} {_VERB[p.a.kind]} {at}, thread {two} {verb} it{elsewhere}"
        if any(q.far != p.far for q in pairs):
            message += "; other blocks do too"
        program = p.a.program
        return Fault(
            kind,
            program.file,
            p.a.line,
            program.text(p.a.line),
            None if p.far else block,
            (thread, second),
            name,
            index,
            places,
            message,
            self._hint(kind, p, t0, t1),
        )

    def _hint(self, kind, p, t0, t1):
        if kind == "same_value":
            return "the result does not depend on who comes last; clearer is one thread that writes, if ... == 0"
        if kind == "lost_update":
            return f"an update is a read and a write, and another thread may come between: {_instead(p)}"
        if p.far:
            return (
                "blocks run in any order, and no barrier holds them: one owner an element, an atomic, or two launches"
            )
        if p.a is p.b:
            return "several threads write one element and the last one wins: one owner an element, or an atomic"
        if p.a.line == p.b.line or p.a.program is not p.b.program:
            return "nothing keeps the two apart: put cuda.syncthreads() between reading and writing"
        first, then = (p.a, p.b) if t0 < t1 else (p.b, p.a)
        if first.line < then.line:
            return f"no barrier between them: cuda.syncthreads() after line {first.line} and before line {then.line}"
        return (
            f"no barrier between them: cuda.syncthreads() after line {first.line}, before line {then.line} comes again"
        )


def _instead(p):
    """The atomic that does what a line does."""
    target, _, right = p.a.program.text(p.a.line).replace(" ", "").partition("=")
    after = target[-1:] if target[-1:] in "+-" else right.partition(target)[2][:1]
    added = after == "+" or right.endswith(f"+{target}")
    for found, op in (("max(" in right, "max"), ("min(" in right, "min"), (after == "-", "sub"), (added, "add")):
        if found:
            return f"cuda.atomic.{op}(array, index, value)"
    return "one owner an element, or a loop with cuda.atomic.cas"


def twins(p):
    return p.a.twin == p.b.twin
