"""Loops over barriers whose counter is known, as in `s = 64; while s > 0: ...; s //= 2`: written out, round by round.

A reduction tree is such a loop. Written out, every round has a fixed number of threads at work, which the vectoriser
can use; in a loop the rounds of a small tree cost more than the sums they add up.
"""

import ast

from .syntax import assigned, has_marker, names, own_jumps, place, substitute, target_name

MOST_ROUNDS = 12


def write_out(body, constant):
    """`body` with such loops written out; `constant(tree)` is the value of an expression of constants, else None."""
    out = []
    for st in body:
        for field in ("body", "orelse"):
            if getattr(st, field, None):
                setattr(st, field, write_out(getattr(st, field), constant))
        rounds = _rounds(st, out, constant) if isinstance(st, ast.While) else None
        out += [st] if rounds is None else rounds
    return out


def _rounds(loop, before, constant):
    """The statements of all rounds, or None for a loop that is to stay."""
    counter = names(loop.test) & assigned(loop.body)
    if len(counter) != 1 or not has_marker(loop, "_sync") or any(own_jumps(loop.body)):
        return None
    name = counter.pop()
    nested = [st for st in loop.body if target_name(st) != name and name in assigned(st)]
    value = _start(name, before, constant)
    if nested or value is None:
        return None
    out = []
    for _ in range(MOST_ROUNDS):
        if not constant(_known(loop.test, name, value)):
            return [*out, place(ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value)), loop)]
        for st in loop.body:
            if target_name(st) == name:
                value = constant(_known(st.value, name, value))
                if type(value) is not int:
                    return None
            else:
                out.append(_known(st, name, value))
    return None


def _start(name, before, constant):
    """The value of the counter at the loop: the last one it was given, if that is a constant."""
    for st in reversed(before):
        if target_name(st) == name:
            value = constant(st.value)
            return value if type(value) is int else None
        if name in assigned(st):
            return None
    return None


def _known(tree, name, value):
    return substitute(tree, lambda n: ast.Constant(value) if n == name else None)
