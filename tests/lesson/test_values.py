"""What wrong numbers look like: each slip, made with NumPy, is told from the others."""

import ast

import numpy as np
import pytest

from andrea_lab.lesson import values
from andrea_lab.lesson.cases import Case
from andrea_lab.lesson.cases.case import Draw, poison

TREE = ast.parse("def k(inp, out, n):\n    out[0] = inp[0]\n").body[0]
WITH_EXP = ast.parse("def k(inp, out, n):\n    out[0] = math.exp(inp[0])\n").body[0]
DRAW = Draw(0, "test_values", "all")
WANTED = DRAW.normal(6, 40).astype(np.float64) + 0.5
NOISE = DRAW.normal(6, 40)


def case(adds=False, expected=WANTED, strong=False):
    before = NOISE if adds else poison(*expected.shape)
    held = NOISE + expected if adds else expected
    return Case("k", "odd", 6, 32, {"inp": NOISE, "out": before, "n": 6}, ("out",), {"out": held}, 1e-5, strong)


def cause(change, adds=False, tree=TREE, expected=WANTED):
    """The cause named for a change of what the launch added or wrote."""
    made = case(adds, expected)
    start = values.arguments(made)[1]
    found = np.asarray(change(start, expected), np.float32)
    return values.cause(values.Scene(made, made.block, "out", found, tree))


def first(count):
    def change(start, right):
        found = start.copy()
        found[:, :count] = right[:, :count] + (start[:, :count] if np.isfinite(start).all() else 0)
        return found

    return change


@pytest.mark.parametrize(
    "reason, adds, change",
    [
        ("never written", False, lambda start, right: start),
        ("never written", True, lambda start, right: start),
        ("only the first items", False, first(32)),
        ("only the first items", True, first(32)),
        ("forgot +=", True, lambda start, right: right),
        ("added twice", True, lambda start, right: start + 2 * right),
        ("wrong axis", False, lambda start, right: right.T.reshape(right.shape)),
        ("sign", False, lambda start, right: -right),
        ("wrong constant", False, lambda start, right: 0.5 * right),
        ("wrong constant", True, lambda start, right: start + 0.5 * right),
        ("missing term", False, lambda start, right: right + 0.25),
        ("wrong row factor", False, lambda start, right: right * np.arange(2, 8)[:, None]),
        ("wrong row term", False, lambda start, right: right + np.arange(2, 8)[:, None]),
        ("wrong column factor", False, lambda start, right: right * np.arange(2, 42)),
        ("wrong column term", False, lambda start, right: right + np.arange(2, 42)),
        ("lost digits", False, lambda start, right: right * (1 + 1e-4 * NOISE)),
        ("not a number", False, lambda start, right: np.full(right.shape, np.inf)),
        ("wrong values", False, lambda start, right: NOISE * NOISE),
    ],
)
def test_a_slip_is_named(reason, adds, change):
    assert cause(change, adds)[0] == reason


def test_infinity_after_exp_is_a_missing_maximum():
    assert cause(lambda start, right: np.full(right.shape, np.nan), tree=WITH_EXP)[0] == "missing maximum"


def test_a_factor_and_a_count_are_told():
    assert cause(lambda start, right: 0.5 * right)[1] == "; here the factor is 0.5"
    assert cause(lambda start, right: start + 3 * right, adds=True)[1] == "; here 3 times"
    assert cause(first(32))[1] == "; here the first 32 of 40 are right"


def test_a_square_and_symmetric_array_does_not_look_transposed():
    symmetric = (WANTED[:, :6] + WANTED[:, :6].T).copy()
    assert cause(lambda start, right: -right, expected=symmetric)[0] == "sign"
    assert cause(lambda start, right: right.T, expected=WANTED[:, :6].copy())[0] == "wrong axis"


def test_an_output_that_starts_as_nan_carries_a_mark_and_noise_stays():
    marked, noise = values.arguments(case())[1], values.arguments(case(adds=True))[1]
    assert (marked.view(np.uint32) == values.MARK).all() and np.isnan(marked).all()
    assert np.array_equal(noise, NOISE) and noise is not NOISE


def test_the_most_telling_case_is_wide_and_plain():
    def scene(shape, strong):
        made = case(expected=np.ones(shape), strong=strong)
        return values.Scene(made, 32, "out", np.zeros(shape, np.float32), TREE)

    small, strong, wide = scene((1, 1), False), scene((9, 99), True), scene((3, 5), False)
    assert max((small, strong, wide), key=values.tells) is wide
