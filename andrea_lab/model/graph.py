"""Forward and backward of the whole model as two ordered lists of launches over one arena.

The lists are built once and run every microbatch. Only the production paths of the pairs are used.

The gradient of the residual stream lives in one buffer, dx, from the loss down to the embedding. A sum hands its
gradient to both sides unchanged, so the straight side needs no launch at all: dx stays where it is, the branch reads
it, and the layer norm at the branch's start adds (`+=`) what came back. All other activation gradients are reused from
layer to layer; as every pair adds into them, a launch zeroes them before each use.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from andrea_lab.model.config import ModelConfig
from andrea_lab.model.layout import layout
from andrea_lab.model.memory import Arena, activations
from kernels import clip, reduce
from kernels.pairs import FINE, PAIRS


class Graph:
    """Launches for `batch` rows of `context` tokens, at most what the arena was planned for.

    `forward` ends with the losses of all rows and their sum in `loss_sum`; `backward` follows it and adds the gradient
    of that sum to the gradient vector; `scores` is forward up to the logits, without targets. `between` is called each
    time the launches of a pair are bound, which may have taken seconds to compile; it may raise.
    """

    def __init__(
        self,
        model: ModelConfig,
        arena: Arena,
        batch: int,
        context: int,
        between: Callable[[], object] = lambda: None,
    ):
        self.model, self.arena, self.between = model, arena, between
        shapes = {name: shape for name, _, shape, _ in activations(model, batch, context)}
        self.arrays = {name: arena.view(name, shape) for name, shape in shapes.items()}
        table = layout(model)
        self.weights = table.views(arena.view("weights"))
        self.gradients = table.views(arena.view("gradients"))
        self.head = "wte" if model.tie_embeddings else "lm_head"

    @property
    def pairs(self) -> Mapping[str, Any]:
        """The pairs by name; `flow` has its own, which note what they are called with."""
        return PAIRS

    def zero(self, flat: Any) -> list:
        """Launches that set a span of the arena to 0."""
        return clip.zero(flat)

    def total(self, values: Any, out: Any) -> list:
        """Launches that add up a vector."""
        return reduce.sum(values, out)

    def stream(self, layer: int) -> Any:
        """The residual stream (N, C) after a layer; layer -1 is the embedding."""
        return self.arrays["x" if layer < 0 else f"layer{layer}.x"]

    def _layer(self, i: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Activations, weights and gradients of a layer by their short names."""
        prefix = f"layer{i}."
        groups = (self.arrays, self.weights, self.gradients)
        return tuple({k.removeprefix(prefix): v for k, v in group.items() if k.startswith(prefix)} for group in groups)

    def _trunk(self) -> Iterator[list]:
        """embed; for each layer x += attention(LN(x)), x += mlp(LN(x)); the last LN into hf."""
        a, w = self.arrays, self.weights
        yield self.pairs["embed"].forward(a["tokens"], w["wte"], w["wpe"], a["x"])
        norm, add = self.pairs["layernorm"].forward, self.pairs["residual"].forward
        for i in range(self.model.layers):
            s, p, _ = self._layer(i)
            x = self.stream(i - 1)
            yield norm(x, p["ln1.gamma"], p["ln1.beta"], s["h1"], s["ln1.mean"], s["ln1.rstd"])
            yield self.pairs["attn_qkv"].forward(s["h1"], p["W_Q"], p["W_K"], p["W_V"], s["q"], s["k"], s["v"])
            yield self.pairs["attn"].forward(s["q"], s["k"], s["v"], s["att"], s["lse"])
            yield self.pairs["attn_out"].forward(s["att"], p["W_O"], a["branch"])
            yield add(x, a["branch"], s["mid"])
            yield norm(s["mid"], p["ln2.gamma"], p["ln2.beta"], s["h2"], s["ln2.mean"], s["ln2.rstd"])
            yield self.pairs["mlp"].forward(s["h2"], p["W_1"], p["W_2"], s["pre"], s["act"], a["branch"])
            yield add(s["mid"], a["branch"], s["x"])
        x = self.stream(self.model.layers - 1)
        yield norm(x, w["ln_f.gamma"], w["ln_f.beta"], a["hf"], a["ln_f.mean"], a["ln_f.rstd"])

    def forward(self) -> list:
        """The trunk, the losses of all rows, their sum."""
        return self._bound(self._trunk(), self._loss())

    def scores(self) -> list:
        """The trunk and the logits (N, V) of every position."""
        return self._bound(self._trunk(), self._head())

    def backward(self) -> list:
        """The pairs in reverse order. The first gradient is that of the sum of the losses: dlosses = 1."""
        return self._bound(self._reverse())

    def _bound(self, *parts: Iterator[list]) -> list:
        """The launches of some parts, bound one pair after the other, with a look at `between` after each."""
        out: list = []
        for launches in chain(*parts):
            out += launches
            self.between()
        return out

    def _loss(self) -> Iterator[list]:
        a, head = self.arrays, self.weights[self.head]
        yield self.pairs["loss"].forward(a["hf"], head, a["targets"], a["logits"], a["lse"], a["losses"])
        yield self.total(a["losses"], a["loss_sum"])

    def _head(self) -> Iterator[list]:
        yield FINE["head"].forward(self.arrays["hf"], self.weights[self.head], self.arrays["logits"])

    def _reverse(self) -> Iterator[list]:
        a, w, g = self.arrays, self.weights, self.gradients
        norm = self.pairs["layernorm"].backward
        yield self.zero(self.arena.span("dx", "dh"))
        loss = (a["hf"], w[self.head], a["targets"], a["logits"], a["lse"], a["dlosses"])
        yield self.pairs["loss"].backward(*loss, a["logits"], a["dh"], g[self.head])  # logits become their own gradient
        last = (self.stream(self.model.layers - 1), w["ln_f.gamma"], a["ln_f.mean"], a["ln_f.rstd"])
        yield norm(*last, a["dh"], a["dx"], g["ln_f.gamma"], g["ln_f.beta"])
        for i in reversed(range(self.model.layers)):
            s, p, d = self._layer(i)
            yield self.zero(self.arena.span("dh", "dh"))
            mlp = (s["h2"], p["W_1"], p["W_2"], s["pre"], s["act"])
            yield self.pairs["mlp"].backward(*mlp, a["dx"], a["dpre"], a["dh"], d["W_1"], d["W_2"])
            ln2 = (s["mid"], p["ln2.gamma"], s["ln2.mean"], s["ln2.rstd"])
            yield norm(*ln2, a["dh"], a["dx"], d["ln2.gamma"], d["ln2.beta"])
            yield self.zero(self.arena.span("dh", "dv"))
            yield self.pairs["attn_out"].backward(s["att"], p["W_O"], a["dx"], a["datt"], d["W_O"])
            dqkv = (a["dq"], a["dk"], a["dv"])
            yield self.pairs["attn"].backward(s["q"], s["k"], s["v"], s["att"], s["lse"], a["datt"], *dqkv)
            qkv = (s["h1"], p["W_Q"], p["W_K"], p["W_V"])
            yield self.pairs["attn_qkv"].backward(*qkv, *dqkv, a["dh"], d["W_Q"], d["W_K"], d["W_V"])
            ln1 = (self.stream(i - 1), p["ln1.gamma"], s["ln1.mean"], s["ln1.rstd"])
            yield norm(*ln1, a["dh"], a["dx"], d["ln1.gamma"], d["ln1.beta"])
        yield self.pairs["embed"].backward(a["tokens"], a["dx"], g["wte"], g["wpe"])
