"""Calls that hold a barrier are taken out of expressions and put on lines of their own, in the order of evaluation."""

import ast

from .calls import Calls
from .program import BARRIERS, MISSING, is_callable_on_device, waits


class Hoist(Calls):
    """The part of the compiler that moves waiting calls ahead of the statement they stand in."""

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
        return self.program.waits and waits(self.program, node, self.family)

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
            return with_changes(node, **{first: new})
        children = [c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
        last = max(k for k, c in enumerate(children) if self.waits(c)) if any(map(self.waits, children)) else -1
        table = {}
        for k, c in enumerate(children):
            if self.waits(c):
                table[id(c)] = self._take_out(c, before)
            elif k < last and not isinstance(c, (ast.Name, ast.Constant, ast.Attribute)):
                table[id(c)] = self._temporary(c, before)
        node = replaced(node, table)
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


def with_changes(node, **changes):
    fields = {k: getattr(node, k) for k in node._fields}
    return ast.copy_location(type(node)(**(fields | changes)), node)


def replaced(node, table):
    """A copy of a node with some of its children exchanged."""
    changes = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            changes[name] = [table.get(id(v), v) for v in value]
        elif id(value) in table:
            changes[name] = table[id(value)]
    return with_changes(node, **changes)
