"""Every shipped kernel is silent under the check target, and computes what it computes on the CPU target."""

import numpy as np
import pytest

import kernels
from kernels import target
from kernels.pairs import KERNELS

ORDERED = 16  # blocks up to which the orders are tried too, in the plain run


def copies(args):
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)


def blocks_of(grid) -> int:
    return int(np.prod(grid))


def compare(name: str, block, orders: int) -> None:
    kernel = KERNELS[name]
    grid, args = kernel.example(block)
    ours, theirs = copies(args), copies(args)
    report = kernels.check(kernel, orders=orders)[grid, block](*ours)
    assert report.ok, repr(report)
    assert not report.float64, f"{name}: float64 in {report.float64}"
    assert not orders or not report.orders.differs or (report.orders.rounding_only and kernel.teaching), repr(report)
    with target.use("cpu"):
        kernel[grid, block](*theirs)
    for found, expected in zip(ours, theirs, strict=True):
        if isinstance(found, np.ndarray):
            scale = max(1.0, float(np.max(np.abs(expected), initial=0, where=np.isfinite(expected))))
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6 * scale, equal_nan=True, err_msg=name)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_shipped_kernel_is_silent_and_agrees_with_the_cpu_target(name):
    kernel = KERNELS[name]
    grid, _ = kernel.example(kernel.default_block)
    compare(name, kernel.default_block, orders=1 if blocks_of(grid) <= ORDERED else 0)


CASES = [(name, block) for name in sorted(KERNELS) for block in KERNELS[name].proof_blocks]


@pytest.mark.full
@pytest.mark.parametrize("name, block", CASES, ids=lambda v: str(v).replace(" ", ""))
def test_shipped_kernel_in_every_proof_block(name, block):
    compare(name, block, orders=2)


def test_using_the_target_runs_a_shipped_kernel_as_usual():
    kernel = KERNELS["k_residual_add"]
    grid, args = kernel.example(kernel.default_block)
    ours, theirs = copies(args), copies(args)
    with target.use("check"):
        kernel[grid, kernel.default_block](*ours)
    with target.use("cpu"):
        kernel[grid, kernel.default_block](*theirs)
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(found, expected)
