"""Exact counts of accesses, and what they cost: 32-byte sectors in global memory, bank cycles in shared memory.

A warp's access takes as many sectors as it touches; the best is what its different elements would take lying side by
side. In shared memory a warp waits for the bank with the most different words; the best is one cycle for 32 words.
Counts are of the kernel as written: no caches, nothing kept in registers by a compiler.
"""

from dataclasses import dataclass, field

import numpy as np

from .arith import array

SECTOR = 32
SPACES = ("global", "shared", "local")
SETTLE = 1 << 18


@dataclass
class ArrayTraffic:
    """Counts of one array (or of one line and array): elements read, written and changed by atomics."""

    space: str
    reads: int = 0
    writes: int = 0
    atomics: int = 0
    sectors: int = 0
    best_sectors: int = 0
    bank_cycles: int = 0
    best_bank_cycles: int = 0

    def count(self, kind, n):
        if kind == "read":
            self.reads += n
        elif kind == "write":
            self.writes += n
        else:
            self.atomics += n

    def cost(self, worth, best):
        if self.space == "global":
            self.sectors += worth
            self.best_sectors += best
        else:
            self.bank_cycles += worth
            self.best_bank_cycles += best


@dataclass
class Traffic:
    """What a launch reads and writes: `arrays` by name, `lines` by (line, name); totals by space."""

    arrays: dict = field(default_factory=dict)
    lines: dict = field(default_factory=dict)

    def sorted(self, params):
        """The same counts: global arrays in the order of the kernel's parameters, then the others by name."""
        first = {name: k for k, name in enumerate(params)}
        names = sorted(self.arrays, key=lambda n: (SPACES.index(self.arrays[n].space), first.get(n, len(first)), n))
        return Traffic({n: self.arrays[n] for n in names}, dict(sorted(self.lines.items())))

    def _sum(self, what, space):
        return sum(getattr(a, what) for a in self.arrays.values() if a.space == space)

    def reads(self, space="global"):
        """Elements read from a space: "global", "shared" or "local"."""
        return self._sum("reads", space)

    def writes(self, space="global"):
        """Elements written into a space."""
        return self._sum("writes", space)

    def atomics(self, space="global"):
        return self._sum("atomics", space)

    def sectors(self):
        """(sectors, best) of all of global memory."""
        return self._sum("sectors", "global"), self._sum("best_sectors", "global")


class Counter:
    """Counts while a launch runs; what is costly is left until enough has come together."""

    def __init__(self):
        self.traffic = Traffic()
        self.waiting, self.pending, self._known = {}, 0, {}

    def _both(self, site, arr):
        key = (site.number, arr.root.name)
        if key not in self._known:
            self._known[key] = self._find(site, arr)
        return self._known[key]

    def _find(self, site, arr):
        name, space = arr.root.name, arr.buffer.space
        if name in self.traffic.arrays and self.traffic.arrays[name].space != space:
            name = f"{name} ({space})"  # two functions may use one name for arrays of two kinds
        rows = self.traffic.arrays.get(name)
        if rows is None:
            rows = self.traffic.arrays[name] = ArrayTraffic(arr.buffer.space)
        key = (site.line, name)
        line = self.traffic.lines.get(key)
        if line is None:
            line = self.traffic.lines[key] = ArrayTraffic(arr.buffer.space)
        return rows, line

    def add_local(self, site, arr, m):
        for t in self._both(site, arr):
            t.count(site.kind, m.n)

    def add(self, g, site, arr, off, m):
        key = (site.number, arr.root.name)
        held = self.waiting.get(key)
        if held is None:
            held = self.waiting[key] = (site, arr, [])
        held[2].append((g, off, m))
        self.pending += m.n

    def settle(self, all_=False):
        if not all_ and self.pending < SETTLE:
            return
        for site, arr, records in self.waiting.values():
            total = sum(m.n for _, _, m in records)
            worth, best = cost(records, arr)
            for t in self._both(site, arr):
                t.count(site.kind, total)
                t.cost(worth, best)
        self.waiting, self.pending = {}, 0


def cost(records, arr):
    """(sectors or bank cycles, the best there could be) of accesses by one site."""
    shift = max(5, int(arr.buffer.size - 1).bit_length())
    keys, row = [], 0
    for g, off, m in records:
        warp = g.warp if m.full else g.warp[m.idx]
        if type(off) is not array:
            warp = g.all_warps if m.full else np.unique(warp)
        keys.append(((warp + row) << shift) + (off + arr.align))
        row += g.warps
    keys = np.concatenate(keys)
    if (keys[1:] < keys[:-1]).any():
        keys = np.sort(keys)
    new = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    keys = keys[new]
    rows = keys >> shift
    start = np.ones(len(keys), bool)
    np.not_equal(rows[1:], rows[:-1], out=start[1:])
    first = np.flatnonzero(start)
    counts = np.diff(np.append(first, len(keys)))
    item = arr.dtype.itemsize
    if arr.space == "global":
        sectors = (keys * item) // SECTOR
        worth = 1 + int(np.count_nonzero(sectors[1:] != sectors[:-1]))
        return worth, int((-(-counts * item // SECTOR)).sum())
    return _banks(keys, np.cumsum(start) - 1, item), int((-(-counts * item // 128)).sum())


def _banks(keys, rows, item):
    """Cycles of shared memory: for each row the most words in one bank."""
    if item > 4:
        words = np.concatenate([keys * (item // 4) + k for k in range(item // 4)])
        rows = np.tile(rows, item // 4)
    else:
        words = keys * item // 4
        if item < 4:
            new = np.ones(len(words), bool)
            new[1:] = words[1:] != words[:-1]
            words, rows = words[new], rows[new]
    use = np.bincount(rows * 32 + (words & 31), minlength=32)
    use = np.append(use, np.zeros(-len(use) % 32, use.dtype))
    return int(use.reshape(-1, 32).max(1).sum())
