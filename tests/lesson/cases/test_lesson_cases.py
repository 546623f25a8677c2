"""Every case of every shipped kernel, on the target in use: right within its tolerance; and a wrong result is seen."""

import inspect

import numpy as np
import pytest

from andrea_lab.lesson.cases import MODULES, case_list, case_names
from andrea_lab.lesson.cases.case import RECIPES, Draw, compare
from andrea_lab.lesson.mutants.bank import define, original
from kernels import target
from kernels.pairs import KERNELS
from kernels.target.source import Source

EACH = pytest.mark.parametrize("name", case_names())
LARGEST_CASE = 40_000  # elements in all arrays of a case together


def shipped(case):
    """The shipped kernel, made for the form of the case."""
    registered = KERNELS[case.kernel]
    return (
        target.kernel(define(original(case.kernel), Source(registered.fn).env() | case.form))
        if case.form
        else registered
    )


def run(case, arguments):
    device = [target.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
    shipped(case)[case.grid, case.block](*device)
    return [
        np.array(target.copy_to_host(d)) if isinstance(a, np.ndarray) else a
        for a, d in zip(arguments, device, strict=True)
    ]


def test_every_kernel_has_cases():
    assert set(RECIPES) == set(KERNELS) == set(case_names()) and len(MODULES) > 5


@EACH
def test_shipped_kernels_are_right_in_every_case(name):
    for case in case_list(name):
        wrong = case.wrong(run(case, case.fresh()))
        assert wrong is None, f"{name}, {case.label}: {wrong.what}"


@EACH
def test_cases_fit_the_kernel(name):
    labels = [case.label for case in case_list(name)]
    assert len(set(labels)) == len(labels)
    for case in case_list(name):
        assert list(case.arguments) == list(inspect.signature(KERNELS[name].fn).parameters)
        assert set(case.outputs) == set(case.expected) <= set(case.arguments)
        size = 0
        for a in case.arguments.values():
            assert type(a) in (int, np.float32, np.ndarray)
            if isinstance(a, np.ndarray):
                assert a.dtype in (np.float32, np.int32) and a.flags.c_contiguous
                size += a.size
        assert size <= LARGEST_CASE, f"{name}, {case.label}: {size}"
        names = set(KERNELS[name].fn.__code__.co_freevars)
        assert not case.form or names <= set(case.form) <= names | {"TILE"}


@EACH
def test_there_are_small_and_strong_cases(name):
    strong = [case.strong for case in case_list(name)]
    assert strong == sorted(strong) and not strong[0] and strong[-1]


@EACH
def test_data_depend_on_the_seed_alone(name):
    first, again, other = case_list(name), case_list(name), case_list(name, seed=1)
    changed = False
    for a, b, c in zip(first, again, other, strict=True):
        for x, y, z in zip(a.arguments.values(), b.arguments.values(), c.arguments.values(), strict=True):
            if isinstance(x, np.ndarray):
                assert x is not y and x.tobytes() == y.tobytes() and x.shape == z.shape
                changed |= x.tobytes() != z.tobytes()
    assert changed


@EACH
def test_untouched_outputs_are_wrong(name):
    """Nothing passes by doing nothing: results start as NaN, and what is added is not zero."""
    for case in case_list(name):
        if case.label not in ("ignored", "one", "small", "never", "equal"):
            assert case.wrong(case.fresh()) is not None, f"{name}, {case.label}"


def test_what_is_wrong_is_named():
    case = next(c for c in case_list("k_layernorm_bwd") if c.label == "odd")
    right = case.fresh()
    for i, n in enumerate(case.arguments):
        if n in case.expected:
            right[i] = case.expected[n].astype(np.float32)
    assert case.wrong(right) is None
    dgamma = list(case.arguments).index("dgamma")
    right[dgamma][2] += 1.0
    wrong = case.wrong(right)
    assert (wrong.array, wrong.index, wrong.count) == ("dgamma", (2,), 1)
    assert wrong.what.startswith("dgamma[2] is ") and wrong.what.endswith("(1 of 5 wrong)")
    right[dgamma][2] -= 1.0
    right[0][1, 1] = np.nan
    assert "which is an input and must stay" in case.wrong(right).what


def test_infinite_is_not_nan_and_nan_is_never_right_by_chance():
    inf, nan = np.array([np.inf, 1.0]), np.array([np.nan, 1.0])
    assert compare("x", inf, inf, 1e-5) is None
    assert compare("x", -inf, inf, 1e-5) and compare("x", nan, inf, 1e-5) and compare("x", nan, np.ones(2), 1e-5)
    assert compare("x", nan, nan, 1e-5) is None, "where a result must be NaN, it is right"
    assert compare("x", np.ones(2), nan, 1e-5)
    assert compare("x", np.ones(3), np.ones(2), 1e-5).what == "x has shape (3,), expected (2,)"


def test_two_arguments_that_are_one_array_stay_one():
    case = next(c for c in case_list("k_xent_dlogits") if c.label == "in place")
    fresh = dict(zip(case.arguments, case.fresh(), strict=True))
    assert fresh["logits"] is fresh["dlogits"] is not case.arguments["logits"]


def test_targets_hold_the_first_the_last_and_ignored_ones():
    targets = Draw(0, "k", "label").targets(2, 4, 50)
    assert {-1, 0, 49} <= set(targets.ravel().tolist())
    assert (Draw(0, "k", "label").targets(2, 4, 50, ignore=True) == -1).all()
