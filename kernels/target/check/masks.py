"""Which lanes of a group take part in what runs now."""

import numpy as np


class Mask:
    """A set of lanes: `b` a boolean a lane, `n` how many, `full` if all. Never changed once made."""

    __slots__ = ("_idx", "b", "full", "n")

    def __init__(self, b, n=None):
        self.b = b
        self.n = int(np.count_nonzero(b)) if n is None else n
        self.full = self.n == b.size
        self._idx = None

    @property
    def idx(self):
        """Positions of the lanes, ascending."""
        if self._idx is None:
            self._idx = np.flatnonzero(self.b)
        return self._idx

    def covers(self, other):
        return self.full or not (other.b > self.b).any()

    def union(self, other):
        """The smallest mask with the lanes of both; the same object if one holds the other."""
        if other is self or other.n == 0 or self.full:
            return self
        if self.n == 0 or other.full:
            return other
        b = self.b | other.b
        n = int(np.count_nonzero(b))
        return self if n == self.n else other if n == other.n else Mask(b, n)

    def minus(self, other):
        return Mask(self.b > other.b)

    def where(self, c):
        """The lanes where `c` (a truth a lane, or one for all) holds; this very object if it holds in all of them."""
        if type(c) is not np.ndarray:
            return self if c else Mask(np.zeros(self.b.size, bool), 0)
        b = c if self.full else self.b & c
        n = int(np.count_nonzero(b))
        return self if n == self.n else Mask(b, n)


def split(m, c):
    """The lanes of m where c holds, and the others."""
    yes = m.where(c)
    if yes is m:
        return m, m.where(False)
    return (yes, m) if yes.n == 0 else (yes, m.minus(yes))
