"""What an exercise is made of. `andrea_lab/lesson/exercises/__init__.py` tells how to write one.

The solution is a real kernel; the skeleton is the solution with its marked gaps emptied, and a known wrong solution is
the solution with a line changed. So none of the three can drift away from the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from andrea_lab.lesson import origin

GAP = re.compile(r"^(\s*)# yours: \S")
END = re.compile(r"^\s*# end$")


class ExerciseError(ValueError):
    """An exercise file that breaks the format. The message is one line."""


@dataclass(frozen=True)
class Wrong:
    """A known wrong solution, and the reason with which `lesson.check` must turn it down.

    edits: pairs (old, new) or triples (old, new, nth): the nth occurrence of `old` in the solution's text becomes
    `new`. Without a number `old` must occur once. `without(line)` writes the pair that takes a line away.
    kernel: the whole kernel instead, where an edit would not do.
    """

    reason: str
    edits: tuple[tuple, ...] = ()
    kernel: Any = None


@dataclass(frozen=True)
class Mistake:
    """A formula that learners write in place of the right one.

    twin: a function of the case that gives {output: float64 array}, what the mistaken kernel computes. If the kernel
    found exactly that, its verdict is `reason` and the line `says`.
    """

    reason: str
    says: str
    twin: Callable[[Any], dict[str, Any]]


def without(line: str, nth: int | None = None) -> tuple:
    """The edit that takes a line away: `pass` stands in its place."""
    return (line, "pass") if nth is None else (line, "pass", nth)


@dataclass(frozen=True)
class Exercise:
    """One exercise. `id` is the name of its file and what `lesson.check(id, kernel)` is called with.

    notebook: the number of the notebook it stands in.       title: a few words, for the score card.
    statement: Markdown; stands word for word in the notebook, above the skeleton.
    solution: a kernel under @kernel with one or more gaps, each between a line `# yours: what, about so many lines` and
    a line `# end`.
    hints: three, from a nudge to nearly the code.           explanation: Markdown, under the folded solution.
    wrong: known wrong solutions. mistakes: formulas that deserve a message of their own.
    kernel: the shipped kernel whose cases judge this one; by default the one called `id`.
    launch: where the learner's kernel is launched otherwise than the shipped one: a function of the case that gives
    (grid, block).
    cases: for a kernel that no shipped one resembles: a function of the seed that gives the list of cases.
    """

    id: str
    notebook: int
    title: str
    statement: str
    solution: Any
    hints: tuple[str, str, str]
    explanation: str
    wrong: tuple[Wrong, ...]
    mistakes: tuple[Mistake, ...] = ()
    kernel: str = ""
    launch: Callable[[Any], tuple[Any, Any]] | None = None
    cases: Callable[[int], list] | None = None

    @property
    def judge(self) -> str:
        """The shipped kernel whose cases judge this one."""
        return self.kernel or self.id

    @cached_property
    def text(self) -> str:
        """The solution's source text, decorator included, without the marks of its gaps."""
        lines = origin.text_of(self.solution).rstrip("\n").split("\n")
        return "\n".join(line for line in lines if not GAP.match(line) and not END.match(line))

    @cached_property
    def skeleton(self) -> str:
        """What the learner starts from: the solution with `...` in place of each gap. Raises ExerciseError."""
        found, inside = [], False
        for line in origin.text_of(self.solution).rstrip("\n").split("\n"):
            if gap := GAP.match(line):
                if inside:
                    raise ExerciseError(f"{self.id}: a gap begins before the last one ended: {line.strip()}")
                inside = True
                found += [line, f"{gap[1]}..."]
            elif END.match(line):
                if not inside:
                    raise ExerciseError(f"{self.id}: '# end' without '# yours: ...' before it")
                inside = False
            elif not inside:
                found.append(line)
        if inside or not any(GAP.match(line) for line in found):
            raise ExerciseError(f"{self.id}: expected gaps from '# yours: ...' to '# end' in the solution")
        return "\n".join(found)

    def wrong_kernel(self, wrong: Wrong):
        """A known wrong solution as a kernel. Raises ExerciseError when an edit does not fit the solution's text."""
        if wrong.kernel is not None:
            return wrong.kernel
        text = origin.text_of(self.solution)
        for old, new, *nth in wrong.edits:
            text = replaced(self.id, text, old, new, *nth)
        return origin.variant(self.solution, text)


def replaced(where: str, text: str, old: str, new: str, nth: int | None = None) -> str:
    """`text` with the nth `old` changed to `new`; without nth there must be exactly one. Raises ExerciseError."""
    count = text.count(old)
    if count == 0 or (nth is None and count > 1) or (nth is not None and not 1 <= nth <= count):
        wanted = "exactly one" if nth is None else f"number {nth}"
        raise ExerciseError(f"{where}: an edit expects {wanted} {old!r} in the solution, found {count}")
    at = -1
    for _ in range(nth or 1):
        at = text.index(old, at + 1)
    return text[:at] + new + text[at + len(old) :]
