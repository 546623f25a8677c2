"""One step as a list of parts, each with the names of the arrays it is given: the graph, read without running it.

The graph is walked with pairs that note what they are called with. So the list is the order in which the engine
launches, whatever that order is, and costs no memory and no compiler.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from andrea_lab.model.config import ModelConfig
from andrea_lab.model.graph import Graph
from andrea_lab.model.layout import layout
from andrea_lab.model.memory import activations
from kernels.pairs import PAIRS

ZERO, TOTAL = "zero", "sum"  # the two parts that are no pair


@dataclass(frozen=True)
class Part:
    """The forward or backward of one pair in the order of the step, or a zeroing, or the sum of the losses.

    arrays: names of the activations and their gradients as the memory plan has them; tensors: of the weights it reads;
    gradients: of the weights whose gradients it adds to; all in the order of the arguments. layer: None outside the
    layers.
    """

    name: str
    backward: bool
    layer: int | None
    arrays: tuple[str, ...]
    tensors: tuple[str, ...]
    gradients: tuple[str, ...]


@dataclass(frozen=True)
class _Name:
    """A name where the graph has an array."""

    text: str
    kind: str


class _Noted(Graph):
    """A graph over names; what it yields is parts in place of launches."""

    def __init__(self, model: ModelConfig):
        self.model, self.arena = model, self
        self.arrays = {name: _Name(name, "array") for name, *_ in activations(model, 1, 1)}
        self.weights = {tensor.name: _Name(tensor.name, "tensor") for tensor in layout(model)}
        self.gradients = {tensor.name: _Name(tensor.name, "gradient") for tensor in layout(model)}
        self.head = "wte" if model.tie_embeddings else "lm_head"
        self.between = lambda: None

    @property
    def pairs(self) -> dict[str, Any]:
        return {name: _Pair(name) for name in PAIRS}

    def span(self, first: str, last: str) -> tuple[_Name, ...]:
        """The names from one to another, as the arena's `span` is the memory."""
        names = list(self.arrays)
        return tuple(self.arrays[name] for name in names[names.index(first) : names.index(last) + 1])

    def zero(self, flat: tuple[_Name, ...]) -> list[Part]:
        return _part(ZERO, True)(*flat)

    def total(self, values: _Name, out: _Name) -> list[Part]:
        return _part(TOTAL, False)(values, out)


class _Pair:
    """Takes the place of a pair."""

    def __init__(self, name: str):
        self.forward, self.backward = _part(name, False), _part(name, True)


def _part(name: str, backward: bool) -> Callable[..., list[Part]]:
    def noted(*arguments: _Name) -> list[Part]:
        kinds = ([a.text for a in arguments if a.kind == kind] for kind in ("array", "tensor", "gradient"))
        arrays, tensors, gradients = map(tuple, kinds)
        return [Part(name, backward, _layer(tensors or arrays), arrays, tensors, gradients)]

    return noted


def _layer(names: tuple[str, ...]) -> int | None:
    """The layer of a part: that of its weights, else of the last of its arrays that belongs to one."""
    found = [name.split(".")[0] for name in names if name.startswith("layer")]
    return int(found[-1].removeprefix("layer")) if found else None


def flow(model: ModelConfig) -> tuple[Part, ...]:
    """The parts of one microbatch, forward then backward, as the engine launches them."""
    noted = _Noted(model)
    return (*noted.forward(), *noted.backward())
