"""Kernels that look like mistakes and are none: no fault, and the result their author wanted."""

import legal_memory
import legal_sync
import numpy as np
import pytest
from bugs_common import LEGAL

import kernels

MODULES = (legal_memory, legal_sync)
PLACES_ARE_ANYONES = {"places_from_an_atomic"}  # which place each element gets is the schedule's business


@pytest.mark.parametrize("entry", LEGAL, ids=lambda entry: entry.name)
def test_legal_kernel_is_silent_and_right(entry):
    arguments = entry.arguments()
    report = kernels.check(entry.fn)[entry.launch](*arguments)
    assert report.ok and not report.faults, repr(report)
    np.testing.assert_allclose(np.asarray(arguments[entry.out]).ravel(), entry.expected().ravel(), rtol=1e-6)
    if entry.name not in PLACES_ARE_ANYONES:
        assert not report.orders.differs or report.orders.rounding_only, repr(report)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("entry", LEGAL, ids=lambda entry: entry.name)
def test_legal_kernel_is_silent_under_many_orders(entry, seed):
    report = kernels.check(entry.fn, orders=4, seed=seed)[entry.launch](*entry.arguments())
    assert report.ok, repr(report)
    if entry.name not in PLACES_ARE_ANYONES:
        assert not report.orders.differs or report.orders.rounding_only, repr(report)


def test_the_list_is_long():
    assert len(LEGAL) >= 25 and len({entry.name for entry in LEGAL}) == len(LEGAL)
