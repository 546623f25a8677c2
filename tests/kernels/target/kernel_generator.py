"""Random kernels that are legal CUDA: no races, barriers only where all threads of a block pass, indices within bounds.

Integers stay small and floats are short multiples of a quarter, so that every target computes the very same numbers.
A kernel reads `a` and `f`, and each thread writes its own element of `out` and `fout`; `hist` is shared by atomics.
"""

import random

LENGTH = 64
BLOCKS = (8, 16, 5, (4, 4), (8, 2), (3, 5), (4, 2, 2))

HEADER = """import math
from numba import cuda, float32, int32, int64
from kernels.target import device, kernel

SIZE = {size}
SHIFT = {shift}


@device
def twist(x, y):
    if x > y:
        return x - y
    return y * 2 - x


@device
def pick(table, k):
    return table[k % {length}] % 11

"""


class Generator:
    """The text of one kernel, a function of the seed."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.block = self.r.choice(BLOCKS)
        shape = self.block if isinstance(self.block, tuple) else (self.block,)
        self.shape = shape + (1,) * (3 - len(shape))
        self.threads = self.shape[0] * self.shape[1] * self.shape[2]
        self.lines = []
        self.ints, self.floats = [], []
        self.uniform, self.frozen = [], []
        self.fresh = 0
        self.atomic = self.r.choice(["add", "add", "max", "sub"])

    # ---- expressions
    def integer(self, uniform=False, depth=2):
        r = self.r
        names = [n for n in self.ints if n in self.uniform] if uniform else self.ints
        pool = [str(r.randint(0, 7)), "bx", "n", "SHIFT", *names * 2]
        if not uniform:
            pool += ["tx", "lane", "lane", "i"]
        if depth == 0 or r.random() < 0.25:
            return r.choice(pool)
        x, y = self.integer(uniform, depth - 1), self.integer(uniform, depth - 1)
        kind = r.randrange(11)
        if kind < 5:
            return f"({x} {r.choice(['+', '-', '*'])} {y})"
        if kind == 5:
            return f"({x} {r.choice(['//', '%'])} {r.randint(2, 5)})"
        if kind == 6:
            return f"a[({x}) % {LENGTH}]"
        if kind == 7:
            return f"{r.choice(['min', 'max'])}({x}, {y})"
        if kind == 8:
            return f"({x} if {self.condition(uniform, 0)} else {y})"
        if kind == 9:
            return f"twist({x}, {y})"
        return f"pick(a, {x})"

    def real(self, depth=2):
        r = self.r
        if depth == 0 or r.random() < 0.3:
            return r.choice(
                [f"float32({self.integer(depth=0)} % 8)", f"f[({self.integer(depth=1)}) % {LENGTH}]", *self.floats]
            )
        x, y = self.real(depth - 1), self.real(depth - 1)
        kind = r.randrange(4)
        if kind < 2:
            return f"({x} {r.choice('+-')} {y})"
        if kind == 2:
            return f"(float32({self.integer(depth=0)} % 4) * {y})"
        return f"{r.choice(['min', 'max'])}({x}, {y})"

    def condition(self, uniform=False, depth=1):
        r = self.r
        x, y = self.integer(uniform, 1), self.integer(uniform, 0)
        if depth and r.random() < 0.3:
            return f"({self.condition(uniform, 0)} {r.choice(['and', 'or'])} {self.condition(uniform, 0)})"
        if r.random() < 0.4 and not uniform:
            return f"{r.choice(['tx', 'lane', 'i'])} {r.choice(['<', '<=', '>', '>=', '=='])} {y}"
        return f"{x} % {r.randint(2, 4)} {r.choice(['==', '!=', '<', '>'])} {r.randint(0, 2)}"

    # ---- statements
    def add(self, indent, text):
        self.lines.append("    " * indent + text)

    def name(self, prefix):
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def assignment(self, indent, uniform, new=True):
        r = self.r
        if r.random() < 0.35 and not uniform:
            value = f"min(max({self.real()}, float32(-64)), float32(64))"
            old = [n for n in self.floats if n not in self.uniform]
            name = r.choice(old) if old and (not new or r.random() < 0.6) else None
            if name is None and not new:
                return
            if name is None:
                name = self.name("u")
                self.add(indent, f"{name} = {value}")
                self.floats.append(name)
            else:
                self.add(indent, f"{name} = {value}")
            return
        value = f"({self.integer(uniform)}) % 101"
        old = [n for n in self.ints if (n in self.uniform) == uniform and n[0] == "v" and n not in self.frozen]
        if old and (not new or r.random() < 0.6):
            name = r.choice(old)
            if r.random() < 0.4:
                self.add(indent, f"{name} += {self.integer(uniform, 1)} % 13")
                self.add(indent, f"{name} = {name} % 101")
            else:
                self.add(indent, f"{name} = {value}")
        elif new:
            name = self.name("v")
            self.add(indent, f"{name} = {value}")
            self.ints.append(name)
            if uniform:
                self.uniform.append(name)

    def body(self, indent, count, depth, uniform, level):
        """`level`: True where all threads of the block come together, so that barriers may stand."""
        for _ in range(count):
            self.statement(indent, depth, uniform, level)

    def statement(self, indent, depth, uniform, level):
        kind = self.r.randrange(14)
        new = indent == 1
        if kind < 4 or depth == 0:
            self.assignment(indent, level and self.r.random() < 0.3, new)
        elif kind < 6:
            self.branch(indent, depth, level)
        elif kind < 8:
            self.counted(indent, depth, level)
        elif kind == 8:
            self.loop_while(indent, depth, level)
        elif kind == 9:
            self.add(
                indent, f"cuda.atomic.{self.atomic}(hist, {self.integer(depth=1)} % 4, {self.integer(depth=0)} % 9)"
            )
        elif kind == 10:
            self.add(indent, f"out[i] = out[i] + {self.integer()} % 17")
        elif kind == 11:
            self.local(indent)
        elif level:
            self.exchange(indent)
        else:
            self.assignment(indent, False, new)

    def branch(self, indent, depth, level):
        even = level and self.r.random() < 0.5
        self.add(indent, f"if {self.condition(even)}:")
        self.inside(indent, depth, even)
        if self.r.random() < 0.5:
            self.add(indent, "else:")
            self.inside(indent, depth, even)

    def inside(self, indent, depth, level, extra=()):
        kept = list(self.ints), list(self.floats), list(self.uniform), list(self.frozen)
        self.ints += list(extra)
        if not level:
            self.frozen = self.frozen + self.uniform
            self.uniform = [n for n in self.uniform if n in extra]
        start = len(self.lines)
        self.body(indent + 1, self.r.randint(1, 3), depth - 1, False, level)
        if len(self.lines) == start:
            self.add(indent + 1, "pass")
        self.ints, self.floats, self.uniform, self.frozen = kept

    def counted(self, indent, depth, level):
        r = self.r
        even = level and r.random() < 0.6
        j = self.name("j")
        if r.random() < 0.3:
            x = self.shape[0]
            head, even = f"range(tx, {r.randint(3, 20)}, {x})", False
        elif even:
            head = f"range({r.choice(['3', f'({self.integer(True, 1)}) % 4', '1, 4', '0, 6, 2', '4, 0, -1'])})"
        else:
            ends = [f"({self.integer(depth=1)}) % 4", "2", f"lane % 3, {r.randint(2, 5)}", "5, lane % 4, -2"]
            head = f"range({r.choice(ends)})"
        self.add(indent, f"for {j} in {head}:")
        self.inside_loop(indent, depth, even, j)

    def inside_loop(self, indent, depth, even, j):
        if even and j:
            self.uniform.append(j)
        self.inside(indent, depth, even, [j] if j else [])
        if j in self.uniform:
            self.uniform.remove(j)
        if self.r.random() < 0.25:
            self.add(indent + 1, f"if {self.condition(even)}:")
            self.add(indent + 2, self.r.choice(["break", "continue"]) if j else "break")

    def loop_while(self, indent, depth, level):
        even = level and self.r.random() < 0.5
        w = self.name("w")
        self.add(indent, f"{w} = ({self.integer(even, 1)}) % 4")
        self.add(indent, f"while {w} > 0:")
        self.add(indent + 1, f"{w} -= 1")
        if even:
            self.uniform.append(w)
        self.inside(indent, depth, even, [])
        if w in self.uniform:
            self.uniform.remove(w)

    def local(self, indent):
        j = self.name("j")
        self.add(indent, f"for {j} in range(4):")
        self.add(indent + 1, f"loc[{j}] = ({self.integer(depth=1)} + {j}) % 23")
        k = self.name("j")
        self.add(indent, f"for {k} in range(4):")
        self.add(indent + 1, f"loc[{k}] += loc[({k} + {self.integer(depth=0)}) % 4] % 7")
        self.add(indent, f"out[i] += loc[{self.r.randint(0, 3)}]")

    def exchange(self, indent):
        """Write one element of shared memory each, meet, read those of others, meet again."""
        n = self.threads
        self.add(indent, f"sh[(lane + {self.r.randint(0, n)}) % {n}] = {self.integer()} % 50")
        self.add(indent, "cuda.syncthreads()")
        self.add(indent, f"out[i] += sh[({self.integer(depth=1)}) % {n}]")
        if self.r.random() < 0.4:
            self.add(indent, f"if lane < {self.r.randint(1, n)}:")
            self.add(indent + 1, f"fout[i] += float32(sh[({self.integer(depth=1)}) % {n}] % 8)")
        self.add(indent, "cuda.syncthreads()")

    def text(self, name):
        x, y, _ = self.shape
        self.add(0, "@kernel")
        self.add(0, f"def {name}(a, f, out, fout, hist, n):")
        self.add(1, f"sh = cuda.shared.array({self.threads}, int64)")
        self.add(1, "loc = cuda.local.array(4, int64)")
        self.add(1, "tx = cuda.threadIdx.x")
        self.add(1, "bx = cuda.blockIdx.x")
        self.add(1, f"lane = tx + {x} * (cuda.threadIdx.y + {y} * cuda.threadIdx.z)")
        self.add(1, f"i = bx * {self.threads} + lane")
        early = self.r.random() < 0.2
        if early:
            self.add(1, f"if i >= {self.threads + self.threads // 2}:")
            self.add(2, "return")
        self.body(1, self.r.randint(3, 6), 3, False, not early)
        for v in self.ints:
            self.add(1, f"out[i] = (out[i] * 3 + {v}) % 10007")
        for v in self.floats:
            self.add(1, f"fout[i] += {v}")
        return "\n".join(self.lines) + "\n"


def module(seeds):
    """The text of a module with a kernel k<seed> for every seed, and their blocks."""
    header = HEADER.format(size=4, shift=3, length=LENGTH)
    made = {seed: Generator(seed) for seed in seeds}
    texts = [g.text(f"k{seed}") for seed, g in made.items()]
    return header + "\n\n".join(texts), {seed: g.block for seed, g in made.items()}
