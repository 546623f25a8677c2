"""`check(name, kernel)`: a learner's kernel, judged in a few fixed lines.

First the check target runs it on small cases: every access is recorded, so that a race, a missing barrier or an index
beyond an array is seen whatever the numbers come out as. The numbers are compared with the float64 reference. Then the
cases that passed run compiled, in a process of their own with a time, a memory and a file-size limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from andrea_lab.lesson import arrays, faults, limits, origin, reasons, scorecard, values
from andrea_lab.lesson import attempt as attempts
from andrea_lab.lesson.attempt import Attempt, TurnedDown
from andrea_lab.lesson.cases import Case, case_list, case_names
from andrea_lab.lesson.exercises import CATALOGUE, UnknownExerciseError
from andrea_lab.lesson.parts import Exercise
from andrea_lab.lesson.values import arguments
from andrea_lab.progress import Advance, progress
from kernels.pairs import KERNELS
from kernels.target.check import check as checked
from kernels.target.check.places import where

ROUNDS = 5_000  # of one loop: far more than any case asks for


@dataclass(frozen=True)
class Result:
    """The verdict on a kernel. `lines` are what it prints: no time, no path, no digits that belong to one processor."""

    name: str
    passed: bool
    reason: str
    lines: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True)
class Task:
    """What a name given to `check` stands for: an exercise, or a shipped kernel to be written again."""

    name: str
    exercise: Exercise | None

    def cases(self, seed: int = 0) -> list[Case]:
        """The cases, small ones first."""
        if self.exercise is not None and self.exercise.cases is not None:
            return self.exercise.cases(seed)
        return case_list(self.judge, seed)

    def launch(self, case: Case) -> tuple[Any, Any]:
        """(grid, block) of a case."""
        if self.exercise is not None and self.exercise.launch is not None:
            return self.exercise.launch(case)
        return case.grid, case.block

    @property
    def judge(self) -> str:
        """The shipped kernel whose cases these are."""
        return self.exercise.judge if self.exercise is not None else self.name

    @property
    def skeleton(self) -> str | None:
        return self.exercise.skeleton if self.exercise is not None else None


def task_of(name: str) -> Task:
    """The task of that name. Raises UnknownExerciseError."""
    if name in CATALOGUE:
        return Task(name, CATALOGUE[name])
    if name in case_names():
        return Task(name, None)
    known = ", ".join(CATALOGUE)
    raise UnknownExerciseError(f"exercise: found {name!r}, expected the name of a shipped kernel or one of {known}")


def check(name: str, kernel: Any, *, seed: int = 0, compiled: bool = True, seconds: float = limits.SECONDS) -> Result:
    """Judge a kernel; nothing is raised, whatever the kernel does.

    name: an exercise, or a shipped kernel. kernel: what the learner wrote: a function under @kernel or @cuda.jit, a
    plain function, or its text. compiled: run it compiled too. seconds: the most the compiled run may take.
    Raises UnknownExerciseError for another name.
    """
    task = task_of(name)
    with progress(f"checking {name}", unit="cases") as advance:
        result = _result(task, kernel, seed, compiled, seconds, advance)
    if task.exercise is not None:
        scorecard.note(name, result.passed, result.reason)
    return result


def _result(task: Task, given: Any, seed: int, compiled: bool, seconds: float, advance: Advance) -> Result:
    try:
        if attempts.blank(given, task.skeleton):
            return Result(task.name, False, reasons.NOT_ATTEMPTED, (f"{task.name}: {reasons.NOT_ATTEMPTED}",))
        return _judge(task, given, seed, compiled, seconds, advance)
    except TurnedDown as found:
        down = found
    except Exception as error:  # a notebook must live through whatever it is given
        down = TurnedDown("error", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    head = f"{task.name}: not yet: {down.reason}"
    return Result(task.name, False, down.reason, (head, *(f"  {line}" for line in down.lines)))


def _judge(task: Task, given: Any, seed: int, compiled: bool, seconds: float, advance: Advance) -> Result:
    attempt = Attempt(given)
    if line := attempts.unfinished(attempt.tree):
        place = where(attempt.fn.__code__.co_filename, line)
        raise TurnedDown(reasons.UNFINISHED, f"{place}: {reasons.SAYS[reasons.UNFINISHED]}")
    cases = task.cases(seed)
    _signature(attempt, cases[0])
    packed = attempt.packed()
    cases = [case for case in cases if _suits(task, attempt, case)]
    advance.total = len(cases) + compiled
    _interpret(task, attempt, cases, advance)
    if compiled:
        advance(0, "compiled, in a process of its own")
        _compile(task, attempt, packed, cases, seconds)
    lines = [f"{task.name}: passed", f"  on the check target, without a fault: {_named(cases)}"]
    if compiled:
        lines.append(f"  and compiled; within {max(c.tol for c in cases):.0e} of the float64 reference")
    return Result(task.name, True, reasons.PASSED, tuple(lines))


def _signature(attempt: Attempt, case: Case) -> None:
    found, expected = attempt.parameters, list(case.arguments)
    if len(found) != len(expected):
        raise TurnedDown(
            "signature",
            f"{attempt.fn.__name__} takes {len(found)} argument{'s' * (len(found) != 1)} ({', '.join(found)}),",
            f"expected {len(expected)} ({', '.join(expected)})",
        )


def _suits(task: Task, attempt: Attempt, case: Case) -> bool:
    """False for a case of another form: a kernel whose constant says 4 columns runs no heads of 32.

    A case with a form of its own suits a kernel that can be given these constants: one that knows them by the names
    of the shipped kernel, and has no further ones, which might have been computed from them.
    """
    fixed = attempt.constants()
    if case.form:
        names = {*case.form, *origin.free(KERNELS[task.judge])} if task.judge in KERNELS else set(case.form)
        return bool(fixed.keys() & case.form) and fixed.keys() <= names
    return all(fixed[name] == size for name, size in case.sizes.items() if name in fixed and name not in case.arguments)


def _named(cases: list[Case]) -> str:
    return ", ".join(case.label for case in cases) or "none"


def _case(case: Case) -> str:
    """A case as a line names it: its sizes, and its label where that says more."""
    sizes = " ".join(f"{name}={value}" for name, value in case.sizes.items())
    return f"{sizes} ({case.label})" if sizes else case.label


# ---------------------------------------------------------------- on the check target


def _interpret(task: Task, attempt: Attempt, cases: list[Case], advance: Advance) -> None:
    """Run every case on the check target. Raises TurnedDown with the first fault or the first wrong value."""
    passed: list[Case] = []
    wrong: list[tuple[Case, Any, list[values.Scene]]] = []
    reports = []
    for case in cases:
        found = arguments(case)
        grid, block = task.launch(case)
        report = checked(attempt.formed(case.form), orders=0, budget=ROUNDS)[grid, block](*found)
        if report.faults:
            if wrong:
                break  # the wrong values came first
            _fault(report.faults[0], attempt, case, passed)
        first = case.wrong(found)
        if first is None:
            passed.append(case)
            reports.append((case, report))
        else:
            wrong.append((case, first, _scene(case, block, first, found, attempt, report)))
        advance()
    if wrong:
        _wrong_values(task, cases, passed, wrong)
    _habits(attempt, reports)


def _fault(fault: Any, attempt: Attempt, case: Case, passed: list[Case]) -> None:
    reason = faults.reason(fault, attempt.tree, case)
    lines = [f"passed: {_named(passed)}"] if reason not in ("unsupported", "error") else []
    place = where(fault.file, fault.line) + (f": {fault.source.strip()}" if fault.source else "")
    lines += [f"first failing: {_case(case)}, {place}", f"{fault.message}", f"likely cause: {reasons.SAYS[reason]}"]
    raise TurnedDown(reason, *lines)


def _scene(case, block, first, found, attempt, report) -> values.Scene | None:
    """The first wrong output, None where an input was written to."""
    if first.array not in case.expected:
        return None
    place = list(case.arguments).index(first.array)
    return values.Scene(case, block, first.array, found[place], attempt.tree, report.traffic)


def _wrong_values(task: Task, cases: list[Case], passed: list[Case], wrong: list) -> None:
    """Raise TurnedDown with the first wrong element and the likely cause."""
    case, first, _ = wrong[0]
    before = [c for c in passed if cases.index(c) < cases.index(case)]
    reason, says = _cause(task, cases, passed, wrong)
    lines = (
        f"passed: {_named(before)}",
        f"first failing: {_case(case)}, {_element(first)}",
        f"likely cause: {says}",
    )
    raise TurnedDown(reason, *lines)


def _element(first: Any) -> str:
    index = ", ".join(map(str, first.index))
    tail = f" ({first.count} wrong)" if first.count > 1 else ""
    for digits in range(3, 9):  # as many as it takes to tell them apart
        expected, found = f"{first.expected:.{digits}g}", f"{first.found:.{digits}g}"
        if expected != found:
            break
    return f"{first.array}[{index}]: expected {expected}, found {found}{tail}"


def _cause(task: Task, cases: list[Case], passed: list[Case], wrong: list) -> tuple[str, str]:
    """(reason, sentence): from the formulas the exercise knows, then from the failing case that tells most."""
    if all(scene is None for _, _, scene in wrong):
        return "input changed", reasons.SAYS["input changed"]
    for mistake in task.exercise.mistakes if task.exercise is not None else ():
        if all(scene is not None and _is(mistake.twin(case), scene) for case, _, scene in wrong):
            return mistake.reason, mistake.says
    scene = max((s for _, _, s in wrong if s is not None), key=values.tells)
    reason, more = values.cause(scene)
    if reason in values.VAGUE and _one_size(cases, passed, [case for case, _, _ in wrong]):
        reason, more = "some sizes only", ""
    return reason, _ended(reasons.SAYS[reason], more)


def _ended(sentence: str, more: str) -> str:
    return f"{sentence.rstrip('.')}{more}." if more else sentence


def _is(twin: dict[str, Any], scene: values.Scene) -> bool:
    """Whether a mistaken formula gives just what was found."""
    wanted = twin.get(scene.name)
    return wanted is not None and bool(values.fits(scene.found, wanted, scene.tol).all())


def _one_size(cases: list[Case], passed: list[Case], wrong: list[Case]) -> bool:
    """Some cases of more than one element pass, others that are no harder do not."""
    large = [case for case in passed if min((v for v in case.sizes.values() if isinstance(v, int)), default=1) > 1]
    return bool(large) and (
        any(not case.strong for case in wrong) or any(cases.index(c) > cases.index(wrong[0]) for c in large)
    )


def _habits(attempt: Attempt, reports: list) -> None:
    """What gives the right values and is still not right: float64, and more accesses than the case allows."""
    for case, report in reports:
        for line, name in report.float64:
            raise TurnedDown(
                "float64",
                f"{where(attempt.fn.__code__.co_filename, line)}: {name} is float64; the values are right",
                f"likely cause: {reasons.SAYS['float64']}",
            )
        if excess := case.excess(report.traffic):
            what, count, most = excess
            raise TurnedDown(
                "too much traffic",
                f"{_case(case)}: {count:,} {what}, expected at most {most:,}; the values are right",
                f"likely cause: {reasons.SAYS['too much traffic']}",
            )


# ---------------------------------------------------------------- compiled


def _compile(task: Task, attempt: Attempt, packed: dict, cases: list[Case], seconds: float) -> None:
    """Run the cases compiled, in a process of its own. Raises TurnedDown."""
    launches = [[*task.launch(case), arrays.packed(arguments(case)), case.form] for case in cases]
    try:
        found = limits.run({"kernel": packed, "launches": launches}, seconds)
    except limits.Ended as ended:
        raise TurnedDown(ended.reason, *_compiled(cases, reasons.SAYS[ended.reason])) from None
    if "refused" in found:
        said = _placed(found["refused"], attempt)
        raise TurnedDown("refused", *_compiled(cases, said), f"likely cause: {reasons.SAYS['refused']}")
    for case, results in zip(cases, found["results"], strict=True):
        wrong = case.wrong(arrays.unpacked(results))
        if wrong is not None:
            said = f"first failing, compiled: {_case(case)}, {_element(wrong)}"
            cause = f"likely cause: {reasons.SAYS['compiled differs']}"
            raise TurnedDown("compiled differs", *_compiled(cases, said), cause)


def _placed(message: str, attempt: Attempt) -> str:
    """A message of the other process, with the place in the learner's file or cell."""
    fn = attempt.fn

    def place(found: re.Match) -> str:
        line = int(found[2])
        return where(fn.__code__.co_filename, line) if found[1] == fn.__name__ else f"{found[1]}, line {line}"

    return re.sub(r"<(\w+) \d+>:(\d+)", place, message)


def _compiled(cases: list[Case], said: str) -> Iterator[str]:
    yield f"passed on the check target: {_named(cases)}"
    yield said
