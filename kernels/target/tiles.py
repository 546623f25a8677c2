"""Which threads of a block to run together between two barriers, so that running sums stay in vector registers."""

import ast

from .lower import Barrier, Choice, Nest, Region, Rows, Strided, Uniform, regions
from .processor import vectors
from .syntax import array_name, stmt, target_name

_MOST = 8


def group_rows(items, facts, rows):
    """Gather stretches without a barrier into Rows: any if `rows`, else only those with sums in local arrays."""
    out, run = [], []
    for item in [*items, Barrier(stmt("_sync()"))]:
        if _pure(item, facts):
            run.append(item)
            continue
        while run and isinstance(run[0], Uniform):
            out.append(run.pop(0))
        worth = any(True for _ in regions(run)) if rows else any(_sums(x, facts.program.local) for x in run)
        out += [Rows(run)] if worth else run
        out.append(item)
        run = []
    return out


def _pure(item, facts):
    """True if an item may be run for some threads first and for others later."""
    if isinstance(item, (Region, Choice)):
        return True
    if isinstance(item, Uniform):
        name = target_name(item.st)
        return name is not None and facts.single(name)
    if isinstance(item, (Nest, Strided)) and not isinstance(item.st, ast.While):
        return all(_pure(x, facts) for x in [*item.body, *getattr(item, "orelse", [])])
    return False


def _sums(item, local):
    """True for a loop outside the loop over threads that works on a local array."""
    if not isinstance(item, (Nest, Strided)):
        return False
    stores = (n for r in regions([item]) for s in r.body for n in ast.walk(s) if isinstance(n, ast.Assign))
    return any(array_name(n.targets[0]) in local for n in stores)


def tile_of(items, program, spilled):
    """(rows, lanes) of a block to run together: as many as keep the innermost sums in vector registers."""
    width, registers = vectors()
    sums = max([_sums_inside(x, program, spilled) for x in items] or [0])
    x, y, z = program.block
    if sums == 0 or x % width:
        return 1, x
    at_once = max(1, (registers - 4) // sums)
    if y * z == 1:
        return 1, width * _divisor(x // width, min(at_once, max(1, 4 // sums)))
    return _divisor(y, min(_MOST, at_once)), width


def _divisor(n, most):
    """The largest power of two that divides n and is at most `most`."""
    best = 1
    while n % (best * 2) == 0 and best * 2 <= most:
        best *= 2
    return best


def _sums_inside(item, program, spilled):
    """How many running sums a thread has in the innermost loops below an item."""
    if not isinstance(item, (Nest, Strided)):
        return 0
    inner = [*item.body, *getattr(item, "orelse", [])]
    below = max([_sums_inside(x, program, spilled) for x in inner] or [0])
    if below or isinstance(item.st, ast.If):
        return below
    stores = (s for r in item.body if isinstance(r, Region) for s in r.body if isinstance(s, ast.Assign))
    return sum(target_name(s) in spilled or array_name(s.targets[0]) in program.local for s in stores)
