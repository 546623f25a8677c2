"""Lanes that run in step, and the variables of a function in them."""

import numpy as np

from .arith import array, is_number, merge
from .faults import Refused
from .masks import Mask


class Group:
    """Lanes of a batch of blocks. A position is a number within the group; `lanes` are numbers within the batch.

    thread, block, at (x, y, z): threadIdx, blockIdx and cuda.grid, one a lane. blk: which block of the batch. warp,
    lane: numbers of the warp (in the batch) and within it; position[warp, lane] goes back. epoch counts syncwarps.
    live: lanes that have not returned.
    """

    def __init__(self, lanes, numbers, block, grid):
        threads = block[0] * block[1] * block[2]
        self.lanes, self.size, self.blocks = lanes, len(lanes), len(numbers)
        own = lanes % threads
        self.blk = lanes // threads
        x, y, _ = block
        self.thread = (own % x, own // x % y, own // (x * y))
        self.block = tuple(_axis(numbers, grid, k, self.blk) for k in range(3))
        self.at = tuple(
            b * np.int64(n) + t if n > 1 else _vector(b, self.size)
            for b, n, t in zip(self.block, block, self.thread, strict=True)
        )
        self.all = Mask(np.ones(self.size, bool), self.size)
        per_block = -(-threads // 32)
        self.lane = own % 32
        self.warp = self.blk * per_block + own // 32
        self.warps = self.blocks * per_block
        self.all_warps = np.unique(self.warp)
        self.position = np.full((self.warps, 32), -1)
        self.position[self.warp, self.lane] = np.arange(self.size)
        self.epoch = np.zeros(self.size, np.int64)
        self.live = self.all.b
        self.votes, self._parts = 0, {}

    def part_of(self, arr):
        """Where each lane's block has its part of a shared array."""
        found = self._parts.get(arr.per)
        if found is None:
            found = self._parts[arr.per] = self.blk * arr.per
        return found


def _vector(b, size):
    return b if type(b) is array else np.full(size, b)


def _axis(numbers, grid, k, blk):
    """blockIdx along an axis: one number if the blocks agree, else one a lane."""
    x, y, _ = grid
    of = (numbers % x, numbers // x % y, numbers // (x * y))[k].astype(np.int64)
    return of[0] if (of == of[0]).all() else of[blk]


class Frame:
    """The variables of a call: `v` the values by slot, `set` the lanes that have set them."""

    __slots__ = ("again", "broken", "g", "local", "mc", "program", "result", "set", "v")

    def __init__(self, mc, g, program):
        self.mc, self.g, self.program = mc, g, program
        self.v, self.set = [None] * len(program.slots), [None] * len(program.slots)
        self.local, self.broken, self.again, self.result = {}, None, None, None

    def assign(self, slot, value, m):
        """Set a variable in the lanes of a mask."""
        held = self.set[slot]
        if held is None or held is m or m.full or m.covers(held):
            self.v[slot], self.set[slot] = value, m
            return
        self.v[slot] = self._merged(m, value, self.v[slot])
        if not held.full:
            self.set[slot] = held.union(m)

    def _merged(self, m, new, old):
        if new is old:
            return old
        if is_number(new) and is_number(old):
            return merge(m.b, new, old)
        if isinstance(new, tuple) and isinstance(old, tuple) and len(new) == len(old):
            return tuple(self._merged(m, a, b) for a, b in zip(new, old, strict=True))
        raise Refused(self.program, self.mc.line, "a variable stands for different arrays in different threads")

    def give_back(self, m, value):
        """return: remember the value, and the lanes that are gone if this is the kernel."""
        if self.program is self.mc.family.kernel:
            self.g.live = self.g.live & ~m.b
        if value is None:
            return
        self.result = value if self.result is None else self._merged(m, value, self.result)
