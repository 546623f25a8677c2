"""The registry of pairs, and whole models built from it: tied and untied, against the reference."""

import re

import numpy as np
import pytest
from judges import FIXTURES, KERNEL_LIMIT, assert_close, widen
from models import Model

from kernels import reference, target
from kernels.pairs import FINE, KERNELS, PAIRS, print_map

NAMED = {
    "embed": ("k_embed_fwd", "k_embed_bwd"),
    "layernorm": ("k_layernorm_fwd", "k_layernorm_bwd"),
    "attn_qkv": ("k_attn_qkv_fwd", "k_attn_qkv_bwd"),
    "attn": ("k_attn_fwd", "k_attn_bwd"),
    "attn_out": ("k_attn_out_fwd", "k_attn_out_bwd"),
    "mlp": ("k_mlp_fwd", "k_mlp_bwd"),
    "residual": ("k_residual_add", "k_residual_add_bwd"),
    "loss": ("k_loss_fwd", "k_loss_bwd"),
}
FOLDS = {
    "embed": ("token", "position"),
    "layernorm": ("ln1", "ln2", "ln_f"),
    "attn_qkv": ("q_proj", "k_proj", "v_proj"),
    "attn": ("scores", "mask", "softmax", "weighted_sum", "heads"),
    "attn_out": ("o_proj",),
    "mlp": ("w1", "gelu", "w2"),
    "residual": ("residual_attn", "residual_mlp"),
    "loss": ("head", "xent"),
}


def test_eight_named_pairs_have_the_given_names():
    assert {name: (pair.fwd.name, pair.bwd.name) for name, pair in PAIRS.items()} == NAMED


def test_twenty_one_fine_pairs_fold_into_the_eight():
    assert {name: pair.folds for name, pair in PAIRS.items()} == FOLDS
    assert list(FINE) == [name for names in FOLDS.values() for name in names]
    assert len(FINE) == 21
    assert all(name == pair.name for name, pair in FINE.items())


def test_every_kernel_of_a_pair_is_registered():
    for pair in [*PAIRS.values(), *FINE.values()]:
        for kernel in (pair.fwd, pair.bwd):
            assert KERNELS[kernel.name] is kernel or KERNELS[kernel.name].name == kernel.name
            assert not kernel.teaching, f"{kernel.name} is for lessons, a pair is for training"


def test_saved_tensors_are_arguments_of_backward():
    for pair in PAIRS.values():
        arguments = pair.backward.__code__.co_varnames[: pair.backward.__code__.co_argcount]
        assert set(pair.saved) <= set(arguments), pair.name
    assert {"mean", "rstd"} <= set(PAIRS["layernorm"].saved)
    assert "pre" in PAIRS["mlp"].saved


def test_printed_map(capsys):
    print_map()
    first = capsys.readouterr().out
    print_map()
    assert capsys.readouterr().out == first
    lines = first.splitlines()
    assert lines[-1] == "8 named pairs, 21 fine pairs"
    assert max(map(len, lines)) <= 120
    for name, line in zip(PAIRS, lines[2:-1], strict=True):
        assert line.startswith(name)
        assert all(re.search(rf"\b{fine}\b", line) for fine in FOLDS[name])


def weights_of(form: str):
    """The stored model in float32: (weights, tokens, targets, NH)."""
    with np.load(FIXTURES / f"{form}.npz", allow_pickle=False) as data:
        weights = {k[2:]: data[k].astype(np.float32) for k in data.files if k.startswith("w.")}
        return weights, data["tokens"], data["targets"], int(data["NH"])


@pytest.mark.parametrize("way", ["production", "ourgemm", "named", "fine"])
@pytest.mark.parametrize("form", ["model_tied", "model_untied"])
def test_whole_model_gradients(form, way):
    """Tied, the table's gradient holds the lookup's and the head's contribution, added by two pairs."""
    weights, tokens, targets, NH = weights_of(form)
    losses, cache = reference.model_forward(widen(weights), tokens, targets, NH)
    want = reference.model_backward(widen(weights), cache, np.full(tokens.size, 1.0 / reference.count(targets)))
    model = Model(way, weights, tokens, targets, NH)
    target.run(model.forward)
    target.run(model.backward)
    assert_close("losses", target.copy_to_host(model.losses), losses, KERNEL_LIMIT)
    for name, grad in want.items():
        assert_close(name, target.copy_to_host(model.g[name]), grad, KERNEL_LIMIT)


def test_named_forward_is_one_launch_a_pair():
    """Embedding, eight launches a block, final norm and loss: 8 L + 3."""
    model = Model("named", *weights_of("model_untied"))
    layers = reference.n_layers(model.w)
    assert len(model.forward) == len(model.backward) == 8 * layers + 3


def test_the_fine_model_uses_all_twenty_one():
    assert set(Model("fine", *weights_of("model_tied")).used) == set(FINE)
