"""The order of a step, read from the graph without running it, is the order in which the graph launches."""

import pytest

from andrea_lab.model import graph as graph_module
from andrea_lab.model.config import ModelConfig
from andrea_lab.model.flow import TOTAL, ZERO, flow
from andrea_lab.model.graph import Graph
from andrea_lab.model.layout import layout
from andrea_lab.model.memory import Arena, plan
from kernels.pairs import PAIRS


def model(layers: int = 3, tied: bool = False) -> ModelConfig:
    return ModelConfig(vocab=9, context=4, width=8, heads=2, layers=layers, tie_embeddings=tied)


class Watched:
    """A pair that binds its launches as ever and notes the addresses of the arrays it is given."""

    def __init__(self, pair, calls):
        self.pair, self.calls = pair, calls

    def forward(self, *arrays):
        return self._noted(False, self.pair.forward, arrays)

    def backward(self, *arrays):
        return self._noted(True, self.pair.backward, arrays)

    def _noted(self, backward, bind, arrays):
        self.calls.append((self.pair.name, backward, [array.ctypes.data for array in arrays]))
        return bind(*arrays)


@pytest.mark.parametrize("tied", [False, True])
def test_the_flow_is_what_the_graph_launches_with_the_arrays_it_launches_them_with(monkeypatch, tied):
    calls, shape = [], model(tied=tied)
    monkeypatch.setattr(graph_module, "PAIRS", {name: Watched(pair, calls) for name, pair in PAIRS.items()})
    arena = Arena(plan(shape, 1, 4))
    graph = Graph(shape, arena, 1, 4)
    assert graph.forward() and graph.backward()
    names = {array.ctypes.data: name for name, array in graph.arrays.items()}
    names |= {array.ctypes.data: name for name, array in graph.weights.items()}
    names |= {array.ctypes.data: f"gradient of {name}" for name, array in graph.gradients.items()}
    launched = [(name, backward, {names[address] for address in arrays}) for name, backward, arrays in calls]
    noted = [
        (part.name, part.backward, {*part.arrays, *part.tensors, *(f"gradient of {name}" for name in part.gradients)})
        for part in flow(shape)
        if part.name in PAIRS
    ]
    assert noted == launched and len(noted) == 2 * (8 * 3 + 3) - 2 * 3  # a sum has no backward launch


def test_every_layer_has_its_eight_parts_and_every_weight_one_gradient():
    parts = flow(model(layers=5))
    for layer in range(5):
        own = [part for part in parts if part.layer == layer]
        assert [sum(part.backward == way for part in own) for way in (False, True)] == [8, 6]
    added = [name for part in parts for name in part.gradients]
    assert sorted(added) == sorted(tensor.name for tensor in layout(model(layers=5)))


def test_buffers_are_zeroed_before_they_are_added_to():
    parts = flow(model())
    assert [part.name for part in parts].count(TOTAL) == 1
    zeroed = set()
    for part in (part for part in parts if part.backward):
        if part.name == ZERO:
            zeroed |= {*part.arrays}
        elif part.name in ("mlp", "attn_qkv"):
            assert "dh" in zeroed
            zeroed.discard("dh")


def test_the_flow_of_a_large_model_costs_nothing():
    large = ModelConfig(vocab=50_000, context=2048, width=8192, heads=64, layers=80)
    assert len([part for part in flow(large) if not part.backward]) == 8 * 80 + 4
