"""The machine: threads of several blocks run in step as the lanes of vectors, every access is written down.

A group is a set of lanes in lockstep. The recording run has one group with all threads of up to LANES lanes, whole
blocks; runs in another order cut each block's threads into two groups that run to the next barrier one after the other.
"""

import numpy as np

from . import memory, races, traffic
from .arguments import Placed
from .arith import I64, is_number, lift
from .faults import MAX_LOCAL, MAX_SHARED, Fault, Refused, Stop
from .findings import Findings
from .frames import Frame, Group
from .memory import Array, Buffer, c_strides
from .places import short, unravel
from .shuffles import Draws

LANES = 4096
STUCK = 1000  # rounds of a loop that cannot end
TOTAL = 10  # budgets that all loops of a block may take together


class Machine:
    """One run of a launch. `seed` None: all threads in step, recorded; a number: that order, nothing recorded."""

    def __init__(self, family, launch, budget, seed=None, trace=None, blocks=None):
        self.family, self.launch, self.budget, self.seed, self.trace = family, launch, budget, seed, trace
        self.grid, self.block = launch.grid, launch.block
        self.recording = seed is None
        self.threads = self.block[0] * self.block[1] * self.block[2]
        self.block_dim = tuple(np.int64(n) for n in self.block)
        self.grid_dim = tuple(np.int64(n) for n in self.grid)
        self.grid_size = tuple(np.int64(b * g) for b, g in zip(self.block, self.grid, strict=True))
        self.faults, self.float64 = {}, {}
        self.float64_meant = launch.has_float64
        self.traffic = traffic.Counter()
        self.order = races.BlockOrder(self.threads)
        self.draws = Draws(seed or 0)
        self.buffers, self.constants, self.arrays, self.shared = [], {}, {}, {}
        self.findings = Findings()
        self.findings.written = races.kinds(family.sites) == races.WRITE
        self.line, self.program, self.step, self.rounds = family.kernel.source.first, family.kernel, 0, 0
        self.bytes, self.pending = 0, 0
        self.blocks = blocks

    # ---- running ---------------------------------------------------------------------------------------------------
    def run(self, together):
        """Run every block, `together` at a time; True if all of them came to their end."""
        frame0 = self._arguments()
        blocks = np.arange(self.launch.blocks) if self.blocks is None else np.asarray(self.blocks)
        if self.seed is not None:
            blocks = blocks[self.draws.permutation(len(blocks))]
        done = True
        with np.errstate(all="ignore"):
            try:
                for k in range(0, len(blocks), together):
                    self._batch(blocks[k : k + together], frame0)
            except Stop:
                done = False
            if self.recording:
                self.flush(None)
                self.traffic.settle(True)
                races.across_blocks(self)
        return done

    def _arguments(self):
        """Values of the kernel's parameters; arrays that overlap share a buffer."""
        out, written = {}, self.family.written
        for name, value in self.launch.arguments.items():
            if isinstance(value, Placed):
                buffer = next((b for b in self.buffers if b.number == value.group), None)
                if buffer is None:
                    buffer = Buffer(name, "global", value.count, value.group, False)
                    self.buffers.append(buffer)
                buffer.written |= name in written
                value = Array(
                    name,
                    buffer,
                    value.flat,
                    value.shape,
                    value.strides,
                    value.base,
                    writeable=value.writeable,
                    align=value.align,
                )
            out[name] = value
        return out

    def _batch(self, numbers, frame0):
        """Run the blocks with these numbers in step."""
        self.traffic.settle(True)
        self.numbers, self.shared, self.bytes, self.rounds, self.votes = numbers, {}, self.launch.dynamic, 0, {}
        lanes = np.arange(len(numbers) * self.threads)
        runs = []
        for part in self._parts(lanes):
            g = Group(part, numbers, self.block, self.grid)
            f = Frame(self, g, self.family.kernel)
            for name, value in frame0.items():
                f.assign(f.program.slots[name], value, g.all)
            runs.append(f.program.code.steps(f, g.all))
        while runs:
            left = []
            for k in self.draws.permutation(len(runs)) if self.seed is not None else range(len(runs)):
                try:
                    next(runs[k])
                    left.append(runs[k])
                except StopIteration:
                    pass
            runs = left
        if self.recording:
            self.flush(None)

    def _parts(self, lanes):
        """The groups that run apart: all together when recording, else two, cut by a seeded draw within each block."""
        unit = 32 if self.family.has_warp_operations() else 1
        units = -(-self.threads // unit)
        if self.seed is None or units < 2:
            return [lanes]
        of = self.draws.halves(units)[lanes % self.threads // unit]
        return [lanes[of], lanes[~of]]

    def tick(self, f, line, act, count, stuck):
        """A round of a loop: an endless one is stopped here. stuck: why it cannot end, or empty."""
        self.rounds += 1
        if count > self.budget or self.rounds > self.budget * TOTAL or stuck and count > STUCK:
            rounds = self.rounds if self.rounds > self.budget * TOTAL else count
            self.fault_at(
                "endless",
                f,
                line,
                lanes=act.idx[:1],
                count=rounds - 1,
                message=f"still in this loop after {rounds - 1:,} rounds, with {act.n:,} of {act.b.size:,} threads",
                hint=stuck
                or "it never ends, or waits for a thread that cannot run; a loop meant to be so long needs budget=",
            )
            raise Stop

    # ---- barriers ----------------------------------------------------------------------------------------------------
    def barrier(self, f, m, line):
        """cuda.syncthreads(): every thread of a block, or none of it."""
        if not self.recording:
            return
        g = f.g
        at = None
        if not m.full:
            came = np.bincount(g.blk[m.idx], minlength=g.blocks)
            partial = (came > 0) & (came < self.threads)
            if partial.any():
                self._torn(f, m, line, came, partial)
            at = came > 0
        self.note_warp(f, line, m, "barrier")
        self.flush(None if at is None else at)

    def _torn(self, f, m, line, came, partial):
        g, blk = f.g, int(np.flatnonzero(partial)[0])
        inside = g.blk == blk
        here, away = np.flatnonzero(m.b & inside), np.flatnonzero(~m.b & inside)
        gone = not (g.live & ~m.b & inside).any()
        self.fault_at(
            "barrier",
            f,
            line,
            lanes=[here[0], away[0]],
            count=int(partial.sum()),
            message=f"the barrier is reached by {int(came[blk])} of {self.threads} threads, by thread {{0}}, not by "
            f"thread {{1}}" + (", which has returned" if gone else ""),
            hint="every thread of the block must reach the same barrier: move it out of the condition"
            if not gone
            else "every thread of the block must reach it: guard the work with an if, do not return before a barrier",
        )
        raise Stop

    def vote(self, f, m, p):
        """Collect what the threads say in syncthreads_count and its relatives; returns a function that counts."""
        f.g.votes += 1
        key = f.g.votes
        said = self.votes.setdefault(key, np.full(len(self.numbers) * self.threads, -1, np.int8))
        said[f.g.lanes[m.idx]] = np.broadcast_to(p, m.b.shape)[m.idx]

        def count(path):
            rows = said.reshape(-1, self.threads)[f.g.blk]
            if path == "syncthreads_count":
                return (rows == 1).sum(1)
            return ((rows != 0).all(1) if path.endswith("and") else (rows == 1).any(1)).astype(I64)

        return count

    def flush(self, blocks):
        """An interval between barriers ends, for the blocks where `blocks` is true (None: all): look for races."""
        buffers = [*self.buffers, *(a.buffer for a in self.shared.values())]
        for buffer in buffers:
            if buffer.log:
                races.interval(self, buffer, blocks)
        self.traffic.settle()
        for a in self.shared.values():
            if a.left and a.ready.all():
                a.left = 0
        self.order.interval(self.numbers if blocks is None else self.numbers[blocks], self.step)

    # ---- what the compiled code calls ------------------------------------------------------------------------------
    def record(self, g, site, arr, off, m, values):
        """Write an access down."""
        self.step += 1
        self.arrays[site.number] = arr.root
        self.traffic.add(g, site, arr, off, m)
        if arr.buffer.written:
            arr.buffer.log.append(races.Access(site, off, m, self.step, g, values))
            self._keep_short(arr.buffer, m.n)
        if self.trace is not None:
            self.trace.access(self, g, site, arr, off, m)

    def _keep_short(self, buffer, n):
        self.pending += n
        if self.pending > races.MOST:
            for b in [*self.buffers, *(a.buffer for a in self.shared.values())]:
                races.squash(b)
            self.pending = 0

    def record_local(self, g, site, arr, off, m):
        self.step += 1
        self.traffic.add_local(site, arr, m)
        if self.trace is not None:
            self.trace.access(self, g, site, arr, off, m)

    def note_warp(self, f, line, m, what):
        self.step += 1
        if self.trace is not None and self.recording:
            self.trace.other(self, f.g, f.program, line, m, what)

    def fence(self, f, m):
        if self.recording:
            self.step += 1
            self.order.fence(self, f.g, m, self.step)

    def atomic_order(self, f, arr, off, m):
        if self.recording:
            self.order.atomic(self, f.g, arr.buffer.number, off, m, self.step)

    def shuffle(self, n):
        return self.draws.permutation(n)

    def outside(self, name, value):
        """An array from outside the kernel."""
        found = self.constants.get(id(value))
        if found is None:
            flat = np.ascontiguousarray(value).reshape(-1)
            buffer = Buffer(name, "global", flat.size, 1000 + len(self.constants), False)
            found = Array(name, buffer, flat, value.shape, c_strides(value.shape), writeable=False)
            self.constants[id(value)] = found
        return found

    def shared_array(self, f, key, line, shape, dtype):
        found = self.shared.get(key)
        if found is None:
            if shape == (0,):
                return self._dynamic(f, key, line, dtype)
            self.bytes += int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            if self.bytes > MAX_SHARED:
                self.fault_at(
                    "limits",
                    f,
                    line,
                    count=self.bytes,
                    message=f"{self.bytes:,} bytes of shared memory a block, the limit is {MAX_SHARED:,}",
                    hint="use smaller tiles",
                )
                raise Stop
            found = memory.shared_array("?", shape, dtype, len(self.numbers), len(self.shared))
            self.shared[key] = found
        return found

    def _dynamic(self, f, key, line, dtype):
        """Dynamic shared memory: every array of size 0 begins at its first byte."""
        count = self.launch.dynamic // dtype.itemsize
        if count == 0:
            raise Refused(
                f.program, line, "an array of size 0", "give its size here, or bytes as k[grid, block, 0, bytes]"
            )
        first = self.shared.get("dynamic")
        if first is None:
            first = memory.shared_array("?", (count,), dtype, len(self.numbers), len(self.shared))
        elif first.dtype.itemsize != dtype.itemsize:
            raise Refused(f.program, line, "dynamic shared memory used with elements of two sizes")
        found = Array("?", first.buffer, first.flat.view(dtype), (count,), (1,), per=count)
        found.ready, found.left = first.ready, first.left
        self.shared["dynamic"], self.shared[key] = first, found
        return found

    def local_limit(self, program, line, size):
        self.program = program
        message = f"{size:,} bytes of local memory a thread, the limit is {MAX_LOCAL:,}"
        hint = "use a smaller array"
        self.add(Fault("limits", program.file, line, program.text(line), None, (), None, (), size, message, hint))
        raise Stop

    def enter(self, f, callee, args, m):
        """The frame of a device function."""
        d = Frame(self, f.g, callee)
        self.program = callee
        for slot_name, v in zip(callee.params, args, strict=True):
            if not (is_number(v) or isinstance(v, (Array, tuple))):
                raise Refused(f.program, self.line, f"{callee.name}() gets a {type(v).__name__} for {slot_name}")
            d.assign(callee.slots[slot_name], lift(v), m)
        return d

    def leave(self, d, f):
        self.program = f.program
        return d.result

    # ---- faults ----------------------------------------------------------------------------------------------------
    def add(self, fault, key=None):
        key = key or (fault.kind, fault.file, fault.line, fault.array)
        held = self.faults.get(key)
        self.faults[key] = fault if held is None else held.again(fault.count)

    def array_of(self, buffer, site):
        """The array that a site touches."""
        return self.arrays[site.number]

    def thread(self, g, position):
        return unravel(g.lanes[position] % self.threads, self.block)

    def block_of(self, g, position):
        return unravel(self.numbers[g.lanes[position] // self.threads], self.grid)

    def fault(self, kind, f, site, lanes, array, index, count, message, hint):
        self._fault(kind, f, site.program, site.line, lanes, array, index, count, message, hint)

    def fault_at(self, kind, f, line, count, message, hint, lanes=(), array=None, index=()):
        self._fault(kind, f, f.program, line, lanes, array, index, count, message, hint)

    def _fault(self, kind, f, program, line, lanes, array, index, count, message, hint):
        if not self.recording:
            return
        lanes = [int(k) for k in lanes]
        threads = tuple(self.thread(f.g, k) for k in lanes)
        block = self.block_of(f.g, lanes[0]) if lanes else None
        words = [short(t, self.block) for t in threads]
        if "{" in message:
            message = message.format(*words)
        elif words:
            message = f"thread {words[0]} {message}" if kind != "endless" else f"thread {words[0]} is {message}"
        self.add(
            Fault(kind, program.file, line, program.text(line), block, threads, array, index, count, message, hint)
        )

    def unset_name(self, f, name, line, missing, fatal):
        self._fault(
            "unset",
            f,
            f.program,
            line,
            missing.idx[:1],
            name,
            (),
            missing.n,
            f"reads the variable {name}, which it has not set",
            "give it a value on every path, before the if or in an else",
        )
        if fatal:
            raise Stop

    def wide(self, f, line, name):
        """float64 crept in."""
        if not self.float64_meant and self.recording:
            self.float64.setdefault((f.program.file, line, name), f.program)
