"""What stands around an exercise in a notebook: skeleton, hints, the folded solution, the kernel to go on with."""

from __future__ import annotations

import html
import re
import textwrap
from pathlib import Path
from typing import Any

from andrea_lab.checkpoint.files import REAL, write_all
from andrea_lab.lesson import origin
from andrea_lab.lesson.exercises import find
from andrea_lab.lesson.judge import Result, check, task_of
from andrea_lab.lesson.scorecard import progress
from kernels.pairs import KERNELS

WIDTH = 100


class Text(str):
    """A text that a cell shows as it is, without quotes."""

    def __repr__(self) -> str:
        return str(self)


class Solution:
    """A solution, folded in a notebook; `text` is the code, `explanation` why it is so."""

    def __init__(self, name: str, text: str, explanation: str):
        self.name, self.text, self.explanation = name, text, explanation

    def __repr__(self) -> str:
        return f"solution of {self.name}: folded; print(lesson.solution({self.name!r}).text) unfolds it"

    def _repr_html_(self) -> str:
        code, prose = html.escape(self.text), re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(self.explanation))
        return f"<details><summary>Solution of {self.name}</summary><pre>{code}</pre><p>{prose}</p></details>"


def skeleton(name: str) -> Text:
    """What the learner starts from."""
    return Text(find(name).skeleton)


def hint(name: str, tier: int = 1) -> Text:
    """One of three hints: 1 is a nudge, 3 is nearly the code. Raises ValueError for another tier."""
    hints = find(name).hints
    if tier not in range(1, len(hints) + 1):
        raise ValueError(f"tier: found {tier!r}, expected 1 to {len(hints)}")
    return Text(textwrap.fill(f"hint {tier} of {len(hints)}: {hints[tier - 1]}", WIDTH))


def solution(name: str) -> Solution:
    """The solution with its explanation, folded."""
    exercise = find(name)
    return Solution(name, exercise.text, exercise.explanation)


def go_on_with(name: str, kernel: Any) -> Any:
    """The learner's kernel if it passes, else the package's, and one line that says which."""
    result = check(name, kernel)
    print(f"{result.lines[0]}; the notebook goes on with {'yours' if result.passed else 'the one of the package'}")
    return kernel if result.passed else ours(name)


def ours(name: str) -> Any:
    """The package's kernel for an exercise: the shipped one where it is launched the same way, else the solution."""
    exercise = task_of(name).exercise
    if exercise is not None and (exercise.id not in KERNELS or exercise.launch or exercise.cases):
        return exercise.solution
    return KERNELS[name]


def start(name: str, folder: str | Path = ".") -> Path:
    """Write the skeleton into a file of its own, and return its path. A file that is there already stays as it is."""
    exercise = find(name)
    path = Path(folder) / f"{name}.py"
    text = f"{origin.preamble(exercise.solution)}\n\n{exercise.skeleton}\n".encode()
    try:
        fd = REAL.create(path)
    except FileExistsError:
        print(f"{path.name} is there already and stays as it is")
        return path
    try:
        write_all(REAL, fd, memoryview(text))
    finally:
        REAL.close(fd)
    return path


__all__ = [
    "Result",
    "Solution",
    "Text",
    "check",
    "go_on_with",
    "hint",
    "ours",
    "progress",
    "skeleton",
    "solution",
    "start",
]
