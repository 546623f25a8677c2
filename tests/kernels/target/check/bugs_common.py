"""What the lists of wrong and of legal kernels share: how an entry is written, and the arrays it is run on.

An entry is a plain Numba CUDA kernel with one launch. A wrong one marks its guilty line with `# BUG`, says which kinds
of fault a reader of the CUDA guide would call it, and what the kernel was meant to compute, so that a judge which looks
at results alone can be given the same list.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

BUGS: list[Entry] = []
LEGAL: list[Entry] = []


@dataclass(frozen=True)
class Entry:
    """One kernel and one launch of it.

    kinds: the kinds of fault that name the mistake, none for a legal kernel; group: the heading it is counted under;
    out: which argument holds the result; want: the result the author of the kernel hoped for, from the fresh arguments;
    dynamic: bytes of dynamic shared memory of the launch; marked: the device function that holds the mark, if one does.
    """

    fn: Callable
    kinds: tuple[str, ...]
    group: str
    grid: object
    block: object
    arguments: Callable[[], tuple]
    out: int
    want: Callable
    dynamic: int = 0
    marked: Callable | None = None

    @property
    def name(self) -> str:
        return self.fn.__name__

    @property
    def launch(self) -> tuple:
        """What stands in the square brackets."""
        return (self.grid, self.block, 0, self.dynamic) if self.dynamic else (self.grid, self.block)

    @property
    def line(self) -> int:
        """The line of the file that carries `# BUG`."""
        source, first = inspect.getsourcelines(self.marked or self.fn)
        marked = [i for i, text in enumerate(source) if "# BUG" in text]
        assert len(marked) == 1, f"{self.name}: {len(marked)} lines are marked, expected 1"
        return first + marked[0]

    def expected(self):
        """The result hoped for, from arguments of its own."""
        return np.asarray(self.want(*self.arguments()))


def bug(kinds, grid, block, arguments, want, out=-1, dynamic=0, group=None, marked=None):
    """Put a wrong kernel on the list. `group` is the first kind unless given."""
    kinds = (kinds,) if isinstance(kinds, str) else kinds

    def decorate(fn):
        BUGS.append(Entry(fn, kinds, group or kinds[0], grid, block, arguments, out, want, dynamic, marked))
        return fn

    return decorate


def legal(grid, block, arguments, want, out=-1, dynamic=0):
    """Put a legal kernel on the list."""

    def decorate(fn):
        LEGAL.append(Entry(fn, (), "legal", grid, block, arguments, out, want, dynamic))
        return fn

    return decorate


def ramp(*shape, dtype=np.float32):
    """Small whole numbers, no two neighbours alike: sums of them are exact in float32."""
    return ((np.arange(np.prod(shape)) * 7) % 19 + 1).reshape(shape).astype(dtype)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def ints(*values):
    return np.array(values, np.int32)


def bins(n, k):
    """n bin numbers of 0..k-1 in which many repeat."""
    return (np.arange(n) * 7 // 2 % k).astype(np.int32)
