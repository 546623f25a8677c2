"""Whole-model losses, gradients and updates against the float64 oracle."""

import numpy as np
import pytest

from kernels import reference
from kernels.target import run
from tests.engine.tiny import RandomBatches, config, engine, one


def params(made) -> dict[str, np.ndarray]:
    return {name: np.array(array, np.float64) for name, array in made.graph.weights.items()}


def batch(made, source="noise", draw=1) -> tuple[np.ndarray, np.ndarray]:
    rows = made.config.train.batch * made.config.train.microbatches
    tokens, targets = (np.zeros((rows, made.config.train.context), np.int32) for _ in range(2))
    made.batches.fill(source, made.config.train.seed, draw, tokens, targets)
    return tokens, targets


def wake(made) -> None:
    """Weights large enough that no gradient is a rounding error."""
    rng = np.random.default_rng(5)
    for array in made.graph.weights.values():
        array += rng.normal(0, 0.2, array.shape).astype(np.float32)


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def gradients(made) -> dict[str, np.ndarray]:
    """Gradients of the summed loss of draw 1, as a step accumulates them."""
    made._tokens[...], made._targets[...] = batch(made)
    made.total = made._accumulate()
    return {name: np.array(array, np.float64) for name, array in made.graph.gradients.items()}


@pytest.mark.parametrize("gemm", ["blas", "kernels"])
@pytest.mark.parametrize("tied", [True, False])
def test_every_gradient_of_the_whole_model(tied, gemm):
    made = engine(config(tied, gemm=gemm), batches=RandomBatches(ignore=3))
    wake(made)
    tokens, targets = batch(made)
    losses, cache = reference.model_forward(params(made), tokens, targets, made.config.model.heads)
    expected = reference.model_backward(params(made), cache, np.ones(losses.size))
    got = gradients(made)
    assert relative(np.array(made.graph.arrays["losses"], np.float64), losses) < 1e-5
    assert got.keys() == expected.keys()
    for name in expected:
        assert relative(got[name], expected[name]) < 1e-5, name


def test_a_tied_embedding_gets_both_contributions():
    tied = engine(config(True))
    wake(tied)
    tokens, targets = batch(tied)
    untied = params(tied) | {"lm_head": params(tied)["wte"]}
    losses, cache = reference.model_forward(untied, tokens, targets, 2)
    expected = reference.model_backward(untied, cache, np.ones(losses.size))
    got = gradients(tied)["wte"]
    assert relative(got, expected["wte"] + expected["lm_head"]) < 1e-5
    for alone in ("wte", "lm_head"):
        assert relative(got, expected[alone]) > 1e-2


def test_gradients_add_up_and_activation_gradients_do_not():
    made = engine()
    wake(made)
    once = gradients(made)
    for name, array in made.graph.arrays.items():  # poison all that a microbatch must overwrite or zero
        if name not in ("tokens", "targets", "dlosses"):
            array[...] = np.nan
    twice = gradients(made)
    for name in once:
        assert relative(twice[name], 2 * once[name]) < 1e-6, name


def test_unequal_microbatches_equal_the_full_batch():
    whole = engine(config(batch=4, microbatches=1), batches=RandomBatches(ignore=5))
    parts = engine(config(batch=1, microbatches=4), batches=RandomBatches(ignore=5))
    full = one(whole)
    cut = one(parts)
    assert full["tokens"] == cut["tokens"] == 16 + 11 + 6 + 1
    for key in ("loss", "grad_norm"):
        assert cut[key] == pytest.approx(full[key], rel=5e-6)
    a, b = gradients(whole), gradients(parts)
    for name in a:
        assert relative(b[name], a[name]) < 5e-6, name


def test_the_oracle_accumulates_exactly_and_a_mean_of_means_does_not():
    made = engine(config(batch=4), batches=RandomBatches(ignore=5))
    tokens, targets = batch(made)
    weights = params(made)
    loss, full = reference.mean_loss_and_grads(weights, tokens, targets, 2)
    pieces = [(tokens[i : i + 1], targets[i : i + 1]) for i in range(4)]
    summed, grads = reference.accumulate(weights, pieces, 2)
    assert summed == pytest.approx(loss, rel=1e-12)
    naive = {name: np.zeros_like(w) for name, w in weights.items()}
    for piece in pieces:
        for name, g in reference.mean_loss_and_grads(weights, *piece, 2)[1].items():
            naive[name] += g / len(pieces)
    for name in full:
        assert relative(grads[name], full[name]) < 1e-12
    assert max(relative(naive[name], full[name]) for name in full) > 1e-2


@pytest.mark.parametrize("clip", [0.0, 0.05])
def test_updates_follow_the_oracle(clip):
    made = engine(config(clip=clip, lr=1e-2, warmup=2), batches=RandomBatches(ignore=2))
    train, weights = made.config.train, params(made)
    m, v = ({name: np.zeros_like(w) for name, w in weights.items()} for _ in range(2))
    for step in (1, 2, 3):
        tokens, targets = batch(made, draw=step)
        loss, grads = reference.mean_loss_and_grads(weights, tokens, targets, 2)
        norm = reference.global_norm(grads)
        factor = reference.clip_factor(norm, train.clip)
        result = one(made)
        assert result["loss"] == pytest.approx(loss, rel=1e-5)
        assert result["grad_norm"] == pytest.approx(norm, rel=1e-4)
        assert result["clip"] == pytest.approx(factor, rel=1e-4)
        assert (factor < 1) == (clip > 0)
        for tensor in made.layout:
            n = tensor.name
            weights[n], m[n], v[n] = reference.adamw(
                weights[n], grads[n] * factor, m[n], v[n], step, result["lr"], decay=0.1 if tensor.decay else 0.0
            )
    for name, expected in weights.items():
        assert relative(np.array(made.graph.weights[name], np.float64), expected) < 2e-5, name
    assert not np.any(made.arena.view("gradients"))


def test_a_smaller_graph_reads_the_same_memory():
    made = engine(config(batch=2, context=16))
    wake(made)
    tokens, targets = batch(made)
    from andrea_lab.model.graph import Graph

    small = Graph(made.config.model, made.arena, 1, 7)
    small.arrays["tokens"][...], small.arrays["targets"][...] = tokens[:1, :7], targets[:1, :7]
    run(small.forward())
    losses, _ = reference.model_forward(params(made), tokens[:1, :7], targets[:1, :7], 2)
    assert relative(np.array(small.arrays["losses"], np.float64), losses) < 1e-5
