"""Every mutant of every shipped kernel and of the device functions that kernels call."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from andrea_lab.lesson.cases import case_names
from andrea_lab.lesson.mutants.changes import bare, changed, edits
from andrea_lab.rng import rng
from kernels.pairs import KERNELS
from kernels.target import Device
from kernels.target.source import Source


@dataclass(frozen=True)
class Mutant:
    """One kernel or device function with one thing wrong.

    subject: its name. cls: the class of the change. line: where, in the file of the subject. what: what is different;
    nth: how many of the same `what` stand before it. number: its place in the list of the subject's changes.
    """

    subject: str
    cls: str
    line: int
    what: str
    nth: int
    number: int

    @property
    def text(self) -> str:
        """The function, changed."""
        source = source_of(self.subject)
        return changed(source.tree, source.lookup, self.number)

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What names it whatever the lines of its file are."""
        return self.subject, self.cls, self.what, self.nth

    def __str__(self) -> str:
        return f"{self.subject}, line {self.line}: {self.what} ({self.cls})"


@functools.cache
def subjects() -> dict[str, tuple[str, ...]]:
    """Subject -> the kernels that it is tried through: a kernel itself, or those that call a device function."""
    found = {name: (name,) for name in case_names()}
    for name in case_names():
        for called in devices(name):
            found[called.name] = (*found.get(called.name, ()), name)
    return found


def devices(kernel: str) -> list[Device]:
    """The device functions that a kernel calls."""
    source = KERNELS[kernel].kernel.source
    values = (source.lookup(chain[0]) for chain in source.chains())
    return [value for value in values if isinstance(value, Device)]


@functools.cache
def source_of(subject: str) -> Source:
    """The text and surroundings of a kernel or device function. Raises KeyError for an unknown name."""
    through = subjects()[subject][0]
    if through == subject:
        return KERNELS[subject].kernel.source
    return next(d for d in devices(through) if d.name == subject).source


@functools.cache
def mutants_of(subject: str) -> tuple[Mutant, ...]:
    """Every mutant of a subject, in the order of the changes."""
    source, counts, found = source_of(subject), {}, []
    for number, (cls, line, what) in enumerate(edits(source.tree, source.lookup)):
        nth = counts[cls, what] = counts.get((cls, what), -1) + 1
        found.append(Mutant(subject, cls, line, what, nth, number))
    return tuple(found)


def bank(kernel: str | None = None, cls: str | None = None) -> list[Mutant]:
    """All mutants, or those of one subject, or of one class."""
    names = subjects() if kernel is None else [kernel]
    return [m for name in names for m in mutants_of(name) if cls in (None, m.cls)]


def sample(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """`count` of them, drawn from the seed, in their order."""
    chosen = rng(seed, "lesson.mutants").permutation(len(mutants))[:count]
    return [mutants[i] for i in sorted(chosen.tolist())]


# ---------------------------------------------------------------- from text to a kernel


def build(mutant: Mutant, kernel: str, form: dict[str, int]) -> Callable[..., None]:
    """The kernel as a plain function, itself changed or calling a changed device function, for one of its forms."""
    source = KERNELS[kernel].kernel.source
    names = source.env() | form
    if mutant.subject == kernel:
        return define(mutant.text, names)
    names[mutant.subject] = Device(define(mutant.text, source_of(mutant.subject).env()))
    return define(original(kernel), names)


@functools.cache
def original(subject: str) -> str:
    """The text of a subject as the mutants have it: no decorator, no docstring."""
    return ast.unparse(bare(source_of(subject).tree))


@functools.cache
def _file(text: str) -> str:
    """A name under which `text` is to be found as a file is, so that errors can show its lines."""
    name = f"<mutant {len(linecache.cache)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return name


def define(text: str, names: dict[str, Any]) -> Callable[..., None]:
    """The function that `text` defines, with its own copy of these outside names."""
    names = dict(names) | {"__name__": "andrea_lab.lesson.mutants.made"}
    exec(compile(text, _file(text), "exec"), names)
    return names[text[4 : text.index("(")]]
