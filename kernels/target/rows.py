"""Blocks with several rows of threads: which items run row by row."""

import ast

from .lower import Barrier, Choice, Nest, Region, Rows, Strided, Uniform, regions
from .syntax import stmt, target_name


def group_rows(items, facts):
    """Gather stretches without a barrier into Rows, so that uniform loops nest inside the loop over rows of threads."""
    out, run = [], []
    for item in [*items, Barrier(stmt("_sync()"))]:
        if _pure(item, facts):
            run.append(item)
            continue
        while run and isinstance(run[0], Uniform):
            out.append(run.pop(0))
        out += [Rows(run)] if any(True for _ in regions(run)) else run
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
