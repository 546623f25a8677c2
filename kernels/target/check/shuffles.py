"""Seeded orders: a stream of 64-bit words from a counter (SplitMix64), the same in every process."""

import numpy as np

_STEP, _A, _B = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Draws:
    """Orders drawn from a seed."""

    def __init__(self, seed):
        self.at = np.uint64((int(seed) * 0x632BE59BD9B4E019 + 1) % 2**64)

    def words(self, n):
        with np.errstate(over="ignore"):
            x = self.at + np.arange(1, n + 1, dtype=np.uint64) * _STEP
            self.at = self.at + np.uint64(n) * _STEP
            x = (x ^ (x >> np.uint64(30))) * _A
            x = (x ^ (x >> np.uint64(27))) * _B
            return x ^ (x >> np.uint64(31))

    def permutation(self, n):
        """The numbers below n in a drawn order."""
        return np.argsort(self.words(n), kind="stable")

    def halves(self, n):
        """A boolean for each of n (at least 2): two halves of drawn members, neither of them empty."""
        out = np.zeros(n, bool)
        out[self.permutation(n)[: n // 2]] = True
        return out
