"""Statements compiled to functions (frame, mask) -> the lanes that go on to the next statement.

Only what may meet a barrier of the block becomes a generator, which yields there; all else is plain. Return, break and
continue drop lanes; a loop or a call takes them up again.
"""

import ast

import numpy as np

from . import arith, memory
from .arith import F64, array, is_number
from .calls import Calls
from .expressions import kind_of
from .faults import Refused
from .masks import split
from .memory import Array
from .program import BARRIERS, MISSING, is_callable_on_device, waits

EVERY = None  # what is set after a return: anything


class Code:
    """A compiled function: `run(frame, mask)`, and `steps(frame, mask)`, the generator that yields at barriers."""

    def __init__(self, program, family):
        self.program = program
        body = Statements(program, family).body(program.tree.body)
        self.run, self.steps = body.run, body.steps


class Body:
    """A list of statements: (line, plain function or None, generator function or None) each."""

    def __init__(self, items, program):
        self.items, self.program = items, program
        self.waits = any(plain is None for _, plain, _ in items)

    def run(self, f, m):
        mc = f.mc
        for line, plain, _ in self.items:
            mc.line = line
            m = plain(f, m)
            if m.n == 0:
                break
        return m

    def steps(self, f, m):
        mc = f.mc
        for line, plain, steps in self.items:
            mc.line = line
            m = (yield from steps(f, m)) if plain is None else plain(f, m)
            if m.n == 0:
                break
        return m


def _union(a, b):
    return b if a is EVERY else a if b is EVERY else a & b


class Statements(Calls):
    """The statement half of the compiler."""

    discarded = False

    def body(self, statements):
        items = []
        for st in statements:
            for one in self.hoisted(st):
                self.statement += 1
                made = self.stmt(one)
                if made is not None:
                    plain, steps = made if isinstance(made, tuple) else (made, None)
                    items.append((st.lineno, plain, steps))
        return Body(items, self.program)

    def block(self, statements):
        """A nested body; what it sets is undone in `sure` and returned: (body, names or EVERY)."""
        before = set(self.sure)
        body = self.body(statements)
        after, self.sure = self.sure, before
        if statements and isinstance(statements[-1], (ast.Return, ast.Break, ast.Continue)):
            after = EVERY
        return body, after

    def stmt(self, node):
        method = getattr(self, "s_" + type(node).__name__, None)
        if method is None:
            words = {"FunctionDef": "a function inside a kernel", "Try": "try", "Raise": "raise", "With": "with"}
            words |= {"Import": "import", "ImportFrom": "import", "Delete": "del", "ClassDef": "a class"}
            words |= {"Global": "global", "Nonlocal": "nonlocal", "Match": "match", "AsyncFor": "async"}
            what = words.get(type(node).__name__, type(node).__name__)
            self.refuse(node, f"{what} is not possible in a kernel", "use if, while, for and assignments")
        return method(node)

    # ---- calls with a barrier inside are taken out of expressions ------------------------------------------------
    def hoisted(self, st):
        """The statement, after assignments of the calls in it that hold a barrier."""
        if isinstance(st, (ast.If, ast.For, ast.While)):
            fields = ["test"] if isinstance(st, ast.If) else ["iter"] if isinstance(st, ast.For) else []
        else:
            fields = ["value"] if hasattr(st, "value") else []
        before = []
        for name in fields:
            node = getattr(st, name)
            if node is None or not self.waits(node) or self._is_whole_call(st, node):
                continue
            new = self._take_out(node, before)
            fresh = type(st)(**{k: getattr(st, k) for k in st._fields})
            setattr(fresh, name, new)
            st = ast.copy_location(fresh, st)
        return [*before, st]

    def waits(self, node):
        return waits(self.program, node, self.family)

    def _is_whole_call(self, st, node):
        if not isinstance(st, (ast.Assign, ast.Expr, ast.AnnAssign)) or not isinstance(node, ast.Call):
            return False
        return not any(self.waits(a) for a in node.args)

    def _take_out(self, node, before):
        """An expression without barriers that means the same after the statements appended to `before`."""
        if not self.waits(node):
            return node
        if isinstance(node, (ast.BoolOp, ast.IfExp)):
            first = "test" if isinstance(node, ast.IfExp) else "values"
            rest = node.values[1:] if isinstance(node, ast.BoolOp) else [node.body, node.orelse]
            if any(self.waits(r) for r in rest):
                self.refuse(
                    node, "a barrier stands where not every thread gets to it: put the call on a line of its own"
                )
            old = getattr(node, first)
            new = [self._take_out(old[0], before), *rest] if first == "values" else self._take_out(old, before)
            return _with(node, **{first: new})
        children = [c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
        last = max(k for k, c in enumerate(children) if self.waits(c)) if any(map(self.waits, children)) else -1
        table = {}
        for k, c in enumerate(children):
            if self.waits(c):
                table[id(c)] = self._take_out(c, before)
            elif k < last and not isinstance(c, (ast.Name, ast.Constant, ast.Attribute)):
                table[id(c)] = self._temporary(c, before)
        node = _replaced(node, table)
        return self._temporary(node, before) if self._is_waiting_call(node) else node

    def _is_waiting_call(self, node):
        if not isinstance(node, ast.Call):
            return False
        if self.program.path(node.func) in BARRIERS:
            return True
        value = self.program.resolve(node.func)
        return value is not MISSING and is_callable_on_device(value) and self.family.get(value).waits

    def _temporary(self, node, before):
        name = f"_{len(self.program.slots)}"
        self.program.slots[name] = len(self.program.slots)
        self.program.locals.add(name)
        before.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], node), node))
        ast.fix_missing_locations(before[-1])
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    # ---- simple statements ---------------------------------------------------------------------------------------
    def s_Pass(self, node):
        return lambda f, m: m

    def s_Assert(self, node):
        self.refuse(node, "assert is not possible in a kernel here", "use an if")

    def s_Return(self, node):
        value = None if node.value is None else self.expr(node.value)
        if isinstance(node.value, ast.Constant) and node.value.value is None:
            value = None
        if value is not None and self.program is self.family.kernel:
            self.refuse(node, "a kernel returns nothing", "write its result into an array")

        def run(f, m):
            f.give_back(m, None if value is None else value(f, m))
            return m.where(False)

        return run

    def s_Break(self, node):
        def run(f, m):
            f.broken = m if f.broken is None else f.broken.union(m)
            return m.where(False)

        return run

    def s_Continue(self, node):
        def run(f, m):
            f.again = m if f.again is None else f.again.union(m)
            return m.where(False)

        return run

    def s_Expr(self, node):
        v = node.value
        if isinstance(v, ast.Constant):
            return None
        if isinstance(v, ast.Call):
            path = self.program.path(v.func)
            if path in BARRIERS:
                return None, self._barrier(v, path, None)
            if path is None and self._is_waiting_call(v):
                return None, _thrown_away(self.waiting_call(v, self.program.resolve(v.func)))
        elif isinstance(v, ast.Attribute) and self.program.path(v) is not None:
            self.refuse(node, f"{ast.unparse(v)} is not called", f"write {ast.unparse(v)}()")
        self.discarded = True
        value = self.expr(v)
        self.discarded = False

        def run(f, m):
            value(f, m)
            return m

        return run

    def _barrier(self, node, path, target):
        """cuda.syncthreads() and its relatives that count; a generator function."""
        line = node.lineno
        if path == "syncthreads":
            if node.args:
                self.refuse(node, "cuda.syncthreads() takes nothing")

            def steps(f, m):
                f.mc.barrier(f, m, line)
                yield
                return m

            return steps
        if len(node.args) != 1:
            self.refuse(node, f"cuda.{path}() takes one number")
        value = self.value(node.args[0])

        def counting(f, m):
            votes = f.mc.vote(f, m, arith.truth(value(f, m)))
            f.mc.barrier(f, m, line)
            yield
            if target is not None:
                target(f, m, votes(path))
            return m

        return counting

    # ---- assignments ---------------------------------------------------------------------------------------------
    def s_Assign(self, node):
        v = node.value
        if isinstance(v, ast.Call) and self._is_waiting_call(v):
            targets = [self.target(t) for t in node.targets]

            def store_all(f, m, value):
                for t in targets:
                    t(f, m, value)

            path = self.program.path(v.func)
            if path is not None:
                if path == "syncthreads":
                    self.refuse(node, "cuda.syncthreads() returns nothing")
                return None, self._barrier(v, path, store_all)
            return None, _stored(self.waiting_call(v, self.program.resolve(v.func)), store_all)
        value = self.expr(v)
        targets = [self.target(t) for t in node.targets]
        if len(targets) == 1:
            first = targets[0]

            def run(f, m):
                first(f, m, value(f, m))
                return m

            return run

        def run_all(f, m):
            v = value(f, m)
            for t in targets:
                t(f, m, v)
            return m

        return run_all

    def s_AnnAssign(self, node):
        if node.value is None:
            return None
        return self.s_Assign(ast.copy_location(ast.Assign([node.target], node.value), node))

    def target(self, node):
        """A function (frame, mask, value) that stores into a name, an element or a tuple of them."""
        if isinstance(node, ast.Name):
            return self._name_target(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            return self._tuple_target(node)
        if not isinstance(node, ast.Subscript):
            self.refuse(node, f"{ast.unparse(node)} cannot be assigned to in a kernel")
        if any(isinstance(i, ast.Slice) for i in ast.walk(node.slice)):
            self.refuse(
                node, "a slice cannot be assigned to in a kernel here", "assign one element a thread, in a loop"
            )
        site = self.site(node, "write")
        address, program, line = self.address(node, site), self.program, node.lineno

        def store(f, m, value):
            if not is_number(value):
                raise Refused(program, node, f"{kind_of(value)} cannot be stored in an element of an array")
            a, off, mm = address(f, m)
            if value.dtype is F64 and a.dtype is not F64:
                f.mc.wide(f, line, a.name)
            memory.write(f.mc, f, site, a, off, mm, value)

        return store

    def _name_target(self, node):
        name, line, program = node.id, node.lineno, self.program
        slot = program.slots[name]
        self.sure.add(name)

        def store(f, m, value):
            if is_number(value):
                if value.dtype is F64:
                    f.mc.wide(f, line, name)
            elif type(value) is Array:
                if value.name == "?":
                    value.name = value.buffer.name = name
            elif not isinstance(value, tuple):
                raise Refused(program, node, f"{name} is set to {kind_of(value)}")
            f.assign(slot, value, m)

        return store

    def _tuple_target(self, node):
        parts, program = [self.target(e) for e in node.elts], self.program

        def store(f, m, value):
            if not isinstance(value, tuple) or len(value) != len(parts):
                raise Refused(program, node, f"{len(parts)} names on the left, {kind_of(value)} on the right")
            for p, v in zip(parts, value, strict=True):
                p(f, m, v)

        return store

    def s_AugAssign(self, node):
        op = arith.BINARY.get(type(node.op))
        if op is None:
            self.refuse(node, f"{ast.unparse(node)} is not possible in a kernel")
        if isinstance(node.op, arith.WHOLE_ONLY):
            op = self._whole(node, op)
        if isinstance(node.target, ast.Name):
            old = self.value(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
            value = self.value(node.value)
            store = self._name_target(node.target)

            def run(f, m):
                store(f, m, op(old(f, m), value(f, m)))
                return m

            return run
        if not isinstance(node.target, ast.Subscript):
            self.refuse(node, f"{ast.unparse(node.target)} cannot be assigned to in a kernel")
        return self._element_update(node, op)

    def _element_update(self, node, op):
        reading = self.site(node.target, "read")
        writing = self.site(node.target, "write")
        address, value, line = self.address(node.target, reading), self.value(node.value), node.lineno

        def run(f, m):
            a, off, mm = address(f, m)
            old = memory.read(f.mc, f, reading, a, off, mm)
            new = op(old, value(f, mm))
            if new.dtype is F64 and a.dtype is not F64:
                f.mc.wide(f, line, a.name)
            memory.write(f.mc, f, writing, a, off, mm, new)
            return m

        return run

    # ---- branches and loops --------------------------------------------------------------------------------------
    def s_If(self, node):
        test = self.value(node.test)
        yes, set_yes = self.block(node.body)
        no, set_no = self.block(node.orelse)
        after = _union(set_yes, set_no)
        self.sure = set(self.program.locals) if after is EVERY else after
        line = node.lineno
        run_yes, run_no, has_no = yes.run, no.run, bool(no.items)

        def run(f, m):
            t, e = split(m, arith.truth(test(f, m)))
            t2 = run_yes(f, t) if t.n else t
            e2 = run_no(f, e) if has_no and e.n else e
            return m if t2 is t and e2 is e else t2.union(e2)

        def steps(f, m):
            t, e = split(m, arith.truth(test(f, m)))
            t2, e2 = t, e
            if t.n:
                t2 = (yield from yes.steps(f, t)) if yes.waits else run_yes(f, t)
            if has_no and e.n:
                f.mc.line = line
                e2 = (yield from no.steps(f, e)) if no.waits else run_no(f, e)
            return m if t2 is t and e2 is e else t2.union(e2)

        return (None, steps) if yes.waits or no.waits else run

    def s_While(self, node):
        taken = []
        test_node = self._take_out(node.test, taken) if self.waits(node.test) else node.test
        ahead = self.body(taken)
        test = self.value(test_node)
        body, _ = self.block(node.body)
        orelse, _ = self.block(node.orelse)
        line = node.lineno

        def ask(f, act):
            f.mc.line = line
            return act.where(arith.truth(test(f, act)))

        def head(f, m):
            return ask

        if not ahead.items:
            return self._loop(node, head, body, orelse)

        def steps(f, m):
            loop = Rounds(f, m, ask, line)
            while loop.act.n:
                loop.act = yield from ahead.steps(f, loop.act)
                if not loop.more():
                    break
                loop.after((yield from body.steps(f, loop.act)))
            return loop.end()

        return None, steps

    def s_For(self, node):
        call = node.iter
        if not (isinstance(call, ast.Call) and self.program.resolve(call.func) is range and not call.keywords):
            self.refuse(node, f"for ... in {ast.unparse(call):.40} is not possible in a kernel", "use range(...)")
        if not isinstance(node.target, ast.Name):
            self.refuse(node, "a loop over range() has one name")
        args = [self.value(a) for a in call.args]
        if not 1 <= len(args) <= 3:
            self.refuse(node, f"range() takes 1 to 3 numbers, got {len(args)}")
        before = set(self.sure)
        store = self._name_target(node.target)
        body, _ = self.block(node.body)
        self.sure = before
        orelse, _ = self.block(node.orelse)
        program = self.program

        def head(f, m):
            given = [a(f, m) for a in args]
            for v in given:
                if v.dtype.kind not in "iu":
                    raise Refused(program, node, f"range() got a {v.dtype}, it needs whole numbers")
            return counting(given, store, program, node)

        return self._loop(node, head, body, orelse)

    def _loop(self, node, head, body, orelse):
        line, run_body = node.lineno, body.run

        def run(f, m):
            loop = Rounds(f, m, head(f, m), line)
            while loop.more():
                loop.after(run_body(f, loop.act))
            if orelse.items and loop.done.n:
                loop.done = orelse.run(f, loop.done)
            return loop.end()

        def steps(f, m):
            loop = Rounds(f, m, head(f, m), line)
            while loop.more():
                loop.after((yield from body.steps(f, loop.act)))
            if orelse.items and loop.done.n:
                loop.done = yield from orelse.steps(f, loop.done)
            return loop.end()

        return (None, steps) if body.waits or orelse.waits else run


class Rounds:
    """A loop in progress: `act` are the lanes in it, `done` those that left it by its condition."""

    __slots__ = ("act", "ask", "count", "done", "f", "kept", "line", "start")

    def __init__(self, f, m, ask, line):
        self.f, self.start, self.act, self.ask, self.line = f, m, m, ask, line
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
        self.f.mc.tick(self.f, self.line, self.act, self.count)
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
        return _uniform(range(int(lo), int(hi), int(by)), store)
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


def _uniform(numbers, store):
    numbers = iter(numbers)

    def ask(f, act):
        k = next(numbers, None)
        if k is None:
            return act.where(False)
        store(f, act, np.int64(k))
        return act

    return ask


def _thrown_away(call):
    def steps(f, m):
        yield from call(f, m)
        return m

    return steps


def _stored(call, store):
    def steps(f, m):
        store(f, m, (yield from call(f, m)))
        return m

    return steps


def _with(node, **changes):
    fields = {k: getattr(node, k) for k in node._fields}
    return ast.copy_location(type(node)(**(fields | changes)), node)


def _replaced(node, table):
    """A copy of a node with some of its children exchanged."""
    changes = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            changes[name] = [table.get(id(v), v) for v in value]
        elif id(value) in table:
            changes[name] = table[id(value)]
    return _with(node, **changes)
