"""Agreement and exercises: what they print, what they refuse, that an exercise never blocks."""

import numpy as np
import pytest

from andrea_lab.lesson import CheckFailed, agree, exercise, relative_error

HERE = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_check_prints_one_line_of_fixed_width_without_measured_digits(capsys):
    agree("layer norm: out", HERE * np.float32(1.000001), HERE, tol=1e-5)
    agree("shape", (2, 3), (2, 3))
    first, second = capsys.readouterr().out.splitlines()
    assert first == "layer norm: out".ljust(58) + "within 1e-05  ok"
    assert second == "shape".ljust(58) + "equal         ok"


def test_a_failed_check_names_place_found_and_expected():
    wrong = HERE.copy()
    wrong[1, 2] = 9
    with pytest.raises(CheckFailed, match=r"^embed: found 9 at \[1, 2\], expected 5 \(relative error 5\.4e-01\)$"):
        agree("embed", wrong, HERE, tol=1e-5)


@pytest.mark.parametrize("found", [HERE.T, HERE[:1], 1.0])
def test_a_check_refuses_another_shape(found):
    with pytest.raises(CheckFailed, match=r"found shape .*, expected \(2, 3\)"):
        agree("x", found, HERE, tol=1.0)


@pytest.mark.parametrize("tol", [0.0, 1e-3])
def test_a_check_refuses_nan(tol):
    wrong = HERE.copy()
    wrong[0, 1] = np.nan
    with pytest.raises(CheckFailed, match=r"found nan at \[0, 1\]"):
        agree("x", wrong, HERE, tol=tol)


def test_equality_is_of_type_and_value():
    agree("x", np.bool_(True), True)
    with pytest.raises(CheckFailed, match="found 'a', expected 'b'"):
        agree("x", "a", "b")
    with pytest.raises(CheckFailed, match="found 1, expected True"):
        agree("x", 1, True)


def test_relative_error_of_a_zero_reference_is_the_norm():
    assert relative_error(np.array([3.0, 4.0]), np.zeros(2)) == 5.0


def judged(capsys, *args, **kwargs):
    assert exercise(*args, **kwargs) is None
    return capsys.readouterr().out.rstrip("\n")[58:]


def test_an_exercise_left_alone_is_not_attempted(capsys):
    def answer():
        pass

    def dots():
        return ...

    for attempt in (None, ..., answer, dots):
        assert judged(capsys, "1.1", attempt, 3) == "not attempted"
    assert judged(capsys, "1.1", np.zeros(3), np.ones(3), blank=np.zeros(3)) == "not attempted"


def test_an_exercise_tells_right_from_wrong_without_the_answer(capsys):
    assert judged(capsys, "1.1", 3, 3) == "right"
    assert judged(capsys, "1.1", lambda: 3.0000001, 3, tol=1e-5) == "right"
    line = judged(capsys, "1.1", 4, 3, hint="count both")
    assert line == "not yet       found 4, which is not it (relative error 3.3e-01). count both"
    line = judged(capsys, "1.1", "maybe", 3)
    assert line == "not yet       found 'maybe', expected numbers"


def test_an_exercise_survives_whatever_the_attempt_raises(capsys):
    def broken():
        raise RuntimeError("first line\nsecond line")

    assert judged(capsys, "1.1", broken, 3) == "not yet       RuntimeError: first line"
