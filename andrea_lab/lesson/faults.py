"""From a fault that the check target reports to the likely cause, in the words of `reasons`."""

from __future__ import annotations

import ast
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
    return REASONS.get(fault.kind, "error")


def _bounds(fault, tree, case) -> str:
    """Negative, exchanged, a loop that runs on, or no guard."""
    index = fault.index if isinstance(fault.index, tuple) else (fault.index,)
    if any(isinstance(i, int) and i < 0 for i in index):
        return "negative index"
    shape = _shape(fault, tree, case)
    around = _around(tree, fault.line)
    turned = shape and len(index) == len(shape) == 2 and shape[0] != shape[1]
    guarded = any(isinstance(node, ast.If | ast.IfExp) for node in around)
    if turned and guarded and index[0] < shape[1] and index[1] < shape[0]:
        return "wrong axis"
    loops = [node for node in around if isinstance(node, ast.For | ast.While)]
    if loops and _uses_loop_variable(tree, fault.line, loops):
        return "loop too far"
    return "out of bounds" if guarded else "no guard"


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
        body = [n for part in ("body", "orelse") for n in getattr(node, part, []) if isinstance(n, ast.AST)]
        if isinstance(node, ast.If | ast.For | ast.While) and any(n.lineno <= line <= n.end_lineno for n in body):
            found.append(node)
    return found


def _uses_loop_variable(tree, line: int, loops) -> bool:
    targets = {n.id for loop in loops if isinstance(loop, ast.For) for n in ast.walk(loop.target) if _is_name(n)}
    read = [n for n in ast.walk(tree) if isinstance(n, ast.Subscript) and n.lineno <= line <= n.end_lineno]
    return any(_is_name(n) and n.id in targets for sub in read for n in ast.walk(sub.slice))


def _is_name(node) -> bool:
    return isinstance(node, ast.Name)


def _race(fault, tree) -> str:
    """In shared memory a barrier is missing; in global memory nobody owns the element."""
    shared = _allocated(tree, "shared")
    if fault.kind == "lost_update":
        return "missing barrier" if fault.array in shared and _reduces(tree, fault) else "missing atomic"
    if fault.array in shared:
        return "missing barrier"
    return "two writers"


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
