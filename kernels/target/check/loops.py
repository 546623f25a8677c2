"""Loops in progress: which lanes are in one, and what the next round is."""

import numpy as np

from .arith import array
from .faults import Refused


class Rounds:
    """A loop in progress: `act` are the lanes in it, `done` those that left it by its condition."""

    __slots__ = ("act", "ask", "count", "done", "f", "kept", "line", "start", "stuck")

    def __init__(self, f, m, ask, line, stuck=""):
        self.f, self.start, self.act, self.ask, self.line, self.stuck = f, m, m, ask, line, stuck
        self.done, self.count = m.where(False), 0
        self.kept = f.broken, f.again
        f.broken = None

    def more(self):
        """Ask which lanes do one more round; False if none does."""
        act = self.act
        if act.n == 0:
            return False
        new = self.ask(self.f, act)
        if new is not act:
            self.done = self.done.union(act.minus(new)) if new.n else self.done.union(act)
            self.act = new
            if new.n == 0:
                return False
        self.count += 1
        self.f.again = None
        self.f.mc.tick(self.f, self.line, self.act, self.count, self.stuck)
        return True

    def after(self, out):
        self.act = out if self.f.again is None else out.union(self.f.again)

    def end(self):
        """The lanes that go on after the loop."""
        f = self.f
        out = self.done if f.broken is None else self.done.union(f.broken)
        f.broken, f.again = self.kept
        return self.start if out.n == self.start.n else out


def counting(given, store, program, node):
    """The rounds of a range: a function (frame, lanes) -> lanes that do one more, with the loop variable set."""
    lo, hi, by = (np.int64(0), given[0], np.int64(1)) if len(given) == 1 else (*given, np.int64(1))[:3]
    if np.any(by == 0):
        raise Refused(program, node, "range() has step 0", "", "error")
    if not any(type(v) is array for v in (lo, hi, by)):
        return uniform(range(int(lo), int(hi), int(by)), store)
    state = [lo.astype(np.int64)]

    def ask(f, act):
        now = state[0]
        go = (now < hi) if np.all(by > 0) else np.where(by > 0, now < hi, now > hi)
        act = act.where(go)
        if act.n:
            store(f, act, now)
            state[0] = now + by
        return act

    return ask


def uniform(numbers, store):
    numbers = iter(numbers)

    def ask(f, act):
        k = next(numbers, None)
        if k is None:
            return act.where(False)
        store(f, act, np.int64(k))
        return act

    return ask
