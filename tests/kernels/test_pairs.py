"""The registry of pairs, and whole models built from it: tied and untied, against the reference."""

import re

import numpy as np
import pytest
from cases import with_our_gemm
from judges import FIXTURES, KERNEL_LIMIT, assert_close, poison, widen

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
    assert max(map(len, lines)) <= 140
    for name, line in zip(PAIRS, lines[2:-1], strict=True):
        assert line.startswith(name)
        assert all(re.search(rf"\b{fine}\b", line) for fine in FOLDS[name])


class Model:
    """A pre-norm GPT as launches of the eight pairs; `way` says which of their paths is built."""

    def __init__(self, way: str, weights: dict, tokens, targets, NH: int):
        self.way, self.NH, self.B = way, NH, len(tokens)
        self.w = {name: target.to_device(a) for name, a in weights.items()}
        self.g = {name: target.zeros(a.shape, np.float32) for name, a in weights.items()}
        self.tokens, self.targets = target.to_device(tokens), target.to_device(targets)
        self.N, self.T = tokens.size, tokens.shape[1]
        self.C, self.F = weights["wte"].shape[1], 4 * weights["wte"].shape[1]
        self.forward, self.backward = [], []
        self.build()

    def call(self, name: str, direction: str, *args):
        pair = PAIRS[name]
        build = getattr(pair, f"named_{direction}" if self.way == "named" else direction)
        launches = (with_our_gemm(build) if self.way == "ourgemm" else build)(*args)
        return launches

    def new(self, *shape):
        return target.to_device(poison(shape or (self.N, self.C)))

    def zero(self, *shape):
        return target.zeros(shape or (self.N, self.C), np.float32)

    def pair(self, name, forward, backward):
        """Append the pair's forward, and put its backward in front of all others."""
        self.forward += self.call(name, "forward", *forward)
        self.backward = self.call(name, "backward", *backward) + self.backward

    def norm(self, name, x, dx):
        out, dout, mean, rstd = self.new(), self.zero(), self.new(self.N), self.new(self.N)
        gamma, beta = self.w[f"{name}.gamma"], self.w[f"{name}.beta"]
        dgamma, dbeta = self.g[f"{name}.gamma"], self.g[f"{name}.beta"]
        self.pair("layernorm", (x, gamma, beta, out, mean, rstd), (x, gamma, mean, rstd, dout, dx, dgamma, dbeta))
        return out, dout

    def add(self, a, da, b, db):
        out, dout = self.new(), self.zero()
        self.pair("residual", (a, b, out), (dout, da, db))
        return out, dout

    def attention(self, h, x, dx):
        n, dn = self.norm(h + "ln1", x, dx)
        (q, k, v, out, y), (dq, dk, dv, dout, dy) = ([f() for _ in range(5)] for f in (self.new, self.zero))
        lse = self.new(self.B, self.NH, self.T)
        w, dw = ([d[h + name] for name in ("W_Q", "W_K", "W_V")] for d in (self.w, self.g))
        self.pair("attn_qkv", (n, *w, q, k, v), (n, *w, dq, dk, dv, dn, *dw))
        self.pair("attn", (q, k, v, out, lse), (q, k, v, out, lse, dout, dq, dk, dv))
        self.pair("attn_out", (out, self.w[h + "W_O"], y), (out, self.w[h + "W_O"], dy, dout, self.g[h + "W_O"]))
        return self.add(x, dx, y, dy)

    def mlp(self, h, x, dx):
        n, dn = self.norm(h + "ln2", x, dx)
        out, dout = self.new(), self.zero()
        pre, act, dpre = (self.new(self.N, self.F) for _ in range(3))
        w, dw = ([d[h + name] for name in ("W_1", "W_2")] for d in (self.w, self.g))
        self.pair("mlp", (n, *w, pre, act, out), (n, *w, pre, act, dout, dpre, dn, *dw))
        return self.add(x, dx, out, dout)

    def build(self):
        x, dx = self.new(), self.zero()
        tables, dtables = ([d["wte"], d["wpe"]] for d in (self.w, self.g))
        self.pair("embed", (self.tokens, *tables, x), (self.tokens, dx, *dtables))
        for i in range(reference.n_layers(self.w)):
            x, dx = self.attention(f"layer{i}.", x, dx)
            x, dx = self.mlp(f"layer{i}.", x, dx)
        n, dn = self.norm("ln_f", x, dx)
        name = "lm_head" if "lm_head" in self.w else "wte"
        logits = self.new(self.N, self.w[name].shape[0])
        lse, self.losses = self.new(self.N), self.new(self.N)
        count = reference.count(target.copy_to_host(self.targets))
        dlosses = target.to_device(np.full(self.N, 1.0 / count, np.float32))
        dlogits = self.new(*logits.shape)
        head, dhead = self.w[name], self.g[name]
        self.pair(
            "loss",
            (n, head, self.targets, logits, lse, self.losses),
            (n, head, self.targets, logits, lse, dlosses, dlogits, dn, dhead),
        )


def weights_of(form: str):
    """The stored model in float32: (weights, tokens, targets, NH)."""
    with np.load(FIXTURES / f"{form}.npz", allow_pickle=False) as data:
        weights = {k[2:]: data[k].astype(np.float32) for k in data.files if k.startswith("w.")}
        return weights, data["tokens"], data["targets"], int(data["NH"])


@pytest.mark.parametrize("way", ["production", "ourgemm", "named"])
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
