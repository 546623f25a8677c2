"""From a Program to a tree of block-level items: where the loop over the threads of a block stands.

Statements between barriers form regions, each a loop over the threads. What is the same for all threads runs once a
block; loops and conditions around barriers, and loops that suit the memory better that way, go outside the loop over
threads.
"""

import ast
from dataclasses import dataclass, field

from .syntax import (
    assign,
    assigned,
    binop,
    has,
    has_marker,
    is_marker,
    load,
    names,
    own_jumps,
    place,
    range_args,
    stores_memory,
    target_name,
)
from .uniform import Uniformity

EARLY = "cuda.syncthreads() after an early return: threads that left never arrive; write `if i < n:` around the work"
UNEVEN = "cuda.syncthreads() {}; every thread of a block must arrive, so move the barrier out of it"


@dataclass
class Region:
    """Statements that each thread runs by itself, under conditions of its own."""

    body: list
    guards: list


@dataclass
class Uniform:
    """One statement run once a block."""

    st: ast.AST


@dataclass
class Choice:
    """An if whose arms only store into arrays: each arm has a loop over its own threads."""

    st: ast.AST
    body: list
    guards: list


@dataclass
class Barrier:
    st: ast.AST


@dataclass
class Nest:
    """A for, while or if run once a block around other items."""

    st: ast.AST
    body: list
    orelse: list = field(default_factory=list)


@dataclass
class Strided:
    """`for j in range(start, stop, step)`, start of each thread's own: `counter` runs from 0, j = start + counter.

    `inside` is the condition j < stop, one of the guards of the regions below.
    """

    st: ast.AST
    counter: str
    body: list
    inside: ast.AST


@dataclass
class Rows:
    """Items without a barrier in between, run for a few threads at a time."""

    body: list


def lower(program):
    """The items of a Program and the Uniformity they rest on; raises KernelRefused."""
    forced = set()
    while True:
        lowering = _Lowering(program, forced)
        items = lowering.items(program.body, [])
        if lowering.forced == forced:
            return items, lowering.facts
        forced = lowering.forced


class _Lowering:
    def __init__(self, program, forced):
        self.program = program
        self.facts = Uniformity(program, forced)
        self.forced = set(forced)
        self.counter = 0

    def refuse(self, st, message):
        self.program.refuse(st, message)

    def items(self, body, guards):
        out, pending = [], []

        def flush():
            if pending:
                out.append(Region(list(pending), list(guards)))
                pending.clear()

        for st in body:
            if is_marker(st, "_sync", "_warp"):
                if guards and is_marker(st, "_sync"):
                    self.refuse(st, UNEVEN.format("under a condition that differs between the threads of a block"))
                flush()
                out.append(Barrier(st))
                continue
            name = target_name(st)
            if name in self.facts.cheap:
                continue
            if name is not None and name not in self.facts.varying:
                if not self._movable(st, name, pending):
                    flush()
                out.append(Uniform(st))
                continue
            if self._copies(st, guards, pending):
                flush()
                out.append(Choice(st, [Region([st], [])], list(guards)))
                continue
            if self._once(st, guards):
                flush()
                out.append(Uniform(st))
                continue
            special = self._special(st, guards)
            if special is not None:
                flush()
                out += special
                continue
            self.forced |= {n for n in self.facts.assigned_inside(st) if n not in self.facts.varying}
            pending.append(st)
        flush()
        return out

    def _once(self, st, guards):
        """True for a loop or condition that only computes uniform values: it runs once a block."""
        if not isinstance(st, (ast.For, ast.While, ast.If)) or has_marker(st, "_sync", "_warp"):
            return False
        if list(own_jumps([st])) or (guards and has(st, ast.Subscript, ast.Call)):
            return False
        heads = [n.test for n in ast.walk(st) if isinstance(n, (ast.If, ast.While))]
        heads += [n.iter for n in ast.walk(st) if isinstance(n, ast.For)]
        if any(self.facts.var(h) for h in heads) or any(n in self.facts.varying for n in assigned(st)):
            return False
        plain = (n for n in ast.walk(st) if isinstance(n, (ast.Assign, ast.Expr)))
        return all(target_name(n) is not None for n in plain)

    def _copies(self, st, guards, pending):
        """True for a condition on ids around nothing but stores into arrays that need no value of this region."""
        if guards or not isinstance(st, ast.If) or not self.facts.var(st.test) or not self.facts.is_cheap(st.test):
            return False
        parts = [*st.body, *st.orelse]
        if not all(isinstance(x, ast.Assign) and isinstance(x.targets[0], ast.Subscript) for x in parts):
            return False
        made = {n for n in assigned(pending) if n not in self.facts.cheap}
        return not names(parts) & made

    def _movable(self, st, name, pending):
        """True if a uniform value may be computed before the pending statements of its region."""
        if not pending:
            return True
        facts = self.facts
        if not facts.single(name) or not all(facts.single(n) or n in self.program.shared for n in names(st.value)):
            return False
        when, path = facts.position[name]
        if not facts.used_within(name, when, path):
            return False
        return not has(st.value, ast.Subscript, ast.Call) or not stores_memory(pending, self.program.local)

    # ---- statements that may stand outside the loop over threads; None for those that may not
    def _special(self, st, guards):
        if isinstance(st, ast.For):
            return self._for(st, guards)
        if isinstance(st, ast.While):
            return self._while(st, guards)
        if isinstance(st, ast.If):
            return self._if(st, guards)
        if isinstance(st, (ast.Break, ast.Continue)):
            return [Uniform(st)]
        return None

    def _for(self, st, guards):
        facts = self.facts
        args = range_args(st)
        even = not any(facts.var(a) for a in args)
        markers = has_marker(st, "_sync", "_warp")
        if markers:
            self._check_loop(st, guards, even, "a loop whose trip count differs between the threads of a block")
            if st.target.id in facts.varying:
                self.refuse(st, f"'{st.target.id}' counts a loop with a barrier, and is used after it; copy it first")
        elif not self._worth_outside(st, even) or (guards and has(args, ast.Subscript)):
            return None
        if even:
            return [Nest(st, self.items(st.body, guards))]
        self.counter += 1
        counter = f"_m{self.counter}"
        if st.target.id in facts.varying:
            facts.make_cheap(st.target.id, binop(args[0], ast.Add(), load(counter)))
        inside = place(ast.Compare(load(st.target.id), [ast.Lt()], [args[1]]), st)
        return [Strided(st, counter, self.items(st.body, [*guards, inside]), inside)]

    def _worth_outside(self, st, even):
        return (even and self._sets_uniform(st)) or self.facts.wants_outside(st)

    def _sets_uniform(self, st):
        """True if a loop or condition computes values that are the same for all threads, next to others."""
        return not self.facts.assigned_inside(st) <= self.facts.varying

    def _check_loop(self, st, guards, even, what):
        barrier = has_marker(st, "_sync")
        word = "cuda.syncthreads()" if barrier else "a warp shuffle or cuda.syncwarp()"
        where = self._first_marker(st)
        if not even:
            self.refuse(where, f"{word} inside {what}; give the loop the same count for all, and a condition inside")
        if guards and barrier:
            self.refuse(where, UNEVEN.format("under a condition that differs between the threads of a block"))
        if self.facts.divergent_jump(st.body):
            self.refuse(where, f"{word} in a loop that some threads leave by break or continue before others do")

    def _first_marker(self, st):
        found = [n for n in ast.walk(st) if is_marker(n, "_sync", "_warp")]
        return min(found, key=lambda n: (is_marker(n, "_warp"), n.lineno))

    def _while(self, st, guards):
        even = not self.facts.var(st.test)
        if not has_marker(st, "_sync", "_warp"):
            outside = even and self._sets_uniform(st) and not (guards and has(st.test, ast.Subscript))
            return [Nest(st, self.items(st.body, guards))] if outside else None
        self._check_loop(st, guards, even, "a while loop whose condition differs between the threads of a block")
        return [Nest(st, self.items(st.body, guards))]

    def _if(self, st, guards):
        facts = self.facts
        differs = facts.var(st.test)
        if has_marker(st, "_sync") and (differs or guards):
            early = getattr(st, "early", None)
            where = self._first_marker(st)
            if early is not None and differs:
                self.refuse(where, EARLY)
            self.refuse(where, UNEVEN.format("under a condition that differs between the threads of a block"))
        markers = has_marker(st, "_sync", "_warp")
        loops = any(isinstance(n, ast.For) and facts.wants_outside(n) for n in ast.walk(st))
        jumps = list(own_jumps([st]))
        if not (markers or loops or (not differs and (jumps or self._sets_uniform(st)))):
            return None
        if not differs:
            if guards and not markers and has(st.test, ast.Subscript):
                return None
            return [Nest(st, self.items(st.body, guards), self.items(st.orelse, guards))]
        if jumps:
            return None
        if facts.is_cheap(st.test):
            return self._guarded(st, st.test, guards)
        return self._saved(st, guards) if markers else None

    def _guarded(self, st, test, guards):
        no = place(ast.UnaryOp(ast.Not(), test), st)
        return self.items(st.body, [*guards, test]) + self.items(st.orelse, [*guards, no])

    def _saved(self, st, guards):
        """A condition with a shuffle inside: each thread keeps its answer for the pieces."""
        name = f"_c{st.lineno}_{st.col_offset}"
        value = ast.IfExp(st.test, ast.Constant(True), ast.Constant(False))
        keep = place(assign(name, value), st)
        self.program.lane_temps.add(name)
        self.facts.varying.add(name)
        return [Region([keep], list(guards)), *self._guarded(st, load(name), guards)]


# ---- which varying values outlive a region and need a place for every thread
def spilled(program, items, facts):
    """The names that are stored in an array with an element for each thread."""
    out = set(program.lane_temps)
    for region in regions(items):
        seen = _exposed(region.body, set())
        for guard in region.guards:
            seen |= names(guard)
        out |= {n for n in seen if n in facts.varying and n not in facts.cheap}
    return out - set(program.local)


def regions(items):
    """Every region below some items."""
    for item in items:
        if isinstance(item, Region):
            yield item
        else:
            yield from regions(getattr(item, "body", []))
            yield from regions(getattr(item, "orelse", []))


def _exposed(body, known):
    """Names read before they are surely set, in one thread's run through `body`; `known` grows."""
    out = set()
    for st in body:
        name = target_name(st)
        if name is not None:
            out |= names(st.value) - known
            known.add(name)
        elif isinstance(st, ast.If):
            out |= names(st.test) - known
            first, second = set(known), set(known)
            out |= _exposed(st.body, first) | _exposed(st.orelse, second)
            known |= first & second
        elif isinstance(st, ast.For):
            out |= names(st.iter) - known
            out |= _exposed(st.body, known | {st.target.id})
        elif isinstance(st, ast.While):
            out |= names(st.test) - known
            out |= _exposed(st.body, set(known))
        else:
            out |= names(st) - known
    return out
