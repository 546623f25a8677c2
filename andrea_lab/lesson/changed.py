"""A kernel with one thing changed, to be checked or traced beside the kernel itself.

    without(my_kernel, "cuda.syncthreads()", 2)      # the second barrier is gone
    resized(my_kernel, TILE=4, HS=4)                 # small enough to be drawn

The change keeps its name, its file and its line numbers, so that a report on it points into the cell it came from.
"""

from __future__ import annotations

from typing import Any

from andrea_lab.lesson import origin
from kernels.target import Kernel, kernel
from kernels.target.source import Source


def without(given: Any, line: str, nth: int = 1) -> Kernel:
    """The kernel without the nth of its lines that read `line`. Raises ValueError when there are fewer."""
    lines = origin.text_of(given).split("\n")
    found = [n for n, text in enumerate(lines) if text.strip() == line]
    if not 1 <= nth <= len(found):
        raise ValueError(f"{given.__name__}: found {len(found)} lines that read {line!r}, expected at least {nth}")
    at = found[nth - 1]
    lines[at] = lines[at].replace(line, "pass")
    return _made(given, "\n".join(lines), {})


def resized(given: Any, **constants: Any) -> Kernel:
    """The kernel with other values for constants it takes from outside. Raises ValueError for a name not in it."""
    used = origin.plain(given).__code__
    for name in constants:
        if name not in used.co_names and name not in used.co_freevars:
            raise ValueError(f"{given.__name__}: found no constant {name!r} in it")
    return _made(given, origin.text_of(given), constants)


def _made(given: Any, text: str, constants: dict[str, Any]) -> Kernel:
    """The kernel that `text` defines where `given` was defined, among the names `given` sees and `constants`."""
    fn = origin.plain(given)
    above = text.split("def ", 1)[0].count("\n")  # decorators
    body = "\n" * (fn.__code__.co_firstlineno - 1 + above) + "\n".join(text.split("\n")[above:])
    closed = dict(zip(fn.__code__.co_freevars, (c.cell_contents for c in fn.__closure__ or ()), strict=True))
    namespace = {**fn.__globals__, **closed, **constants}
    exec(compile(body, fn.__code__.co_filename, "exec", dont_inherit=True), namespace)
    changed = namespace[fn.__name__]
    changed.__qualname__ = f"changed.<locals>.{fn.__name__}"  # it does not take the place of the original
    made = kernel(changed)
    made._source = Source(changed, text)
    made._source.first = fn.__code__.co_firstlineno
    return made
