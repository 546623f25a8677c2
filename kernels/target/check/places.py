"""How files, lines, blocks and threads are named in a report: the same words in every process."""

import os

from ..source import cell_of


def where(file, line):
    """ "layernorm.py:40", or "cell 7, line 4"."""
    cell = cell_of(file)
    return f"{os.path.basename(file)}:{line}" if cell is None else f"{cell}, line {line}"


def unravel(linear, shape):
    """(x, y, z) of a linear number, x fastest."""
    x, y, _ = shape
    linear = int(linear)
    return linear % x, linear // x % y, linear // (x * y)


def short(position, shape):
    """A position as the kernel's author thinks of it: one number in one dimension."""
    axes = 3 if shape[2] > 1 else 2 if shape[1] > 1 else 1
    return str(position[0]) if axes == 1 else f"({', '.join(str(p) for p in position[:axes])})"


def plural(n, noun):
    return f"{n:,} {noun}{'s' * (n != 1)}"
