"""`bench kernels`: the peers compute what the reference computes, and the figures are there."""

import json

import pytest
from rich.console import Console

from andrea_lab.bench import cases, kernels, timing
from andrea_lab.bench.server import BenchError

TOLERANCE = 1e-5
FIELDS = {"name", "ours_ms", "numpy_ms", "hand_ms", "vs_numpy", "vs_hand", "error", "others"}


@pytest.mark.parametrize("name", list(cases.CASES))
def test_numpy_peer_against_reference(name):
    case = cases.CASES[name](cases.SMALL)
    outs = case.outs()
    case.numpy(outs)()
    assert timing.relative_error(outs, case.expected) <= TOLERANCE


@pytest.mark.parametrize("name", ["attn_bwd", "xent_bwd", "residual_bwd", "embed_bwd", "layernorm_bwd"])
def test_numpy_peer_adds_where_ours_adds(name):
    case = cases.CASES[name](cases.SMALL)
    outs = case.outs()
    work = case.numpy(outs)
    work()
    work()
    twice = 1.0 if name == "xent_bwd" else 2.0  # dlogits is scratch, overwritten
    assert timing.relative_error(outs, [twice * e for e in case.expected]) <= TOLERANCE


def check(result):
    json.dumps(result, allow_nan=False)
    for k in result["kernels"]:
        assert set(k) == FIELDS
        assert min(k["ours_ms"], k["numpy_ms"], k["hand_ms"], k["vs_numpy"], k["vs_hand"]) > 0
        assert 0 <= k["error"] <= TOLERANCE
    assert result["geomean_vs_hand"] >= result["worst_vs_hand"] > 0


def test_a_few_kernels():
    told = []
    result = kernels.run(threads=1, quick=True, only=["gelu_fwd", "residual", "matmul_tiled"], progress=told.append)
    assert (
        [k["name"] for k in result["kernels"]] == told == ["gelu_fwd", "residual_fwd", "residual_bwd", "matmul_tiled"]
    )
    check(result)
    assert result["gelu_vs_numpy"] > 0 and result["tiled_vs_blas"] > 0 and result["blocked_vs_blas"] is None
    text = kernels.figures(result).markdown()
    assert "| residual_bwd |" in text and "geometric mean" in text
    console = Console(width=200)
    with console.capture() as capture:
        console.print(kernels.figures(result).rich())
    assert "matmul_tiled" in capture.get()


@pytest.mark.full
def test_every_kernel():
    result = kernels.run(threads=2, quick=True)
    assert [k["name"] for k in result["kernels"]] == list(cases.CASES)
    check(result)
    assert result["blocked_vs_blas"] > 0


def test_a_case_that_is_not_there():
    with pytest.raises(BenchError, match="^only: found nothing, expected the beginning of one of embed_fwd, "):
        kernels.run(quick=True, only=["nothing"])


def test_turns_are_taken_in_both_orders():
    turns, calls = [], {"a": 0, "b": 0}

    def work(name):
        calls[name] += 1

    sides = {name: (lambda name=name: work(name)) for name in "ab"}
    ms = timing.interleave(sides, rounds=2, pause=0.0, prepare=turns.append)
    assert set(ms) == {"a", "b"} and min(ms.values()) >= 0
    assert turns == ["a", "b", "b", "a"] and min(calls.values()) > 2


def test_a_wrong_result_has_an_error():
    import numpy as np

    a, b = np.ones(3, np.float32), np.array([1.0, 1.0, 1.1])
    assert timing.relative_error([a], [b]) > 0.01
    assert timing.relative_error([a * np.float32("nan")], [b]) != timing.relative_error([a], [b])
    assert not timing.relative_error([a * np.float32("nan")], [b]) <= TOLERANCE
