"""Random kernels that share memory, and an oracle that finds their races by brute force.

The oracle knows nothing of the check target: it runs the same text in plain Python, one thread after the other, writes
down every access with its line, and compares all pairs of accesses to one element.
"""

import random
import sys
from dataclasses import dataclass

WARP = 32
BLOCK = 40
BLOCKS = 2
SIZE = 48


@dataclass(frozen=True)
class Access:
    """One access: where in the text, by whom, when (intervals between barriers, then between warp barriers), what."""

    line: int
    block: int
    thread: int
    interval: int
    epoch: int
    kind: str
    value: object


class Recorder:
    """An array that writes down who touches it."""

    def __init__(self, clock):
        self.clock, self.log = clock, {}

    def note(self, index, kind, value, depth=2):
        assert 0 <= index < SIZE * BLOCKS
        line = sys._getframe(depth).f_lineno
        self.log.setdefault(index, []).append(Access(line, *self.clock.now, kind, value))

    def __getitem__(self, index):
        self.note(index, "read", None)
        return 0

    def __setitem__(self, index, value):
        self.note(index, "write", value)

    def add(self, index, value):
        self.note(index, "atomic", value, 3)


class Clock:
    """Whose turn it is: (block, thread, interval, epoch)."""

    now = (0, 0, 0, 0)


def atomic_add(array, index, value):
    array.add(index, value)


def ordered(one: Access, two: Access) -> bool:
    """Whether a barrier, or a warp's barrier for two lanes of one warp, lies between the two."""
    if one.block != two.block:
        return False
    if one.interval != two.interval:
        return True
    return one.thread // WARP == two.thread // WARP and one.epoch != two.epoch


def conflicts(log: dict) -> dict:
    """Unordered pairs of lines -> "race", or "same_value" where all that meets there are writes of one value."""
    found = {}
    for accesses in log.values():
        for k, one in enumerate(accesses):
            for two in accesses[k + 1 :]:
                same_thread = (one.block, one.thread) == (two.block, two.thread)
                kinds = {one.kind, two.kind}
                if same_thread or kinds <= {"read"} or kinds <= {"atomic"} or ordered(one, two):
                    continue
                equal = kinds == {"write"} and one.value == two.value
                pair = frozenset((one.line, two.line))
                found[pair] = "race" if not equal or found.get(pair) == "race" else "same_value"
    return found


def oracle(text: str) -> dict:
    """All conflicts of the kernel, by pairs of lines."""
    plain = text.replace("cuda.syncthreads()", "yield 0").replace("cuda.syncwarp()", "yield 1")
    space = {"atomic_add": atomic_add}
    exec(plain.replace("cuda.atomic.add", "atomic_add"), space)
    clock, found = Clock(), {}
    g = Recorder(clock)
    for block in range(BLOCKS):
        s = Recorder(clock)
        for thread in range(BLOCK):
            interval = epoch = 0
            clock.now = (block, thread, 0, 0)
            for wait in space["body"](g, s, thread, block):
                interval, epoch = (interval, epoch + 1) if wait else (interval + 1, 0)
                clock.now = (block, thread, interval, epoch)
        for pair, kind in conflicts(s.log).items():
            found[pair] = "race" if "race" in (kind, found.get(pair)) else kind
    for pair, kind in conflicts(g.log).items():
        found[pair] = "race" if "race" in (kind, found.get(pair)) else kind
    return found


class Writer:
    """Writes the body of one kernel."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.careful = seed % 3 == 0  # a third of the kernels is made of barriers, mostly
        self.lines: list[str] = []

    def pick(self, *choices):
        return self.draw.choice(choices)

    def index(self, array: str) -> str:
        own = self.pick("t", "t", "t", f"(t + 1) % {BLOCK}", f"{BLOCK - 1} - t", "t // 2", "t ^ 1", f"t * 3 % {BLOCK}")
        e = self.pick(own, own, own, "t % 32", str(self.draw.randrange(SIZE)), f"t + {self.draw.randrange(8)}")
        if array == "s":
            return e
        return self.pick(f"b * {SIZE} + {e}", f"b * {SIZE} + {e}", f"b * {SIZE} + {e}", e, f"b * 8 + {e}")

    def guard(self) -> str:
        return self.pick(
            "t < 32", "t % 2 == 0", "t == 5", "t >= 32", "b == 0", "t < 16", f"t < {self.draw.randrange(BLOCK)}"
        )

    def access(self, indent: int) -> None:
        pad = "    " * indent
        array = self.pick("s", "s", "g")
        at = self.index(array)
        value = self.pick("1.0", "2.0", "t", "b")
        line = self.pick(
            f"{array}[{at}] = {value}",
            f"v = v + {array}[{at}]",
            f"v = v + {array}[{at}]",
            f"{array}[{at}] += 1.0",
            f"cuda.atomic.add({array}, {at}, 1.0)",
        )
        self.lines.append(pad + line)

    def statement(self, indent: int, depth: int) -> None:
        pad = "    " * indent
        kind = self.draw.randrange(100)
        if kind < 45:
            self.access(indent)
        elif kind < 60:
            self.lines.append(f"{pad}if {self.guard()}:")
            for _ in range(self.draw.randint(1, 2)):
                self.access(indent + 1)
        elif kind < 70 and depth:
            self.lines.append(f"{pad}for r in range({self.pick('2', '3')}):")
            for _ in range(self.draw.randint(1, 3)):
                self.statement(indent + 1, depth - 1)
        elif kind < 80:
            self.lines.append(pad + "cuda.syncwarp()")
        else:
            self.lines.append(pad + "cuda.syncthreads()")
        if self.careful and self.draw.randrange(10) < 8:
            self.lines.append(pad + "cuda.syncthreads()")

    def body(self) -> str:
        for _ in range(self.draw.randint(3, 7)):
            self.statement(1, 1)
        return "\n".join(self.lines)


def program(seed: int) -> tuple[str, str]:
    """(kernel, the oracle's text), whose lines have the same numbers."""
    body = Writer(seed).body()
    # Every cell is set before the body, and a barrier parts it from what follows.
    kernel = (
        "def kernel(g, out):\n"
        f"    s = cuda.shared.array({SIZE}, float64)\n"
        "    t = cuda.threadIdx.x\n"
        "    b = cuda.blockIdx.x\n"
        "    v = 0.0\n"
        f"    for k in range(t, {SIZE}, {BLOCK}):\n"
        "        s[k] = 0.0\n"
        "    cuda.syncthreads()\n"
        f"{body}\n"
        f"    out[b * {BLOCK} + t] = v\n"
    )
    plain = f"def body(g, s, t, b):\n    v = 0.0\n\n\n\n\n\n    yield 0\n{body}\n    yield 0\n"
    return kernel, plain
