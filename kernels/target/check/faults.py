"""What can be wrong with a launch: one Fault for each mistake, and the exceptions that end a run early."""

from dataclasses import dataclass, replace

from ..program import SHARED_LIMIT

# The order in which faults are told: what makes the rest of a report doubtful comes first.
RANK = (
    "unsupported",
    "error",
    "limits",
    "barrier",
    "endless",
    "out_of_bounds",
    "unset",
    "lost_update",
    "race",
    "same_value",
)
MAX_THREADS = 1024
MAX_SHARED = SHARED_LIMIT
MAX_LOCAL = 512 * 1024


@dataclass(frozen=True)
class Fault:
    """One mistake.

    kind: one of RANK. file, line, source: where, and the text of that line. block: the block (x, y, z) or None.
    threads: the threads concerned, each (x, y, z). array, index: what they touched; for a variable its name and ().
    count: how many places or threads, exactly. message, hint: one line each.
    """

    kind: str
    file: str
    line: int
    source: str
    block: tuple | None
    threads: tuple
    array: str | None
    index: tuple
    count: int
    message: str
    hint: str

    @property
    def severity(self):
        """How grave: "error", or "note" where many threads write one value."""
        return "note" if self.kind == "same_value" else "error"

    def order(self):
        return RANK.index(self.kind), self.file, self.line, self.array or "", self.message

    def again(self, count):
        """The same fault met `count` more times."""
        return replace(self, count=self.count + count)


class Stop(Exception):
    """A fault after which going on makes no sense; it is already noted."""


class Refused(Exception):
    """A kernel that is no CUDA kernel, or not one that this target knows: line, message and what to write instead."""

    def __init__(self, program, node_or_line, message, hint="", kind="unsupported"):
        super().__init__(message)
        self.program, self.message, self.hint, self.kind = program, message, hint, kind
        self.line = node_or_line if isinstance(node_or_line, int) else getattr(node_or_line, "lineno", 0)
