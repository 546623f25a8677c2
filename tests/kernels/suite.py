"""The generic tests of an operation: `globals().update(pair_tests(op, ...))` gives a test file all of them."""

from __future__ import annotations

import pytest
from judges import (
    SEEDS,
    Op,
    judge_adds,
    judge_backward,
    judge_bits,
    judge_differences,
    judge_fixture,
    judge_forward,
)


def pair_tests(*ops: Op) -> dict:
    """Test functions by name, parametrised over the operations, their paths and their shapes; five seeds in each."""
    runs = [
        pytest.param(op, path, shape, id=f"{op.name}-{path}-{shape}")
        for op in ops
        for path in op.paths
        for shape in op.shapes
    ]
    references = [pytest.param(op, shape, id=f"{op.name}-{shape}") for op in ops for shape in op.shapes]
    paths = [pytest.param(op, path, id=f"{op.name}-{path}") for op in ops for path in op.paths]
    each = pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in ops])

    @pytest.mark.parametrize(("op", "path", "shape"), runs)
    def test_forward(op, path, shape):
        for seed in SEEDS:
            judge_forward(op, path, shape, seed)

    @pytest.mark.parametrize(("op", "path", "shape"), runs)
    def test_backward(op, path, shape):
        for seed in SEEDS:
            judge_backward(op, path, shape, seed)

    @pytest.mark.parametrize(("op", "path", "shape"), runs)
    def test_backward_adds(op, path, shape):
        judge_adds(op, path, shape)

    @pytest.mark.parametrize(("op", "path"), paths)
    def test_same_bits(op, path):
        judge_bits(op, path)

    @pytest.mark.parametrize(("op", "shape"), references)
    def test_reference_against_differences(op, shape):
        judge_differences(op, shape)

    @each
    def test_reference_against_pytorch(op):
        judge_fixture(op)

    return {name: value for name, value in locals().items() if name.startswith("test_")}
