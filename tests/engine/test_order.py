"""Which pair follows which, forward and backward, and whose gradient goes where; twelve layers, no launch run."""

import inspect
from dataclasses import dataclass, replace

import pytest

from andrea_lab.engine import engine as engine_module
from andrea_lab.model import graph as graph_module
from andrea_lab.model.config import ModelConfig
from andrea_lab.model.graph import Graph
from andrea_lab.model.memory import Arena, plan
from kernels import reduce
from kernels.pairs import PAIRS
from tests.engine.tiny import config, engine, one

LAYERS = 12
BLOCK = ["layernorm", "attn_qkv", "attn", "attn_out", "residual", "layernorm", "mlp", "residual"]
# Of the arguments of backward: the gradients that come in, those handed on upstream, those of the weights.
INCOMING = {"loss": ("dlosses",), "attn_qkv": ("dq", "dk", "dv")}
UPSTREAM = {"attn": ("dq", "dk", "dv"), "embed": ()}
WEIGHTS = {
    "loss": ("dhead",),
    "layernorm": ("dgamma", "dbeta"),
    "mlp": ("dw1", "dw2"),
    "attn_out": ("dw",),
    "attn": (),
    "attn_qkv": ("dwq", "dwk", "dwv"),
    "embed": ("dwte", "dwpe"),
}


@dataclass
class Call:
    """One use of a pair: its name, and its arguments by name."""

    pair: str
    arguments: dict

    def places(self, names) -> list[int]:
        return [place(self.arguments[name]) for name in names]

    @property
    def incoming(self):
        return self.places(INCOMING.get(self.pair, ("dout",)))

    @property
    def upstream(self):
        return self.places(UPSTREAM.get(self.pair, ("dinp",)))


def place(array) -> int:
    return array.ctypes.data


def deep(tied: bool) -> Graph:
    model = ModelConfig(vocab=9, context=4, width=8, heads=2, layers=LAYERS, tie_embeddings=tied)
    return Graph(model, Arena(plan(model, 1, 4)), 1, 4)


def calls(graph: Graph, direction: str, monkeypatch) -> list[Call]:
    """The pairs in the order in which the graph asks for their launches."""
    found = []

    def recorder(pair):
        names = list(inspect.signature(getattr(pair, direction)).parameters)

        def record(*arguments):
            found.append(Call(pair.name, dict(zip(names, arguments, strict=False))))
            return []

        return replace(pair, **{direction: record})

    with monkeypatch.context() as patch:
        patch.setattr(graph_module, "PAIRS", {name: recorder(pair) for name, pair in PAIRS.items()})
        getattr(graph, direction)()
    return found


@pytest.mark.parametrize("tied", [True, False])
def test_forward_is_embedding_twelve_layers_norm_head_and_loss(tied, monkeypatch):
    graph = deep(tied)
    found = calls(graph, "forward", monkeypatch)
    assert [call.pair for call in found] == ["embed", *LAYERS * BLOCK, "layernorm", "loss"]
    first, last = found[0].arguments, found[-1].arguments
    assert (place(last["head"]) == place(first["wte"])) == tied, "tied, the head is the table of embeddings"
    assert place(last["inp"]) == place(found[-2].arguments["out"])
    sums, norms = ([call.arguments for call in found if call.pair == pair] for pair in ("residual", "layernorm"))
    stream = [place(first["out"]), *(place(s["out"]) for s in sums)]
    assert len(set(stream)) == 1 + 2 * LAYERS
    assert [place(n["inp"]) for n in norms] == stream, "every branch begins by normalising the stream"
    assert [place(s["a"]) for s in sums] == stream[:-1], "and is added to the stream it came from"


def test_backward_is_the_same_list_from_its_end(monkeypatch):
    """A sum hands its gradient on unchanged, so it needs no launch of its own: the buffer stays where it is."""
    graph = deep(tied=True)
    forward, backward = (calls(graph, direction, monkeypatch) for direction in ("forward", "backward"))
    assert [c.pair for c in backward] == [c.pair for c in reversed(forward) if c.pair != "residual"]
    assert backward[0].incoming == [place(graph.arrays["dlosses"])]


def test_every_gradient_comes_from_the_pair_above(monkeypatch):
    graph = deep(tied=True)
    found = calls(graph, "backward", monkeypatch)
    writer, sources = {place(graph.arrays["dlosses"]): "start"}, []
    for call in found:
        sources.append((call.pair, *{writer[where] for where in call.incoming}))
        writer |= dict.fromkeys(call.upstream, call.pair)
    half = [("mlp", "layernorm"), ("layernorm", "mlp")]
    other = [("attn_out", "layernorm"), ("attn", "attn_out"), ("attn_qkv", "attn"), ("layernorm", "attn_qkv")]
    start = [("loss", "start"), ("layernorm", "loss")]
    assert sources == [*start, *LAYERS * (half + other), ("embed", "layernorm")]


@pytest.mark.parametrize("tied", [True, False])
def test_the_gradients_of_the_weights_fill_one_vector_of_their_size(tied, monkeypatch):
    """Each weight has a gradient of its shape at its own offset; together they are the vector, without a gap."""
    graph = deep(tied)
    assert graph.gradients.keys() == graph.weights.keys()
    start = {kind: place(graph.arena.view(kind)) for kind in ("weights", "gradients")}
    for name, gradient in graph.gradients.items():
        weight = graph.weights[name]
        assert gradient.shape == weight.shape and gradient.dtype == weight.dtype
        assert place(gradient) - start["gradients"] == place(weight) - start["weights"]
    written = [call.arguments[name] for call in calls(graph, "backward", monkeypatch) for name in WEIGHTS[call.pair]]
    spans = sorted({(place(array) - start["gradients"], array.nbytes) for array in written})
    assert len(written) == len(spans) + tied, "a tied table is written twice, everything else once"
    at = 0
    for offset, nbytes in spans:
        assert offset == at
        at += nbytes
    assert at == graph.arena.view("gradients").nbytes == graph.arena.view("weights").nbytes


def test_the_optimiser_reads_the_vector_that_backward_fills(monkeypatch):
    seen, update = [], engine_module.adamw.update
    monkeypatch.setattr(engine_module.adamw, "update", lambda *given: seen.append(given) or update(*given))
    made = engine()
    ((w, g, m, v, *_),) = seen
    assert [place(a) for a in (w, g, m, v)] == [
        place(made.arena.view(name)) for name in ("weights", "gradients", "m", "v")
    ]
    assert w.size == g.size == m.size == v.size == made.layout.n_params


def test_the_first_gradient_is_one():
    """That of the loss by itself. The mean is taken later, when the sum over all microbatches is divided."""
    made = engine()
    one(made)
    assert (made.graph.arrays["dlosses"] == 1.0).all()


def test_the_named_way_takes_99_launches_forward_and_99_backward(monkeypatch):
    """One launch a pair: 8 * 12 + 3. Backward needs the sums' launches too; at 9 steps a minute, 900 a minute."""
    named = {n: replace(p, forward=p.named_forward, backward=p.named_backward) for n, p in PAIRS.items()}
    graph = deep(tied=True)
    total = len(reduce.sum(graph.arrays["losses"], graph.arrays["loss_sum"]))
    monkeypatch.setattr(graph_module, "PAIRS", named)
    launches = graph.forward()
    assert len(launches) - total == 8 * LAYERS + 3 == 99
    assert [one.name for one in launches[1:9]] == [named[pair].fwd.name for pair in BLOCK]
    pairs = [one.name for one in graph.backward() if one.name.endswith("_bwd")]
    assert len(pairs) + 2 * LAYERS == 99
    assert 850 < 9 * 99 < 950


def test_a_step_runs_forward_and_backward_for_each_microbatch_then_norm_update_and_zero(monkeypatch):
    made = engine(config(batch=1, microbatches=3))
    given, run = [], engine_module.run
    monkeypatch.setattr(engine_module, "run", lambda launches: given.append(launches) or run(launches))
    for _ in range(2):
        one(made)
    step = [*3 * [made._microbatch], made._norm, made._update]
    assert len(given) == len(2 * step)
    assert all(a is b for a, b in zip(given, 2 * step, strict=True)), "every step runs the same prepared lists"
    assert made._microbatch[: len(made._forward)] == made._forward
    assert made._update[-len(made._zero) :] == made._zero and "k_adamw" in {one.name for one in made._update}
