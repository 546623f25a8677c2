"""The oracle itself: whole-model gradients, the optimiser, accumulation by tokens, and that it never leaves float64."""

import ast
import inspect

import numpy as np
import pytest
from judges import DIFFERENCES_LIMIT, FIXTURE_LIMIT, FIXTURES, assert_close

from kernels import reference as ref

FORMS = ("model_tied", "model_untied")


def stored(name: str) -> dict:
    with np.load(FIXTURES / f"{name}.npz", allow_pickle=False) as file:
        return {k: file[k] for k in file.files}


def model(name: str) -> tuple[dict, np.ndarray, np.ndarray, int, dict]:
    """(weights, tokens, targets, NH, everything stored)."""
    data = stored(name)
    weights = {k[2:]: a for k, a in data.items() if k.startswith("w.")}
    return weights, data["tokens"], data["targets"], int(data["NH"]), data


@pytest.mark.parametrize("form", FORMS)
def test_whole_model_against_pytorch(form):
    weights, tokens, targets, NH, data = model(form)
    assert ("lm_head" in weights) == (form == "model_untied")
    loss, grads = ref.mean_loss_and_grads(weights, tokens, targets, NH)
    assert_close("loss", loss, data["loss"], FIXTURE_LIMIT)
    assert_close("norm", ref.global_norm(grads), data["norm"], FIXTURE_LIMIT)
    assert set(grads) == set(weights)
    for name, grad in grads.items():
        assert_close(name, grad, data[f"g.{name}"], FIXTURE_LIMIT)


@pytest.mark.parametrize("form", FORMS)
def test_whole_model_against_differences(form):
    """Along one random direction per tensor: (f(w + h d) - f(w - h d)) / 2h is the gradient's component along d."""
    weights, tokens, targets, NH, _ = model(form)
    _, grads = ref.mean_loss_and_grads(weights, tokens, targets, NH)
    rng = np.random.default_rng(3)

    def loss(name, w):
        losses, _ = ref.model_forward(weights | {name: w}, tokens, targets, NH)
        return losses.sum() / ref.count(targets)

    for name, w in weights.items():
        h, d = 1e-4, rng.standard_normal(w.shape)
        near, far = (loss(name, w + k * h * d) - loss(name, w - k * h * d) for k in (1, 2))
        assert_close(name, (grads[name] * d).sum(), (8.0 * near - far) / (12.0 * h), DIFFERENCES_LIMIT)


def test_tied_table_gets_two_contributions():
    """Untied with the same numbers, the lookup's and the head's gradients are two tensors; tied, their sum is one."""
    weights, tokens, targets, NH, _ = model("model_tied")
    _, tied = ref.mean_loss_and_grads(weights, tokens, targets, NH)
    _, untied = ref.mean_loss_and_grads(weights | {"lm_head": weights["wte"]}, tokens, targets, NH)
    assert np.abs(untied["wte"]).max() > 0 and np.abs(untied["lm_head"]).max() > 0
    np.testing.assert_allclose(tied["wte"], untied["wte"] + untied["lm_head"], rtol=1e-14)


def test_attention_is_causal():
    """The loss at one position does not move with any later token."""
    weights, tokens, targets, NH, _ = model("model_untied")
    before, _ = ref.model_forward(weights, tokens, targets, NH)
    changed = tokens.copy()
    changed[:, -1] = (changed[:, -1] + 1) % len(weights["wte"])
    after, _ = ref.model_forward(weights, changed, targets, NH)
    same = (before == after).reshape(tokens.shape)
    assert same[:, :-1].all() and not same[0, -1]


def test_ignored_targets_count_for_nothing():
    """Whatever stands at an ignored position, neither loss nor gradient sees it; all ignored, both are zero."""
    weights, tokens, targets, NH, _ = model("model_tied")
    losses, cache = ref.model_forward(weights, tokens, np.full_like(targets, -1), NH)
    assert not losses.any()
    assert not any(g.any() for g in ref.model_backward(weights, cache, np.ones(len(losses))).values())
    losses, _ = ref.model_forward(weights, tokens, targets, NH)
    assert ((losses == 0) == (targets.ravel() < 0)).all()


def test_unequal_microbatches_equal_the_full_batch():
    """Summed over tokens and divided once, pieces give the whole batch; the mean of the pieces' means does not."""
    weights, tokens, targets, NH, _ = model("model_tied")
    targets = targets.copy()
    targets[0, :3] = -1
    pieces = [(tokens[i : i + 1], targets[i : i + 1]) for i in range(2)]
    assert ref.count(pieces[0][1]) != ref.count(pieces[1][1])
    loss, grads = ref.mean_loss_and_grads(weights, tokens, targets, NH)
    got_loss, got = ref.accumulate(weights, pieces, NH)
    assert_close("loss", got_loss, loss, 1e-12)
    means = [ref.mean_loss_and_grads(weights, *piece, NH)[1] for piece in pieces]
    for name in weights:
        assert_close(name, got[name], grads[name], 1e-12)
    naive = {name: (means[0][name] + means[1][name]) / 2 for name in weights}
    with pytest.raises(AssertionError, match="relative error"):
        assert_close("W_1", naive["layer0.W_1"], grads["layer0.W_1"], 1e-2)


def test_adamw_against_pytorch():
    data = stored("adamw")
    w, m, v = data["w.0"], np.zeros(40), np.zeros(40)
    for t in (1, 2, 3):
        w, m, v = ref.adamw(w, data[f"g.{t}"], m, v, t, lr=float(data["lr"]), decay=float(data["decay"]))
        for name, got in (("w", w), ("m", m), ("v", v)):
            assert_close(f"{name} after step {t}", got, data[f"{name}.{t}"], FIXTURE_LIMIT)


@pytest.mark.parametrize(
    ("norm", "limit", "factor"), [(4.0, 1.0, 0.25), (0.5, 1.0, 1.0), (4.0, 0.0, 1.0), (0.0, 1.0, 1.0)]
)
def test_clip_factor(norm, limit, factor):
    assert ref.clip_factor(norm, limit) == factor


def test_global_norm_is_one_norm_over_all_tensors():
    assert ref.global_norm({"a": np.array([3.0]), "b": np.array([[0.0], [4.0]])}) == 5.0


def test_first_loss_is_log_of_the_vocabulary():
    """With all weights zero but the layer norms, every token is as likely: ln V."""
    weights, tokens, targets, NH, _ = model("model_untied")
    flat = {k: w if "gamma" in k else np.zeros_like(w) for k, w in weights.items()}
    loss, _ = ref.mean_loss_and_grads(flat, tokens, targets, NH)
    assert loss == pytest.approx(np.log(len(weights["wte"])), abs=1e-12)


def test_imports_numpy_alone():
    tree = ast.parse(inspect.getsource(ref))
    roots = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    roots |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert roots == {"numpy", "__future__"}


def test_mask_against_pytorch():
    data = stored("mask")
    assert_close("out", ref.mask_forward(data["inp"]), data["out"], FIXTURE_LIMIT)
    assert_close("dinp", ref.mask_backward(data["dout"]), data["dinp"], FIXTURE_LIMIT)
