"""Conditions that are bounds on threadIdx.x: `if i < n` becomes the end of the loop over threads, not a test."""

import ast

from .syntax import has, names

_INVERSE = {ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
_SWAPPED = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq}


def split_guards(guards, facts, types):
    """Conditions sorted into (tests without threadIdx.x, lower bounds, upper bounds, the rest)."""
    tests, lower, upper, inner = [], [], [], []
    for condition in _conjuncts(guards):
        written = _written_out(condition, facts)
        if written is None:
            inner.append(condition)
        elif facts.coefficient(written, "_tx") == 0:
            tests.append(written)
        elif not _bound(written, facts, types, lower, upper):
            inner.append(condition)
    return tests, lower, upper, inner


def _conjuncts(guards):
    out = []
    for guard in guards:
        if isinstance(guard, ast.UnaryOp) and isinstance(guard.op, ast.Not):
            inside = guard.operand
            if isinstance(inside, ast.Compare) and len(inside.ops) == 1 and type(inside.ops[0]) in _INVERSE:
                guard = ast.Compare(inside.left, [_INVERSE[type(inside.ops[0])]()], inside.comparators)
            elif isinstance(inside, ast.BoolOp) and isinstance(inside.op, ast.Or):
                out += _conjuncts([ast.UnaryOp(ast.Not(), v) for v in inside.values])
                continue
        if isinstance(guard, ast.BoolOp) and isinstance(guard.op, ast.And):
            out += _conjuncts(guard.values)
        elif isinstance(guard, ast.Compare) and len(guard.ops) > 1:
            terms = [guard.left, *guard.comparators]
            out += [ast.Compare(a, [op], [b]) for a, op, b in zip(terms, guard.ops, terms[1:], strict=False)]
        else:
            out.append(guard)
    return out


def _written_out(condition, facts):
    """The condition in ids and uniform names alone, or None."""
    if has(condition, ast.Subscript, ast.Call, ast.Div):
        return None
    if not all(n in facts.cheap or n not in facts.varying for n in names(condition)):
        return None
    return facts.expand(condition)


def _integer(tree, types):
    for n in ast.walk(tree):
        if isinstance(n, (ast.Div, ast.Subscript, ast.Call)):
            return False
        if isinstance(n, ast.Constant) and (isinstance(n.value, bool) or not isinstance(n.value, int)):
            return False
        if isinstance(n, ast.Name) and not types.is_integer(n.id):
            return False
    return True


def _bound(condition, facts, types, lower, upper):
    if not isinstance(condition, ast.Compare) or len(condition.ops) != 1 or not _integer(condition, types):
        return False
    left, right, op = condition.left, condition.comparators[0], type(condition.ops[0])
    if (facts.coefficient(left, "_tx"), facts.coefficient(right, "_tx")) == (0, 1):
        left, right, op = right, left, _SWAPPED.get(op)
    if (facts.coefficient(left, "_tx"), facts.coefficient(right, "_tx")) != (1, 0):
        return False
    edge = ast.BinOp(right, ast.Sub(), facts.expand(left, ("_tx",)))
    after = ast.BinOp(edge, ast.Add(), ast.Constant(1))
    if op is ast.Lt:
        upper.append(edge)
    elif op is ast.LtE:
        upper.append(after)
    elif op is ast.Gt:
        lower.append(after)
    elif op is ast.GtE:
        lower.append(edge)
    elif op is ast.Eq:
        lower.append(edge)
        upper.append(after)
    else:
        return False
    return True
