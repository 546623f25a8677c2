"""Statements compiled to functions (frame, mask) -> the lanes that go on to the next statement.

Only what may meet a barrier of the block becomes a generator, which yields there; all else is plain. Return, break and
continue drop lanes; a loop or a call takes them up again.
"""

import ast

from ..syntax import UNSUPPORTED
from . import arith
from .assign import Assignments
from .faults import Refused
from .loops import Rounds, counting
from .masks import split
from .program import BARRIERS

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


class Statements(Assignments):
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
            what = UNSUPPORTED.get(type(node).__name__, type(node).__name__)
            self.refuse(node, f"{what} is not possible in a kernel", "use if, while, for and assignments")
        return method(node)

    # ---- simple statements ---------------------------------------------------------------------------------------
    def s_Pass(self, node):
        return lambda f, m: m

    def s_Assert(self, node):
        test, line, text = self.value(node.test), node.lineno, ast.unparse(node.test)

        def run(f, m):
            failing = m.minus(m.where(arith.truth(test(f, m))))
            if failing.n:
                message = f"finds that {text} does not hold"
                f.mc.fault_at(
                    "error", f, line, failing.n, message, "an assertion of the kernel itself", failing.idx[:1]
                )
            return m

        return run

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
            return self._loop(node, head, body, orelse, cannot_end(node))

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

    def _loop(self, node, head, body, orelse, stuck=""):
        line, run_body = node.lineno, body.run

        def run(f, m):
            loop = Rounds(f, m, head(f, m), line, stuck)
            while loop.more():
                loop.after(run_body(f, loop.act))
            if orelse.items and loop.done.n:
                loop.done = orelse.run(f, loop.done)
            return loop.end()

        def steps(f, m):
            loop = Rounds(f, m, head(f, m), line, stuck)
            while loop.more():
                loop.after((yield from body.steps(f, loop.act)))
            if orelse.items and loop.done.n:
                loop.done = yield from orelse.steps(f, loop.done)
            return loop.end()

        return (None, steps) if body.waits or orelse.waits else run


def _thrown_away(call):
    def steps(f, m):
        yield from call(f, m)
        return m

    return steps


def cannot_end(loop):
    """Why a while loop that runs on will never end, "" if it may: nothing in it changes its condition."""
    if all(isinstance(st, ast.Pass) for st in loop.body):
        return "it waits for a thread that cannot run before this one goes on"
    if any(isinstance(n, (ast.Subscript, ast.Call, ast.Attribute)) for n in ast.walk(loop.test)):
        return ""
    asked = {n.id for n in ast.walk(loop.test) if isinstance(n, ast.Name)}
    for n in (x for st in loop.body for x in ast.walk(st)):
        if isinstance(n, (ast.Break, ast.Return)) or isinstance(n, ast.Name) and n.id in asked and is_store(n):
            return ""
    return "nothing in the loop changes its condition"


def is_store(name):
    return isinstance(name.ctx, ast.Store)
