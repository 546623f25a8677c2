"""Sums along a fixed tree, and the mean loss over counted targets."""

import numpy as np
import pytest
from judges import KERNEL_LIMIT, SEEDS, assert_close, launch, poison

from kernels import reduce, target

LENGTHS = (1, 7, 256, 257, 5000)


@pytest.mark.parametrize("n", LENGTHS)
def test_sum(n):
    for seed in SEEDS:
        x = {"inp": np.random.default_rng([seed, n]).normal(5.0, 60.0, n).astype(np.float32), "out": poison(1)}
        got = launch(reduce.sum, ("inp", "out"), x)
        assert got["inp"].tobytes() == x["inp"].tobytes()
        size = np.abs(x["inp"]).sum()
        assert_close(
            f"sum of {n}", got["out"] / size, x["inp"].astype(np.float64).sum() / size * np.ones(1), KERNEL_LIMIT
        )


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 150), (4, 64), (1, 1000)])
def test_mean_loss(shape):
    for seed in SEEDS:
        rng = np.random.default_rng([seed, *shape])
        targets = rng.integers(-1, 2, shape).astype(np.int32)
        losses = np.where(targets.ravel() >= 0, rng.random(targets.size) * 9, 0).astype(np.float32)
        got = launch(
            reduce.mean_loss, ("losses", "targets", "out"), {"losses": losses, "targets": targets, "out": poison(1)}
        )
        count = max((targets >= 0).sum(), 1)
        assert_close("mean loss", got["out"], losses.astype(np.float64).sum(keepdims=True) / count, KERNEL_LIMIT)


def test_no_counted_target_means_zero():
    x = {"losses": np.zeros(6, np.float32), "targets": np.full((2, 3), -1, np.int32), "out": poison(1)}
    assert launch(reduce.mean_loss, ("losses", "targets", "out"), x)["out"] == [0.0]


def test_same_bits_from_any_number_of_workers():
    x = {"inp": np.random.default_rng(1).standard_normal(3000).astype(np.float32), "out": poison(1)}
    before, seen = target.threads(), set()
    try:
        for workers in (1, 1, 2, 3):
            target.set_threads(workers)
            seen.add(launch(reduce.sum, ("inp", "out"), x)["out"].tobytes())
    finally:
        target.set_threads(before)
    assert len(seen) == 1
