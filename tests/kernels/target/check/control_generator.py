"""Random kernels of pure control flow: ifs, loops, breaks, returns, short circuits, conditional expressions, devices.

Every thread works on its own element, so the result must be that of plain Python, one thread after the other.
"""

import random

THREADS = 37
HEADER = """def left(p, q):
    if p > q:
        return p - q
    return q - 2 * p


def middle(p, q):
    total = 0
    for k in range(4):
        if k == q % 4:
            continue
        if k > p % 5:
            break
        total += left(k, p) % 7
    else:
        return total + 100
    return total


def right(p, q):
    while p > 0:
        p -= 3
        if p == q % 6:
            return p * 10
    return q
"""


class Writer:
    """Writes one kernel; the same seed writes the same text."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.loops = 0
        self.lines: list[str] = []

    def pick(self, *choices):
        return self.draw.choice(choices)

    def chance(self, percent: int) -> bool:
        return self.draw.randrange(100) < percent

    def number(self, depth: int) -> str:
        """An integer expression."""
        if depth == 0 or self.chance(25):
            return self.pick("a", "b", "c", "i", "x[i]", "y[i]", str(self.draw.randint(-4, 9)))
        one, two = self.number(depth - 1), self.number(depth - 1)
        return self.pick(
            f"({one} {self.pick('+', '-', '*')} {two})",
            f"({one} {self.pick('//', '%')} {self.draw.randint(2, 6)})",
            f"({one} {self.pick('&', '|', '^')} {two})",
            f"({one} if {self.truth(depth - 1)} else {two})",
            f"{self.pick('min', 'max')}({one}, {two})",
            f"{self.pick('left', 'middle', 'right')}({one} % 50, {two} % 50)",
            f"abs({one})",
        )

    def truth(self, depth: int) -> str:
        """A condition; the later parts of a short circuit may be illegal without the earlier ones."""
        test = f"{self.number(max(depth, 0))} {self.pick('<', '>', '<=', '>=', '==', '!=')} {self.number(0)}"
        return self.pick(
            test,
            test,
            f"({test} and {self.number(1)} > 0)",
            f"({test} or not {self.number(0)})",
            f"not ({test})",
            f"(i > 0 and x[i - 1] {self.pick('<', '>')} {self.number(0)})",
            f"(i + 1 >= x.size or x[i + 1] != {self.number(0)})",
            f"{self.draw.randint(-3, 3)} < {self.number(0)} <= {self.number(0)}",
        )

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def block(self, indent: int, depth: int, looping: bool) -> None:
        for _ in range(self.draw.randint(1, 4)):
            self.statement(indent, depth, looping)

    def statement(self, indent: int, depth: int, looping: bool) -> None:
        kind = self.draw.randrange(100)
        if kind < 30 or depth == 0:
            self.put(indent, f"{self.pick('a', 'b', 'c')} = {self.number(2)} % 1000")
        elif kind < 40:
            self.put(indent, f"y[i] {self.pick('=', '+=', '-=')} {self.number(1)} % 1000")
        elif kind < 62:
            self.branch(indent, depth, looping)
        elif kind < 75:
            self.count(indent, depth)
        elif kind < 85:
            self.until(indent, depth)
        elif kind < 94 and looping:
            self.put(indent, f"if {self.truth(1)}:")
            self.put(indent + 1, self.pick("break", "continue"))
        elif kind < 97:
            self.put(indent, f"if {self.truth(1)}:")
            self.put(indent + 1, "return")
        else:
            self.put(indent, "a, b, c = b, c, (a + b) % 1000")

    def branch(self, indent: int, depth: int, looping: bool) -> None:
        self.put(indent, f"if {self.truth(1)}:")
        self.block(indent + 1, depth - 1, looping)
        if self.chance(30):
            self.put(indent, f"elif {self.truth(1)}:")
            self.block(indent + 1, depth - 1, looping)
        if self.chance(50):
            self.put(indent, "else:")
            self.block(indent + 1, depth - 1, looping)

    def count(self, indent: int, depth: int) -> None:
        self.loops += 1
        k = f"k{self.loops}"
        bounds = self.pick("3", "i % 4", "1, i % 5, 2", "6, i % 3, -2", "c % 4", "0", "x[i] % 3, 5", "2, 2")
        self.put(indent, f"for {k} in range({bounds}):")
        self.put(indent + 1, f"c = (c * 3 + {k}) % 1000")
        self.block(indent + 1, depth - 1, True)

    def until(self, indent: int, depth: int) -> None:
        self.loops += 1
        w = f"w{self.loops}"
        self.put(indent, f"{w} = {self.pick('0', 'i % 3')}")
        self.put(indent, f"while {w} < {self.pick('3', 'i % 5', 'a % 4')}{self.pick('', ' and b != 17')}:")
        self.put(indent + 1, f"{w} += 1")
        self.block(indent + 1, depth - 1, True)


def program(seed: int) -> tuple[str, str]:
    """(the kernel, the same as a plain function of the thread's number)."""
    writer = Writer(seed)
    writer.block(1, 3, False)
    end = ["    y[i] += a + 7 * b + 31 * c"]
    body = "\n".join(["    a, b, c = i, x[i], 1", *writer.lines, *end]) + "\n"
    devices = HEADER.replace("def ", "@cuda.jit(device=True)\ndef ")
    kernel = f"{devices}\n\ndef kernel(x, y):\n    i = cuda.grid(1)\n    if i >= x.size:\n        return\n{body}"
    return kernel, f"{HEADER}\n\ndef kernel(x, y, i):\n{body}"
