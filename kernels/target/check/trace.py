"""What one warp did, in order: for pictures of a learner's own kernel."""

from dataclasses import dataclass

import numpy as np

from .arith import array
from .places import plural


@dataclass(frozen=True)
class Event:
    """One access or wait of a warp.

    time: when, counted in events of this warp. what: read, write, atomic, barrier, warp_barrier or shuffle. lanes: the
    lanes that took part; indices: for each of them the element of the array, counted in C order. space: global, shared
    or local.
    """

    time: int
    line: int
    what: str
    array: str | None
    lanes: tuple
    indices: tuple
    space: str | None


class Trace:
    """The events of one warp. `lines` holds the text of every line met, `threads` (x, y, z) of the warp's lanes.

    `report` is the report of the run it was taken from.
    """

    def __init__(self, name, block, warp, events, lines, threads, shapes, report):
        self.name, self.block, self.warp, self.events = name, block, warp, events
        self.lines, self.threads, self.shapes, self.report = lines, threads, shapes, report

    def of(self, what, array=None):
        """The events of a kind, of one array or of all."""
        return tuple(e for e in self.events if e.what == what and array in (None, e.array))

    def reads(self, array=None):
        return self.of("read", array)

    def writes(self, array=None):
        return self.of("write", array)

    def atomics(self, array=None):
        return self.of("atomic", array)

    def barriers(self):
        return self.of("barrier")

    def __repr__(self):
        return f"<trace of {self.name}, block {self.block}, warp {self.warp}: {plural(len(self.events), 'event')}>"


class Recorder:
    """Collects the events of one warp of one block while a launch runs."""

    def __init__(self, block, warp):
        self.block, self.warp = block, warp
        self.forget()

    def forget(self):
        """Begin again."""
        self.events, self.lines, self.shapes, self.threads = [], {}, {}, ()
        self._group = self._at = None

    def _positions(self, mc, g):
        """Where the lanes of the warp are in the group; None if the block is not among those that run."""
        if g is not self._group:
            self._group, self._at = g, None
            blk = np.flatnonzero(mc.numbers == self.block)
            warps = g.warps // g.blocks
            if len(blk) and 0 <= self.warp < warps:
                row = g.position[blk[0] * warps + self.warp]
                self._at = row[row >= 0]
                self.threads = tuple(mc.thread(g, k) for k in self._at)
        return self._at

    def access(self, mc, g, site, arr, off, m):
        at = self._positions(mc, g)
        if at is None:
            return
        on = np.flatnonzero(m.b[at])
        if not len(on):
            return
        where = np.searchsorted(m.idx, at[on])
        offsets = off[where] if type(off) is array else np.full(len(on), off)
        shape = tuple(int(n) for n in arr.root.shape)
        indices = tuple(int(np.ravel_multi_index(arr.root.index(x), shape)) for x in offsets)
        self.shapes[arr.root.name] = shape
        self._add(site.program, site.line, site.kind, arr.root.name, on, indices, arr.space)

    def other(self, mc, g, program, line, m, what):
        at = self._positions(mc, g)
        if at is None:
            return
        on = np.flatnonzero(m.b[at])
        if len(on):
            self._add(program, line, what, None, on, (), None)

    def _add(self, program, line, what, name, on, indices, space):
        self.lines[line] = program.text(line)
        self.events.append(Event(len(self.events), line, what, name, tuple(int(k) for k in on), indices, space))
