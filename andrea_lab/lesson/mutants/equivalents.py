"""Mutants that do the same as the kernel: nothing can tell them apart, and why.

Each is proved by a test: the same bits on 200 random inputs, and the same traffic in every case. There are none in the
classes NEVER: a barrier, guard, atomic or += without which a kernel does the same has no place in a shipped kernel.
"""

from __future__ import annotations

NEVER = ("barrier", "guard", "atomic", "accumulate")
MOST = 0.03  # of the bank

# (subject, class, what, how many of the same stand before it) -> why nothing changes
EQUIVALENTS: dict[tuple[str, str, str, int], str] = {}


def reason(mutant) -> str | None:
    """Why a mutant does the same as the kernel, None for one that is not listed."""
    return EQUIVALENTS.get(mutant.key)
