"""The changes that make a mutant: one place of a function's syntax tree, put differently.

Nine classes, each a kind of mistake that people make:

    barrier      a barrier or fence left out
    guard        an `if` whose condition is not asked, or one of several conditions that are joined by `and`
    atomic       `cuda.atomic.add(x, i, v)` as `x[i] += v`
    accumulate   `=` for `+=`, `-=` or `*=`
    offbyone     a loop that begins or ends one too early or too late, `<=` for `<`, a neighbour's element
    const        a number a tenth too large, 1 for 0, 0 for "beyond every number", a whole number one too large
    term         one side of a sum, product, quotient, minimum or maximum left out, `+` for `-`, a loop without its step
    init         an array or a variable not set before its first use
    axes         the last two indices exchanged, x for y in threadIdx and blockIdx
"""

from __future__ import annotations

import ast
import copy
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

CLASSES = ("barrier", "guard", "atomic", "accumulate", "offbyone", "const", "term", "init", "axes")
BARRIERS = ("cuda.syncthreads", "cuda.syncwarp", "cuda.threadfence", "cuda.threadfence_block")
BEYOND = 1e20  # a number this large stands for "beyond every number" in a kernel
MEMORY = ("cuda.shared.array", "cuda.local.array")
_SWAPPED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}

Edit = tuple[str, int, str]  # class, line, what is different


def edits(function: ast.FunctionDef, lookup: Callable[[str], Any]) -> list[Edit]:
    """Every change of a function; lookup gives the value of an outside name."""
    function = bare(function)
    return list(_edits(function, _Surroundings(function, lookup)))


def changed(function: ast.FunctionDef, lookup: Callable[[str], Any], number: int) -> str:
    """The text of a function after change `number` of the list that `edits` gives."""
    function = bare(function)
    for _ in itertools.islice(_edits(function, _Surroundings(function, lookup)), number, number + 1):
        return ast.unparse(ast.fix_missing_locations(function))
    raise IndexError(f"change {number} of {function.name}: there are fewer")


def bare(function: ast.FunctionDef) -> ast.FunctionDef:
    """A copy without decorators and docstring."""
    function = copy.deepcopy(function)
    function.decorator_list = []
    if isinstance(function.body[0], ast.Expr) and isinstance(function.body[0].value, ast.Constant):
        function.body.pop(0)
    return function


class _Surroundings:
    """What a change must know about the function around it."""

    def __init__(self, function: ast.FunctionDef, lookup: Callable[[str], Any]):
        self.lookup = lookup
        nodes = list(ast.walk(function))
        self.flat = not any(isinstance(n, ast.Attribute) and n.attr == "y" for n in nodes)
        self.memory = {
            n.targets[0].id
            for n in nodes
            if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and ast.unparse(n.value.func) in MEMORY
        }

    def number(self, node: ast.expr) -> float | None:
        """The value of a float literal, of a name or np.inf that stands for a float."""
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            return node.value
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            value = self.lookup(node.id)
            return value if isinstance(value, float) else None
        return math.inf if isinstance(node, ast.Attribute) and node.attr == "inf" else None

    def constant(self, node: ast.expr) -> bool:
        """True for a number, or a number in a cast."""
        while isinstance(node, ast.UnaryOp) or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            node = node.operand if isinstance(node, ast.UnaryOp) else node.args[0]
        return isinstance(node, ast.Constant) or self.number(node) is not None


def _edits(function: ast.FunctionDef, around: _Surroundings) -> Iterator[Edit]:
    """Make one change after another, each undone before the next."""
    for body, i in list(_statements(function)):
        statement, kept = body[i], body[:]
        for cls, what, new in _of_statement(statement, around):
            body[i : i + 1] = new or ([ast.Pass()] if len(body) == 1 else [])
            yield cls, statement.lineno, what
            body[:] = kept
    seen = set()
    for root, parent, field, i, node in list(_expressions(function)):
        for cls, what, new in _of_expression(node, parent, around):
            said = f"{_line(root[0])}: {what}" if cls == "const" else what
            _put(parent, field, i, new)
            whole = (id(root[0]), *root[1:], ast.unparse(_get(*root)))
            if whole not in seen:  # x * x as x is to be had from either side
                yield cls, node.lineno, said
            seen.add(whole)
            _put(parent, field, i, node)


def _statements(tree: ast.AST) -> Iterator[tuple[list, int]]:
    """Every (list, place) that holds a statement."""
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            held = getattr(node, field, None)
            if isinstance(held, list):
                for i in range(len(held)):
                    yield held, i


Place = tuple[ast.AST, str, int | None]  # a node, one of its fields, a place in it if it is a list


def _expressions(
    node: ast.AST, root: Place | None = None
) -> Iterator[tuple[Place, ast.AST, str, int | None, ast.expr]]:
    """Every (place in its statement of the whole expression, parent, field, place in the field, expression).

    Sizes of arrays in shared and local memory are left out.
    """
    for field, value in ast.iter_fields(node):
        for i, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.arguments):
                continue
            place = (node, field, i) if isinstance(node, ast.stmt) else root
            if isinstance(child, ast.expr):
                yield place, node, field, i, child
            if not (isinstance(child, ast.Call) and ast.unparse(child.func) in MEMORY):
                yield from _expressions(child, place)


def _get(parent: ast.AST, field: str, i: int | None) -> ast.expr:
    held = getattr(parent, field)
    return held if i is None else held[i]


def _put(parent: ast.AST, field: str, i: int | None, new: ast.expr) -> None:
    if i is None:
        setattr(parent, field, new)
    else:
        getattr(parent, field)[i] = new


# ---------------------------------------------------------------- statements


def _of_statement(statement: ast.stmt, around: _Surroundings) -> Iterator[tuple[str, str, list[ast.stmt]]]:
    """(class, what, the statements in its place)."""
    text = _line(statement)
    called = statement.value if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else None
    if called and ast.unparse(called.func) in BARRIERS:
        yield "barrier", f"no {text}", []
    if called and ast.unparse(called.func) == "cuda.atomic.add":
        array, index, value = called.args
        plain = ast.AugAssign(ast.Subscript(array, index, ast.Store()), ast.Add(), value)
        yield "atomic", f"{text} as +=", [plain]
    if isinstance(statement, ast.If):
        yield from _guards(statement)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add | ast.Sub | ast.Mult):
        yield "accumulate", f"{text} as =", [ast.Assign([statement.target], statement.value)]
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        held = isinstance(target, ast.Subscript) and ast.unparse(target.value) in around.memory
        if held or around.constant(statement.value):
            yield "init", f"no {text}", []


def _line(statement: ast.stmt) -> str:
    return ast.unparse(statement).splitlines()[0].removesuffix(":")


def _guards(statement: ast.If) -> Iterator[tuple[str, str, list[ast.stmt]]]:
    test = ast.unparse(statement.test)
    yield "guard", f"if {test}: always", statement.body
    if isinstance(statement.test, ast.BoolOp) and isinstance(statement.test.op, ast.And):
        for i, left_out in enumerate(statement.test.values):
            rest = statement.test.values[:i] + statement.test.values[i + 1 :]
            weaker = rest[0] if len(rest) == 1 else ast.BoolOp(ast.And(), rest)
            what = f"if {test}: without {ast.unparse(left_out)}"
            yield "guard", what, [ast.If(weaker, statement.body, statement.orelse)]


# ---------------------------------------------------------------- expressions


def _of_expression(node: ast.expr, parent: ast.AST, around: _Surroundings) -> Iterator[tuple[str, str, ast.expr]]:
    """(class, what, the expression in its place)."""
    if isinstance(node, ast.Call):
        yield from _of_call(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPPED:
        other = _SWAPPED[type(node.ops[0])]()
        yield from _as("offbyone", node, [ast.Compare(node.left, [other], node.comparators)])
    if isinstance(node, ast.Subscript):
        yield from _of_subscript(node)
    if isinstance(node, ast.BinOp):
        yield from _of_operation(node)
    if isinstance(node, ast.Attribute) and node.attr in ("x", "y") and not around.flat:
        owner = ast.unparse(node.value)
        if owner in ("cuda.threadIdx", "cuda.blockIdx"):
            other = ast.Attribute(node.value, "y" if node.attr == "x" else "x", ast.Load())
            yield from _as("axes", node, [other])
    value = around.number(node)
    if value is not None:
        other = 0.0 if abs(value) > BEYOND else 1.0 if value == 0.0 else value * 1.1
        yield "const", f"{ast.unparse(node)} as {other:.6g}", ast.Constant(other)
    if isinstance(node, ast.Constant) and type(node.value) is int and isinstance(parent, ast.BinOp | ast.AugAssign):
        yield "const", f"{node.value} as {node.value + 1}", ast.Constant(node.value + 1)


def _as(cls: str, node: ast.expr, others: list[ast.expr]) -> Iterator[tuple[str, str, ast.expr]]:
    for other in others:
        yield cls, f"{ast.unparse(node)} as {ast.unparse(ast.fix_missing_locations(other))}", other


def _of_call(node: ast.Call) -> Iterator[tuple[str, str, ast.expr]]:
    name, args = ast.unparse(node.func), node.args
    if name in ("min", "max"):
        yield from _as("term", node, list(args))
    if name != "range":
        return
    start, stop = (ast.Constant(0), args[0]) if len(args) == 1 else args[:2]
    rest = args[2:]
    ends = [(start, _plus(stop, 1)), (start, _plus(stop, -1)), (_plus(start, 1), stop)]
    yield from _as("offbyone", node, [ast.Call(node.func, [a, b, *rest], []) for a, b in ends])
    if rest:
        yield from _as("term", node, [ast.Call(node.func, [start, stop], [])])


def _of_subscript(node: ast.Subscript) -> Iterator[tuple[str, str, ast.expr]]:
    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    changed = [(i, 1) for i in range(len(indices))] + [(len(indices) - 1, -1)]
    for place, by in changed:
        moved = [_plus(index, by) if i == place else index for i, index in enumerate(indices)]
        yield from _as("offbyone", node, [_subscript(node, moved)])
    if len(indices) > 1:
        yield from _as("axes", node, [_subscript(node, [*indices[:-2], indices[-1], indices[-2]])])


def _subscript(node: ast.Subscript, indices: list[ast.expr]) -> ast.Subscript:
    return ast.Subscript(node.value, indices[0] if len(indices) == 1 else ast.Tuple(indices, ast.Load()), node.ctx)


def _of_operation(node: ast.BinOp) -> Iterator[tuple[str, str, ast.expr]]:
    if isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        sides = [node.left] if isinstance(node.op, ast.Sub | ast.Div) else [node.left, node.right]
        yield from _as("term", node, sides)
    if isinstance(node.op, ast.Sub):
        yield from _as("term", node, [ast.BinOp(node.left, ast.Add(), node.right)])


def _plus(node: ast.expr, by: int) -> ast.expr:
    if isinstance(node, ast.Constant):
        return ast.Constant(node.value + by)
    return ast.BinOp(node, ast.Add() if by > 0 else ast.Sub(), ast.Constant(abs(by)))
