"""Every exercise keeps the format: its solution passes, its wrong solutions are turned down with their reason, its
skeleton is no solution, and its notebook holds what it should."""

import ast
import re

import nbformat
import pytest

from andrea_lab import lesson
from andrea_lab.lesson import attempt, origin, reasons
from andrea_lab.lesson.cases import case_names
from andrea_lab.lesson.exercises import CATALOGUE, MODULES
from andrea_lab.lesson.judge import task_of
from andrea_lab.paths import ROOT

EXERCISES = list(CATALOGUE.values())
WRONG = [(e, n) for e in EXERCISES for n in range(len(e.wrong))]
NOTEBOOKS = {int(path.name[:2]): path for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))}
CALLS = re.compile(r"lesson\.(?:check|hint|solution|skeleton|go_on_with|ours|start)\(\s*\"([^\"]+)\"")
each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)


def cells(notebook, kind):
    return [cell.source for cell in nbformat.read(NOTEBOOKS[notebook], as_version=4).cells if cell.cell_type == kind]


def words(text):
    return " ".join(text.split())


@pytest.mark.timeout(120)
@each
def test_the_solution_passes(exercise):
    result = lesson.check(exercise.id, exercise.solution)
    assert result.passed, repr(result)
    assert (result.reason, len(result.lines)) == ("passed", 3)


@pytest.mark.parametrize("exercise, number", WRONG, ids=[f"{e.id}-{n}-{e.wrong[n].reason}" for e, n in WRONG])
def test_a_wrong_solution_is_turned_down_with_its_reason(exercise, number):
    wrong = exercise.wrong[number]
    result = lesson.check(exercise.id, exercise.wrong_kernel(wrong), compiled=False)
    assert not result.passed and result.reason == wrong.reason, repr(result)
    assert 3 <= len(result.lines) <= 5 and max(map(len, result.lines)) <= 160


@each
def test_the_skeleton_is_not_attempted_and_holds_no_solution(exercise):
    assert lesson.check(exercise.id, exercise.skeleton).reason == "not attempted"
    assert lesson.check(exercise.id, origin.variant(exercise.solution, exercise.skeleton)).reason == "not attempted"
    assert exercise.skeleton != exercise.text
    assert attempt.unfinished(ast.parse(exercise.skeleton).body[0])
    assert exercise.solution.name.startswith("my_")


@each
def test_the_form_is_whole(exercise):
    assert exercise.id in {module.__name__.rpartition(".")[2] for module in MODULES}
    assert len(exercise.hints) == 3 and len(set(exercise.hints)) == 3
    assert all(text.strip() for text in (exercise.title, exercise.statement, exercise.explanation, *exercise.hints))
    assert len(exercise.title) <= 50
    assert len(exercise.wrong) >= 3
    known = {*reasons.SAYS, *(mistake.reason for mistake in exercise.mistakes)}
    assert {wrong.reason for wrong in exercise.wrong} <= known
    assert exercise.cases or exercise.judge in case_names()
    assert len(task_of(exercise.id).cases()) >= 3
    origin.packed(exercise.solution)


@each
def test_the_notebook_holds_the_exercise(exercise):
    assert exercise.notebook in NOTEBOOKS, f"no notebook {exercise.notebook:02d}"
    code = cells(exercise.notebook, "code")
    assert any(exercise.skeleton in source for source in code), "the skeleton, word for word, in a cell"
    assert any(exercise.id in CALLS.findall(source) for source in code), "a cell that calls lesson.check with its id"
    prose = words("\n".join(cells(exercise.notebook, "markdown")))
    assert words(exercise.statement) in prose, "the statement, word for word"
    assert not any(words(exercise.text) in words(source) for source in code), "the solution stands in no cell"


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_a_notebook_names_only_exercises_there_are(number):
    named = {name for source in cells(number, "code") for name in CALLS.findall(source)}
    assert named <= {*CATALOGUE, *case_names()}
    assert {name for name in named if name in CATALOGUE} <= {e.id for e in EXERCISES if e.notebook <= number}
