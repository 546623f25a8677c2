"""Assignments compiled: into names, elements of arrays, tuples of them."""

import ast

from . import arith, memory
from .arith import F64, is_number
from .expressions import kind_of
from .faults import Refused
from .hoist import Hoist
from .memory import Array


class Assignments(Hoist):
    """The part of the compiler that stores values; `literal`: the value at hand is a plain number."""

    literal = False

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
        self.literal = isinstance(v, ast.Constant)
        targets = [self.target(t) for t in node.targets]
        self.literal = False
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
        address, program, line, literal = self.address(node, site), self.program, node.lineno, self.literal

        def store(f, m, value):
            if not is_number(value):
                raise Refused(program, node, f"{kind_of(value)} cannot be stored in an element of an array")
            a, off, mm = address(f, m)
            if value.dtype is F64 and a.dtype is not F64 and not literal:
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


def _stored(call, store):
    def steps(f, m):
        store(f, m, (yield from call(f, m)))
        return m

    return steps
