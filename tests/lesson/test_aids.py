"""What stands around an exercise: skeleton, hints, folded solution, the kernel to go on with, a file of its own."""

import re

import pytest

from andrea_lab import lesson
from andrea_lab.lesson.exercises import CATALOGUE, UnknownExerciseError
from kernels.pairs import KERNELS

NAME = "k_layernorm_fwd"


def test_hints_are_three_and_show_without_quotes():
    shown = [repr(lesson.hint(NAME, tier)) for tier in (1, 2, 3)]
    assert [text.split(":")[0] for text in shown] == ["hint 1 of 3", "hint 2 of 3", "hint 3 of 3"]
    assert max(len(line) for text in shown for line in text.splitlines()) <= 100
    with pytest.raises(ValueError, match="^tier: found 4, expected 1 to 3$"):
        lesson.hint(NAME, 4)


def test_a_solution_is_folded_and_its_text_escaped():
    solution = lesson.solution(NAME)
    html = solution._repr_html_()
    assert html == lesson.solution(NAME)._repr_html_()
    assert html.startswith("<details><summary>") and html.endswith("</details>")
    assert "if tx &lt; s:" in html and "if tx < s:" not in html
    assert "<code>mu</code>" in html and "`" not in html
    assert "def my_layernorm_fwd" in solution.text and "# yours" not in solution.text
    assert "def " not in repr(solution) and "\n" not in repr(solution)


def test_an_unknown_name_is_one_line():
    for call in (lesson.hint, lesson.solution, lesson.skeleton, lambda n: lesson.check(n, None)):
        with pytest.raises(UnknownExerciseError) as caught:
            call("k_nothing")
        assert "\n" not in str(caught.value) and NAME in str(caught.value) and "'k_nothing'" in str(caught.value)


def test_the_notebook_goes_on_with_the_package_kernel(capsys):
    assert lesson.go_on_with(NAME, None) is KERNELS[NAME]
    assert capsys.readouterr().out == f"{NAME}: not attempted; the notebook goes on with the one of the package\n"


def test_the_notebook_goes_on_with_a_kernel_that_passes(capsys):
    mine = CATALOGUE[NAME].solution
    assert lesson.go_on_with(NAME, mine) is mine
    assert capsys.readouterr().out == f"{NAME}: passed; the notebook goes on with yours\n"


def test_an_exercise_launched_its_own_way_goes_on_with_its_solution():
    for exercise in CATALOGUE.values():
        if exercise.cases or exercise.launch or exercise.id not in KERNELS:
            assert lesson.ours(exercise.id) is exercise.solution


def test_a_skeleton_in_a_file_runs_and_is_never_overwritten(tmp_path, capsys):
    path = lesson.start(NAME, tmp_path)
    text = path.read_text()
    assert text.endswith(lesson.skeleton(NAME) + "\n") and re.match("import math\n", text)
    exec(compile(text, path.name, "exec"), {})
    assert lesson.check(NAME, path).reason == "not attempted"
    path.write_text(text + "# mine\n")
    assert lesson.start(NAME, tmp_path) == path and path.read_text().endswith("# mine\n")
    assert capsys.readouterr().out == f"{path.name} is there already and stays as it is\n"


def test_the_score_card_of_a_new_learner_is_empty():
    lines = repr(lesson.progress()).splitlines()
    assert lines[-1] == f"0 of {len(CATALOGUE)} passed"
    assert all(line.endswith("not attempted") for line in lines[:-1])


def test_the_score_card_remembers(score_card):
    lesson.check(NAME, "def k(a):\n    a[0] = 1\n")
    assert "not yet: signature" in repr(lesson.progress(notebook=4))
    lesson.check(NAME, CATALOGUE[NAME].solution, compiled=False)
    lesson.check(NAME, "def k(a):\n    a[0] = 1\n")
    row = next(line for line in repr(lesson.progress()).splitlines() if f"  {NAME} " in line)
    assert row.endswith("passed"), "what was passed once stays passed"
    assert [path.name for path in score_card.iterdir()] == [f"{NAME}.json"]


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", '{"passed": "yes"'])
def test_a_damaged_score_card_is_an_empty_one(score_card, text):
    score_card.mkdir()
    (score_card / f"{NAME}.json").write_text(text)
    assert repr(lesson.progress()).splitlines()[-1].startswith("0 of ")


def test_a_score_card_that_cannot_be_kept_stops_nothing(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ANDREA_PROGRESS", str(tmp_path / "file"))
    assert lesson.check(NAME, "def k(a):\n    a[0] = 1\n").reason == "signature"
    assert "set ANDREA_PROGRESS" in capsys.readouterr().out


def test_a_notebook_has_its_part_of_the_score_card():
    numbers = sorted({exercise.notebook for exercise in CATALOGUE.values()})
    whole = repr(lesson.progress()).splitlines()[:-1]
    assert [line for n in numbers for line in repr(lesson.progress(notebook=n)).splitlines()[:-1]] == whole
