"""Layer normalisation: the generic judges, and the teaching version with atomics."""

from dataclasses import replace

import pytest
from cases import LAYERNORM, atomic_backward
from judges import SEEDS, judge_adds, judge_backward
from suite import pair_tests

globals().update(pair_tests(LAYERNORM))


@pytest.mark.parametrize("shape", LAYERNORM.shapes)
def test_version_with_atomics_gives_the_same_numbers(shape):
    """Near enough for the judges; its bits are nobody's promise, so it is for lessons only."""
    op = replace(LAYERNORM, paths={"atomic": (LAYERNORM.paths["production"][0], atomic_backward)})
    for seed in SEEDS:
        judge_backward(op, "atomic", shape, seed)
    judge_adds(op, "atomic", shape)
