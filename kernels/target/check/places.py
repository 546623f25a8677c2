"""How files, lines, blocks and threads are named in a report: the same words in every process."""

import os
import sys


def cell_of(file):
    """The execution count of the notebook cell that a file name stands for, None for any other file."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    known = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return known.get(file)


def is_cell(file):
    return "ipykernel_" in file or file.startswith("<ipython-input")


def name_of(file):
    """A file's name without its folders, or "cell 7"."""
    number = cell_of(file)
    if number is not None:
        return f"cell {number}"
    return "notebook cell" if is_cell(file) else os.path.basename(file)


def where(file, line):
    """ "layernorm.py:40", or "cell 7, line 4"."""
    name = name_of(file)
    return f"{name}, line {line}" if cell_of(file) is not None or is_cell(file) else f"{name}:{line}"


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
