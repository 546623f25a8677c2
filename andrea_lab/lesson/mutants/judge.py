"""Whether what a learner's kernel meets tells a mutant from a right kernel.

First the check target on every case, then, for what passed it, the same cases compiled: an index beyond an array never
reaches compiled code, where it would change whatever lies there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from andrea_lab.lesson.cases import Case, case_list
from andrea_lab.lesson.mutants.bank import Mutant, build, define, original, subjects
from kernels import target
from kernels.pairs import KERNELS
from kernels.target.check import check

INPUTS = 200  # random inputs of a proof


@dataclass(frozen=True)
class Verdict:
    """killed, by what, and in which case: a kind of fault, "values", "float64", "traffic", "refused", "compiled".

    Not killed: by is empty, or "time" or "crash" where the process gave no answer.
    """

    killed: bool
    by: str = ""
    case: str = ""


def judge(mutant: Mutant) -> Verdict:
    """Run a mutant until something is wrong with it. A compiled run may crash: call it in a process of its own."""
    made: dict = {}
    for case in trials(mutant):
        by = interpreted(_kernel(made, mutant, case), case)
        if by:
            return Verdict(True, by, f"{case.kernel}, {case.label}")
    for case in trials(mutant):
        by = compiled(_kernel(made, mutant, case), case)
        if by:
            return Verdict(True, by, f"{case.kernel}, {case.label}")
    return Verdict(False)


def trials(mutant: Mutant, seed: int = 0) -> Iterator[Case]:
    """The cases that a mutant is tried on, those of the kernel itself, or of each kernel that calls it."""
    for kernel in subjects()[mutant.subject]:
        yield from _cases(kernel, seed)


@functools.lru_cache(64)
def _cases(kernel: str, seed: int) -> list[Case]:
    return case_list(kernel, seed)


def _kernel(made: dict, mutant: Mutant, case: Case) -> Callable[..., None]:
    key = case.kernel, *case.form.items()
    if key not in made:
        made[key] = build(mutant, case.kernel, case.form)
    return made[key]


def interpreted(kernel: Callable[..., None], case: Case) -> str:
    """What is wrong with a kernel in a case on the check target, nothing if nothing is."""
    arrays = case.fresh()
    report = check(kernel, orders=0)[case.grid, case.block](*arrays)
    if report.faults:
        return report.faults[0].kind
    if case.wrong(arrays) is not None:
        return "values"
    if report.float64:
        return "float64"
    return "traffic" if case.excess(report.traffic) else ""


def compiled(kernel: Callable[..., None], case: Case) -> str:
    """As `interpreted`, on the cpu target."""
    try:
        arrays = launch(kernel, case)
    except target.KernelError:
        return "refused"
    return "" if case.wrong(arrays) is None else "compiled"


def launch(kernel: Callable[..., None], case: Case) -> list:
    """The arguments after a launch on the cpu target."""
    arrays = case.fresh()
    with target.use("cpu"):
        _on_target(kernel)[case.grid, case.block](*arrays)
    return arrays


@functools.lru_cache(16)
def _on_target(kernel: Callable[..., None]) -> target.Kernel:
    return target.kernel(kernel)


# ---------------------------------------------------------------- equivalents


def prove(mutant: Mutant, inputs: int = INPUTS) -> str:
    """What tells a mutant from its subject, nothing if there is nothing: bits of results, traffic in every case."""
    changed, kept = {}, {}
    for case in trials(mutant):
        counts = [_traffic(k, case) for k in (_kernel(changed, mutant, case), _original(kept, case))]
        if counts[0] != counts[1]:
            return f"traffic in {case.kernel}, {case.label}"
    done, seed = 0, 0
    while done < inputs:
        seed += 1
        for case in trials(mutant, seed):
            results = [launch(k, case) for k in (_kernel(changed, mutant, case), _original(kept, case))]
            if any(_bits(a) != _bits(b) for a, b in zip(*results, strict=True)):
                return f"bits in {case.kernel}, {case.label}, seed {seed}"
            done += 1
    return ""


def _original(made: dict, case: Case) -> Callable[..., None]:
    key = case.kernel, *case.form.items()
    if key not in made:
        made[key] = define(original(case.kernel), KERNELS[case.kernel].kernel.source.env() | case.form)
    return made[key]


def _bits(a) -> bytes:
    return a.tobytes() if isinstance(a, np.ndarray) else repr(a).encode()


def _traffic(kernel: Callable[..., None], case: Case) -> dict:
    """Reads, writes and atomics of every array."""
    report = check(kernel, orders=0)[case.grid, case.block](*case.fresh())
    return {name: (t.reads, t.writes, t.atomics) for name, t in report.traffic.arrays.items()}
