"""A kernel with one thing changed, to be checked or traced beside the kernel itself.

    without(my_kernel, "cuda.syncthreads()", 2)      # the second barrier is gone
    resized(my_kernel, TILE=4, HS=4)                 # small enough to be drawn

The change keeps its name, its file and its line numbers, so that a report on it points into the cell it came from.
"""

from __future__ import annotations

from typing import Any

from andrea_lab.lesson import origin
from kernels.target import Kernel


def without(given: Any, line: str, nth: int = 1) -> Kernel:
    """The kernel without the nth of its lines that read `line`. Raises ValueError when there are fewer."""
    lines = origin.text_of(given).split("\n")
    found = [n for n, text in enumerate(lines) if text.strip() == line]
    if not 1 <= nth <= len(found):
        raise ValueError(f"{given.__name__}: found {len(found)} lines that read {line!r}, expected at least {nth}")
    at = found[nth - 1]
    lines[at] = lines[at].replace(line, "pass")
    return origin.variant(given, "\n".join(lines), in_place=True)


def resized(given: Any, **constants: Any) -> Kernel:
    """The kernel with other values for constants it takes from outside. Raises ValueError for a name not in it."""
    used = origin.plain(given).__code__
    for name in constants:
        if name not in used.co_names and name not in used.co_freevars:
            raise ValueError(f"{given.__name__}: found no constant {name!r} in it")
    return origin.variant(given, constants=constants, in_place=True)
