"""Which values are the same for all threads of a block, and which are cheap enough to compute again wherever needed."""

import ast

from .syntax import (
    IDS,
    THREAD,
    array_name,
    assigned,
    has,
    indices,
    names,
    own_jumps,
    range_args,
    substitute,
    target_name,
    walk,
)

_COSTLY = (ast.Subscript, ast.Call, ast.Div, ast.Pow, ast.IfExp)


class Uniformity:
    """Facts about the variables of a Program.

    `varying` names differ between threads; `forced` are added to them by the lowering, for uniform values computed
    inside a thread's own loop. `cheap` varying names are functions of ids and fixed uniform values.
    """

    def __init__(self, program, forced=()):
        self.program = program
        self.varying = set(forced) | set(program.local) | program.lane_temps | set(THREAD)
        self.count, self.defs, self.position, self.uses, self.home = {}, {}, {}, {}, {}
        self._clock = 0
        self._walk(program.body, (), ())
        size = -1
        while size != len(self.varying):
            size = len(self.varying)
            self._spread(program.body, False)
        self.cheap = set(THREAD)
        self._find_cheap()

    # ---- where names are set and read: (order, path of loops), and the innermost arm of conditions around all of it
    def _walk(self, body, path, arms):
        for st in body:
            if isinstance(st, (ast.For, ast.While)):
                inside = (*path, id(st))
                if isinstance(st, ast.For):
                    self._read(st.iter, path, arms)
                    self._set(st.target.id, inside, arms, None)
                else:
                    self._read(st.test, inside, arms)
                self._walk(st.body, inside, arms)
            elif isinstance(st, ast.If):
                self._read(st.test, path, arms)
                self._walk(st.body, path, (*arms, id(st.body)))
                self._walk(st.orelse, path, (*arms, id(st.orelse)))
            else:
                self._read(st, path, arms)
                name = target_name(st)
                if name is not None:
                    self._set(name, path, arms, st.value)

    def _read(self, tree, path, arms):
        self._clock += 1
        for n in ast.walk(tree):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
                self.uses.setdefault(n.id, []).append((self._clock, path))
                self._meet(n.id, arms)

    def _set(self, name, path, arms, value):
        self._clock += 1
        self.count[name] = self.count.get(name, 0) + 1
        self.position[name] = (self._clock, path)
        self._meet(name, arms)
        if value is not None:
            self.defs[name] = value

    def _meet(self, name, arms):
        old = self.home.get(name, arms)
        same = 0
        while same < min(len(old), len(arms)) and old[same] == arms[same]:
            same += 1
        self.home[name] = arms[:same]

    # ---- uniform or not
    def var(self, tree):
        """True if the value of an expression may differ between the threads of a block."""
        if names(tree) & self.varying:
            return True
        calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
        devices = self.program.devices
        return any(n.func.id == "_lane" or (n.func.id in devices and not devices[n.func.id].is_pure()) for n in calls)

    def _spread(self, body, divergent, depth=0, arm=0):
        """`divergent`: inside what threads do differently; `arm`: how many arms deep the last such condition is."""
        for st in body:
            name = target_name(st)
            if name is not None:
                if getattr(st, "varying", False) or self.var(st.value) or self._escapes(st, name, divergent, arm):
                    self.varying.add(name)
            elif isinstance(st, ast.For):
                args = range_args(st)
                uneven = any(self.var(a) for a in args) or self.divergent_jump(st.body)
                loose = divergent or uneven
                if loose:
                    loose = not self.used_within(st.target.id, *self.position[st.target.id])
                if loose or self.var(args[0]) or self.var(args[2]):
                    self.varying.add(st.target.id)
                self._spread(st.body, divergent or uneven, depth, 1000 if uneven else arm)
            elif isinstance(st, ast.While):
                uneven = self.var(st.test) or self.divergent_jump(st.body)
                self._spread(st.body, divergent or uneven, depth, 1000 if uneven else arm)
            elif isinstance(st, ast.If):
                differs = self.var(st.test)
                inner = max(arm, depth + 1) if differs else arm
                self._spread(st.body, divergent or differs, depth + 1, inner)
                self._spread(st.orelse, divergent or differs, depth + 1, inner)

    def _escapes(self, st, name, divergent, arm):
        """True if a value set under a divergent condition may be seen by threads that did not set it."""
        return divergent and (len(self.home[name]) < arm or has(st.value, ast.Subscript, ast.Call))

    def divergent_jump(self, body, divergent=False):
        """True if some threads may leave an iteration of the loop with this body where others do not."""
        for st in body:
            if isinstance(st, (ast.Break, ast.Continue)) and divergent:
                return True
            if isinstance(st, ast.If):
                inner = divergent or self.var(st.test)
                if self.divergent_jump(st.body, inner) or self.divergent_jump(st.orelse, inner):
                    return True
        return False

    def single(self, name):
        """True for a uniform value that is set at most once."""
        return name in IDS or self.count.get(name, 0) == 0 or (self.count[name] == 1 and name not in self.varying)

    # ---- cheap values
    def _find_cheap(self):
        candidates = [
            n for n in self.defs if self.count[n] == 1 and n in self.varying and n not in self.program.lane_temps
        ]
        found = True
        while found:
            found = False
            for name in candidates:
                if name not in self.cheap and self._may_repeat(name):
                    self.cheap.add(name)
                    found = True

    def _may_repeat(self, name):
        value, (when, path) = self.defs[name], self.position[name]
        if not self.is_cheap(value) or getattr(value, "varying", False):
            return False
        if any(self.position[n][0] > when for n in names(value) if n in self.position):
            return False
        return self.used_within(name, when, path)

    def used_within(self, name, when, path):
        """True if every read of a name comes after its definition and in the same iteration."""
        return all(u > when and p[: len(path)] == path for u, p in self.uses.get(name, ()))

    def is_cheap(self, tree):
        return not has(tree, *_COSTLY) and all(n in self.cheap or self.single(n) for n in names(tree))

    def expand(self, tree, zero=()):
        """A copy of an expression with cheap names written out, and the ids in `zero` set to 0."""

        def table(name):
            if name in zero:
                return ast.Constant(0)
            return self.defs.get(name) if name in self.cheap else None

        return substitute(tree, table)

    # ---- strides
    def coefficient(self, tree, v):
        """The factor of `v` in an expression if it is 0 or 1, else None."""
        if isinstance(tree, ast.Name):
            if tree.id == v:
                return 1
            if tree.id in self.defs and tree.id in self.cheap:
                return self.coefficient(self.defs[tree.id], v)
            return None if tree.id in self.varying and tree.id not in THREAD else 0
        if isinstance(tree, ast.Constant):
            return 0
        if isinstance(tree, ast.BinOp):
            a, b = self.coefficient(tree.left, v), self.coefficient(tree.right, v)
            if a == 0 and b == 0:
                return 0
            if isinstance(tree.op, ast.Add) and {a, b} == {0, 1}:
                return 1
            return 1 if isinstance(tree.op, ast.Sub) and (a, b) == (1, 0) else None
        parts = [x for x in ast.iter_child_nodes(tree) if isinstance(x, ast.expr)]
        return 0 if all(self.coefficient(x, v) == 0 for x in parts) else None

    def bad_strides(self, body, v):
        """How many accesses below step over more than one element when `v` grows by one."""
        bad = 0
        for n in walk(body):
            if isinstance(n, ast.Subscript) and array_name(n) not in self.program.local:
                ix = indices(n)
                bad += any(self.coefficient(i, v) != 0 for i in ix[:-1]) or self.coefficient(ix[-1], v) is None
        return bad

    # ---- should a loop without barriers go outside the loop over threads?
    def wants_outside(self, st):
        """True if running the loop's iterations in turn, all threads in each, suits the memory better."""
        if not isinstance(st, ast.For) or list(own_jumps(st.body)) or has(st, ast.While):
            return False
        start, stop, step = args = range_args(st)
        v = st.target.id
        if self.var(step) or not all(self.is_cheap(a) or not self.var(a) for a in args):
            return False
        if self.count[v] > 1:
            return False
        strided = v in self.varying
        if (strided or self.var(stop)) and not self._strided_ok(st, start, step):
            return False
        before = set(self.cheap)
        if strided:
            self.make_cheap(v, start)
        try:
            return self._better(st, strided, step)
        finally:
            if strided:
                del self.defs[v]
                self.cheap = before

    def make_cheap(self, name, value):
        """Treat a variable as recomputable from now on, and with it what depends on it."""
        self.defs[name] = value
        self.cheap.add(name)
        self._find_cheap()

    def _strided_ok(self, st, start, step):
        when, path = self.position[st.target.id]
        return self.is_cheap(start) and self.positive(step) and self.used_within(st.target.id, when, path)

    def positive(self, tree):
        """True if an expression is seen to be above zero."""
        if isinstance(tree, ast.Constant):
            return isinstance(tree.value, int) and tree.value > 0
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, (ast.Mult, ast.Add)):
            return self.positive(tree.left) and self.positive(tree.right)
        if isinstance(tree, ast.Name):
            value = self.program.constants.get(tree.id)
            if tree.id in self.defs and self.count.get(tree.id) == 1:
                return self.positive(self.defs[tree.id])
            return tree.id in IDS[6:] or (isinstance(value, int) and value > 0)
        return False

    def _better(self, st, strided, step):
        lane, along = self.bad_strides(st.body, "_tx"), self._along(st, strided, step)
        wanted = lane < along or (lane == along and (strided or self._accumulates(st)))
        for part in st.body:
            if isinstance(part, (ast.For, ast.If)):
                inner = [n for n in ast.walk(part) if isinstance(n, ast.For)]
                if inner:
                    wanted = all(self.wants_outside(n) for n in inner)
        return wanted

    def _along(self, st, strided, step):
        v = st.target.id
        if not strided:
            return self.bad_strides(st.body, v)
        if not (isinstance(step, ast.Constant) and step.value == 1):
            return 99
        value = self.defs.pop(v)
        try:
            return self.bad_strides(st.body, v)
        finally:
            self.defs[v] = value

    def _accumulates(self, st):
        for part in st.body:
            name = target_name(part)
            if name is not None and name in names(part.value):
                return True
        return any(isinstance(n, ast.Assign) and array_name(n.targets[0]) in self.program.local for n in ast.walk(st))

    def assigned_inside(self, st):
        """Names a statement sets, its loop variables left out."""
        loops = {n.target.id for n in ast.walk(st) if isinstance(n, ast.For)}
        return assigned(st) - loops
