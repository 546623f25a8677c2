"""Which kernels are shipped, and which blocks each of them may be launched with.

Every shipped kernel is written as

    @register(ANY_BLOCK, example)           or  @register((128,), example)
    @kernel
    def k_something(...): ...

`example(block)` returns `(grid, args)` for a tiny launch with that block: NumPy arrays filled by `wave` or `tokens`,
and scalars. Tests use it to compile, simulate and hash every kernel, so it must be a function of the block alone,
hold more items than the smallest block has threads, and give results that depend on the kernel, not on the block.

This module also holds `Pair`, so that the files of the operations and `pairs.py` can both import it without a cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kernels.target import KernelError

ANY_BLOCK = "any"
PROOF_BLOCKS = (32, 96, 1024)

KERNELS: dict[str, Registered] = {}


def block3(block) -> tuple[int, int, int]:
    """A block as three numbers: 128 -> (128, 1, 1)."""
    sizes = (block,) if isinstance(block, int | np.integer) else tuple(block)
    return tuple(int(s) for s in sizes) + (1,) * (3 - len(sizes))


class Registered:
    """A kernel together with its legal blocks; launches with another block are refused by name.

    Used exactly like the kernel it holds: `k[grid, block](...)` and `k[grid, block].bind(...)`.
    """

    def __init__(self, kernel, blocks, example: Callable, shuffles: bool = False, teaching: bool = False):
        self.kernel = kernel
        self.name = kernel.fn.__name__
        self.fn = kernel.fn
        self.__name__, self.__doc__ = self.name, kernel.fn.__doc__
        self.any_block = blocks == ANY_BLOCK
        self.blocks = () if self.any_block else tuple(blocks)
        self.example = example
        self.shuffles = shuffles
        self.teaching = teaching

    @property
    def default_block(self):
        """The block used where nobody asks for another one."""
        return 128 if self.any_block else self.blocks[0]

    @property
    def proof_blocks(self) -> tuple:
        """Blocks that a test of this kernel goes through."""
        return PROOF_BLOCKS if self.any_block else self.blocks

    def __getitem__(self, config):
        grid, block = config[0], config[1]
        self.check_block(block)
        return self.kernel[grid, block]

    def check_block(self, block) -> None:
        """Raise KernelError when `block` is not legal for this kernel."""
        shape = block3(block)
        threads = shape[0] * shape[1] * shape[2]
        if self.any_block:
            if shape[1:] != (1, 1) or not 1 <= threads <= 1024:
                raise KernelError(f"{self.name}: block {block} is not legal; expected one number from 1 to 1024")
        elif shape not in [block3(b) for b in self.blocks]:
            legal = ", ".join(str(b) for b in self.blocks)
            raise KernelError(f"{self.name}: block {block} is not legal; legal blocks: {legal}")

    def __repr__(self):
        return f"<{self.name}, blocks: {ANY_BLOCK if self.any_block else self.blocks}>"


def register(blocks, example: Callable, *, shuffles: bool = False, teaching: bool = False):
    """Decorator above `@kernel`: enter the kernel in KERNELS under its name and guard its launches.

    blocks: ANY_BLOCK, or a tuple of legal blocks (numbers, or tuples for 2-D blocks).
    shuffles: the kernel uses warp shuffles, which the simulator does not know.
    teaching: the kernel is shown in a lesson only (it may use float atomics); no production path launches it. A
    second kernel of the same name (a factory called for another size) is guarded too, but the first stays in the
    table.
    """

    def enter(kernel) -> Registered:
        made = Registered(kernel, blocks, example, shuffles, teaching)
        KERNELS.setdefault(made.name, made)
        return made

    return enter


@dataclass(frozen=True)
class Pair:
    """A forward kernel and its backward twin.

    fwd, bwd: the named kernels, each launched once by named_forward / named_backward.
    forward, backward: the production path, functions that return a list of launches.
    saved: names of what forward leaves for backward. folds: names of the fine pairs this pair is made of.
    A file of operations ends with PAIRS, its named pairs, and FINE, its fine ones; `pairs.py` gathers them.
    """

    name: str
    fwd: Registered
    bwd: Registered
    forward: Callable
    backward: Callable
    named_forward: Callable
    named_backward: Callable
    saved: tuple[str, ...] = ()
    folds: tuple[str, ...] = ()

    @property
    def blocks(self) -> dict[str, object]:
        """Legal blocks of the two named kernels."""
        return {k.name: ANY_BLOCK if k.any_block else k.blocks for k in (self.fwd, self.bwd)}

    def fine(self, name: str) -> Pair:
        """The same pair under the name of one of its places in the model, as a fine pair."""
        return replace(self, name=name, folds=())


def wave(*shape: int, seed: int = 1, scale: float = 1.0) -> np.ndarray:
    """Deterministic float32 test data in [-scale, scale]: no two neighbours alike, no random state."""
    i = np.arange(1, int(np.prod(shape)) + 1, dtype=np.int64)
    mixed = (i * 7919 * (2 * seed + 1) + seed * 104729) % 2003
    return ((mixed.astype(np.float32) / np.float32(1001.0) - np.float32(1.0)) * np.float32(scale)).reshape(shape)


def tokens(*shape: int, vocab: int, seed: int = 1) -> np.ndarray:
    """Deterministic int32 ids below vocab, with repeats."""
    i = np.arange(1, int(np.prod(shape)) + 1, dtype=np.int64)
    return ((i * i * 31 + i * 7 * seed + seed) % 1009 % vocab).astype(np.int32).reshape(shape)


def row_block(columns: int) -> int:
    """Threads for a row of so many columns: one a column, whole warps, at most 1,024."""
    return min(1024, cdiv(columns, 32) * 32)


def cdiv(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)
