"""`bench step` on a tiny model, against a peer that computes with the float64 reference."""

import json
import sys
from pathlib import Path

import pytest

from andrea_lab.bench import step
from andrea_lab.bench.server import BenchError
from andrea_lab.model.config import ConfigError, parse

PEER = [sys.executable, str(Path(__file__).with_name("reference_peer.py"))]


def tiny(**model):
    shape = {"vocab": 261, "context": 16, "width": 64, "heads": 2, "layers": 2} | model
    train = {"batch": 2, "context": 16, "steps": 50, "clip": 1.0, "decay": 0.1}
    return parse({"name": "tiny", "model": shape, "train": train}, "test")


def run(*extra, **fields):
    fields = {"config": tiny(), "batch": 3, "context": 12, "threads": 1, "quick": True} | fields
    return step.run(peer_command=[*PEER, *extra], **fields)


def test_both_sides_agree_and_are_timed():
    told = []
    result = run(progress=told.append)
    json.dumps(result, allow_nan=False)
    assert (result["batch"], result["context"], result["pairs"]) == (3, 12, 2)
    assert result["loss_difference"] <= 1e-4 and result["norm_difference"] <= 1e-3
    assert result["losses"][0] == pytest.approx(5.56, abs=0.1)  # ln 261, before anything is learnt
    assert result["losses"][-1] < result["losses"][0]
    assert min(result[key] for key in ("tokens_per_s", "peer_tokens_per_s", "ratio", "gemm_limit_share")) > 0
    assert result["ratio_min"] <= result["ratio"] <= result["ratio_max"]
    assert list(result["phases"]) == ["gemm", "attention", "gelu", "layernorm", "loss", "adamw", "rest"]
    assert min(result["phases"].values()) > 0
    assert result["peak_mib"] > 0 and result["peer_peak_mib"] > 0
    assert told[0] == "start 1 of 1" and told[-1] == "phases"
    assert "| tokens/s |" in step.figures(result).markdown() and "median of 2 pairs" in step.figures(result).markdown()
    assert step.figures(result).rich().row_count == 4 + 7


class Side:
    """A process that answers every request with the same steps."""

    def __init__(self, losses, norms):
        self.answer = {"losses": losses, "norms": norms, "rates": [3e-4] * len(losses)}

    def ask(self, do, **fields):
        return self.answer


def test_sides_that_differ_are_not_timed():
    ours = Side([5.0, 4.0], [1.0, 1.0])
    assert step._agree(ours, Side([5.0, 4.00009], [1.0, 1.0009]))["loss_difference"] == pytest.approx(9e-5)
    with pytest.raises(BenchError, match=r"^agreement: .* losses differ by 2.0e-04 .* expected at most 1e-04"):
        step._agree(ours, Side([5.0, 4.0002], [1.0, 1.0]))
    with pytest.raises(BenchError, match=r"gradient norms by 2.0e-03"):
        step._agree(ours, Side([5.0, 4.0], [1.0, 1 / 1.002]))
    with pytest.raises(BenchError, match="agreement"):
        step._agree(ours, Side([5.0, float("nan")], [1.0, 1.0]))


def test_a_missing_peer_names_the_remedy():
    with pytest.raises(BenchError, match="^torch: found no module 'torch' in .*make env EXTRAS=bench"):
        run("missing")


def test_what_does_not_fit():
    with pytest.raises(BenchError, match="^vs: found 'jax', expected torch$"):
        run(vs="jax")
    with pytest.raises(ConfigError, match="train.context: found 32, expected at most model.context = 16"):
        run(context=32)
