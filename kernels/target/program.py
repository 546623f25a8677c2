"""A kernel in normal form: ids are integers, barriers are markers, assignments are plain, a name has one meaning."""

import ast
from dataclasses import dataclass, field

import numpy as np

SHARED_LIMIT = 48 * 1024
STACK_LIMIT = 2 * 1024 * 1024


@dataclass
class Array:
    """A shared or local array of a kernel."""

    shape: tuple
    dtype: np.dtype
    node: ast.AST

    @property
    def size(self):
        return int(np.prod(self.shape))

    @property
    def nbytes(self):
        return self.size * self.dtype.itemsize


@dataclass
class Program:
    """What the later passes work on.

    `lane_temps` are the values that shuffles exchange; `serial` says that a global array is touched by an atomic, so
    the blocks run in order on one thread.
    """

    source: object
    block: tuple
    params: list
    what: str = "kernel"
    body: list = field(default_factory=list)
    shared: dict = field(default_factory=dict)
    local: dict = field(default_factory=dict)
    devices: dict = field(default_factory=dict)
    constants: dict = field(default_factory=dict)
    lane_temps: set = field(default_factory=set)
    serial: bool = False

    @property
    def threads(self):
        return int(np.prod(self.block))

    @property
    def name(self):
        return self.source.name

    def refuse(self, node, message):
        self.source.refuse(node, message, self.what)

    def lane_text(self):
        """The number of a thread in its block, as an expression."""
        x, y, z = self.block
        text = "_tx" if x > 1 else "0"
        if y > 1:
            text += f" + {x} * _ty"
        if z > 1:
            text += f" + {x * y} * _tz"
        return text

    def check_shared(self):
        """Refuse more static shared memory than a block may have."""
        total = sum(a.nbytes for a in self.shared.values())
        if total > SHARED_LIMIT:
            last = list(self.shared.values())[-1]
            self.refuse(
                last.node, f"static shared memory is at most 49,152 bytes a block, this kernel asks for {total:,}"
            )

    def check_stack(self, stacks):
        """Refuse a block whose arrays would not fit on a thread's stack."""
        total = sum(
            int(np.prod(shape)) * max(1, getattr(dtype, "bitwidth", 8) // 8) for shape, dtype in stacks.values()
        )
        if total > STACK_LIMIT:
            text = f"the local arrays of a block of {self.threads} threads take {total:,} bytes"
            self.refuse(self.source.tree, f"{text}, more than {STACK_LIMIT:,}; use smaller arrays or a smaller block")
