"""The layout: the one table name -> shape -> offset that cuts a flat float32 vector into the model's tensors.

Weights, gradients and both moments of AdamW share it, and so does the weight file. The order is wte, wpe, then in each
layer ln1 gamma and beta, W_Q, W_K, W_V, W_O, ln2 gamma and beta, W_1, W_2, then ln_f gamma and beta, and last lm_head
when the head is not tied to the token embedding.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from andrea_lab.model.config import ModelConfig


@dataclass(frozen=True)
class Tensor:
    """One named cut of the flat vector. `offset` and `size` count elements; `decay` says whether AdamW decays it."""

    name: str
    shape: tuple[int, ...]
    offset: int
    decay: bool

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def stop(self) -> int:
        return self.offset + self.size


@dataclass(frozen=True)
class Layout:
    """All tensors of a model in canonical order, without gaps."""

    tensors: tuple[Tensor, ...]

    @property
    def n_params(self) -> int:
        return self.tensors[-1].stop

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tensors)

    def __getitem__(self, name: str) -> Tensor:
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(name)

    def views(self, flat: Any) -> dict[str, Any]:
        """Cut a flat vector of n_params elements into named views that share its memory."""
        if flat.shape != (self.n_params,):
            raise ValueError(f"flat vector: found shape {flat.shape}, expected ({self.n_params},)")
        return {t.name: flat[t.offset : t.stop].reshape(t.shape) for t in self.tensors}

    def regions(self) -> list[tuple[int, int, bool]]:
        """The vector as (start, stop, decay) in order; neighbours that are treated alike are joined."""
        joined: list[tuple[int, int, bool]] = []
        for t in self.tensors:
            if joined and joined[-1][2] == t.decay:
                joined[-1] = (joined[-1][0], t.stop, t.decay)
            else:
                joined.append((t.offset, t.stop, t.decay))
        return joined


def layout(model: ModelConfig) -> Layout:
    """The layout of a model. Offsets are Python integers, so a model beyond 2^31 bytes overflows nothing."""
    c, f = model.width, model.hidden
    shapes: list[tuple[str, tuple[int, ...]]] = [("wte", (model.vocab, c)), ("wpe", (model.context, c))]
    for i in range(model.layers):
        block = [("ln1.gamma", (c,)), ("ln1.beta", (c,)), ("W_Q", (c, c)), ("W_K", (c, c)), ("W_V", (c, c))]
        block += [("W_O", (c, c)), ("ln2.gamma", (c,)), ("ln2.beta", (c,)), ("W_1", (c, f)), ("W_2", (f, c))]
        shapes += [(f"layer{i}.{name}", shape) for name, shape in block]
    shapes += [("ln_f.gamma", (c,)), ("ln_f.beta", (c,))]
    if not model.tie_embeddings:
        shapes.append(("lm_head", (model.vocab, c)))
    tensors, offset = [], 0
    for name, shape in shapes:
        tensors.append(Tensor(name, shape, offset, decay=".W_" in name))
        offset += prod(shape)
    return Layout(tuple(tensors))


def count_params(model: ModelConfig) -> int:
    """P = V C (twice when untied) + context C + layers (12 C^2 + 4 C) + 2 C, the closed form of the layout."""
    c = model.width
    heads = 1 if model.tie_embeddings else 2
    return heads * model.vocab * c + model.context * c + model.layers * (12 * c * c + 4 * c) + 2 * c
