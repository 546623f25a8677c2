"""Short loops of constant length, written out: `for j in range(8): a[j] += ...` becomes eight statements.

LLVM unrolls nothing by itself here, since it would unroll loops over threads before its vectoriser sees them; and a
loop over threads is vectorised only if no loop is left inside.
"""

import ast

from .syntax import assigned, has, own_jumps, range_args, substitute

_TRIPS = 8
_STATEMENTS = 24


def constant_range(st, constants):
    """The values a for loop runs through, if its range is written in constants, else None."""
    values = []
    for arg in range_args(st):
        value = constants.get(arg.id) if isinstance(arg, ast.Name) else getattr(arg, "value", None)
        if type(value) is not int:
            return None
        values.append(value)
    return range(*values) if values[2] else None


def unroll(body, constants):
    """The statements with short loops written out, inner loops first."""
    out = []
    for st in body:
        if isinstance(st, (ast.For, ast.While, ast.If)):
            st.body = unroll(st.body, constants)
            if isinstance(st, ast.If):
                st.orelse = unroll(st.orelse, constants)
        out += _copies(st, constants) if isinstance(st, ast.For) else [st]
    return out


def _copies(st, constants):
    values = constant_range(st, constants)
    if values is None or not 0 < len(values) <= _TRIPS or list(own_jumps(st.body)):
        return [st]
    size = sum(isinstance(n, ast.stmt) for part in st.body for n in ast.walk(part))
    name = st.target.id
    if size * len(values) > _STATEMENTS or has(st.body, ast.For, ast.While) or name in assigned(st.body):
        return [st]
    out = []
    for value in values:
        number = _number(value)
        for part in st.body:
            out.append(substitute(part, lambda n, number=number: number if n == name else None))
    last = ast.Assign([ast.Name(name, ast.Store())], _number(values[-1]))  # reads after the loop see it
    return [*out, ast.fix_missing_locations(ast.copy_location(last, st))]


def _number(value):
    return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))
