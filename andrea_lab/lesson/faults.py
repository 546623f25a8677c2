"""From a fault that the check target reports to the likely cause, in the words of `reasons`."""

from __future__ import annotations

import ast
import math
from typing import Any

REASONS = {
    "barrier": "barrier not for all",
    "unset": "unset memory",
    "lost_update": "missing atomic",
    "same_value": "same value",
    "limits": "launch limits",
    "endless": "endless loop",
    "unsupported": "unsupported",
    "error": "error",
}


def reason(fault: Any, tree: ast.FunctionDef, case: Any) -> str:
    """The likely cause of a fault in the kernel whose syntax tree is given."""
    if fault.kind == "out_of_bounds":
        return _bounds(fault, tree, case)
    if fault.kind in ("race", "lost_update"):
        return _race(fault, tree)
    if fault.kind == "unsupported" and "is not defined" in fault.message:
        return "unknown name"
    return REASONS.get(fault.kind, "error")


def _bounds(fault, tree, case) -> str:
    """Negative, exchanged, a loop that runs on, or no guard."""
    index = fault.index if isinstance(fault.index, tuple) else (fault.index,)
    if any(isinstance(i, int) and i < 0 for i in index):
        return "negative index"
    shape = _shape(fault, tree, case)
    around = _around(tree, fault.line)
    tested = {n.id for a in around if isinstance(a, ast.If | ast.IfExp) for n in ast.walk(a.test) if _is_name(n)}
    looped = {n.id for a in around if isinstance(a, ast.For) for n in ast.walk(a.target) if _is_name(n)}
    if shape is None or len(shape) != len(index):  # shared or local memory
        named = set().union(*(_index_names(tree, fault, axis) for axis in range(len(index))))
        return "loop too far" if named & looped else "out of bounds"
    beyond = [axis for axis in range(len(shape)) if index[axis] >= shape[axis]]
    named = set().union(*(_index_names(tree, fault, axis) for axis in beyond))
    turned = len(shape) == 2 and shape[0] != shape[1] and index[0] < shape[1] and index[1] < shape[0]
    if turned and named & tested:
        return "wrong axis"
    if named & looped:
        return "loop too far"
    surplus = max((index[axis] - shape[axis] for axis in beyond), default=0)
    return "out of bounds" if named & tested and surplus >= _threads(case) else "no guard"


def _threads(case) -> int:
    return math.prod(case.block) if isinstance(case.block, tuple) else case.block


def _shape(fault, tree, case) -> tuple[int, ...] | None:
    """The shape of the array, where it is an argument."""
    names = [a.arg for a in tree.args.args]
    if fault.array not in names:
        return None
    value = list(case.arguments.values())[names.index(fault.array)]
    return getattr(value, "shape", None)


def _around(tree, line: int) -> list[ast.AST]:
    """The statements that enclose a line, the outermost first."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.For | ast.While):
            inner = [*node.body, *node.orelse]
        else:
            inner = [node] if isinstance(node, ast.IfExp) else []
        if any(n.lineno <= line <= n.end_lineno for n in inner):
            found.append(node)
    return found


def _index_names(tree, fault, axis: int) -> set[str]:
    """The names from which the index along an axis is made, where the array of a fault is accessed."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and node.lineno <= fault.line <= node.end_lineno:
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if _is_name(node.value) and node.value.id == fault.array and axis < len(parts):
                found |= {n.id for n in ast.walk(parts[axis]) if _is_name(n)}
    return found


def _is_name(node) -> bool:
    return isinstance(node, ast.Name)


def _race(fault, tree) -> str:
    """Two threads of a block, two lines: a barrier is missing between them. One line: the element has no owner."""
    shared = _allocated(tree, "shared")
    if fault.kind == "lost_update":
        return "missing barrier" if fault.array in shared and _reduces(tree, fault) else "missing atomic"
    apart = fault.block is not None and ("(line" in fault.message or "reads" in fault.message)
    return "missing barrier" if fault.array in shared or apart else "two writers"


def _allocated(tree, where: str) -> set[str]:
    """Names bound to cuda.shared.array(...) (or local)."""
    return {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and f"{where}.array" in ast.unparse(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _reduces(tree, fault) -> bool:
    """Whether the line adds one element of the array to another, as a step of a tree does: s[t] += s[t + k]."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign | ast.Assign) and node.lineno <= fault.line <= node.end_lineno:
            reads = [n for n in ast.walk(node.value) if isinstance(n, ast.Subscript) and _is_name(n.value)]
            return any(n.value.id == fault.array for n in reads)
    return False
