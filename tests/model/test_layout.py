"""The layout: published counts, canonical order, no gap, one closed form."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab.model.config import ModelConfig, load_config
from andrea_lab.model.layout import count_params, layout

EXPERIMENTS = Path(__file__).parents[2] / "data" / "experiments"
COUNTS = [
    ("ANDREA-12M", False, 12_790_272),
    ("ANDREA-12M", True, 11_905_152),
    ("ANDREA-120M", False, 98_737_152),
    ("ANDREA-120M", True, 92_248_320),
    ("ANDREA-480M", False, 480_614_400),
]


@pytest.mark.parametrize(("name", "tied", "count"), COUNTS)
def test_published_counts(name, tied, count):
    model = load_config(name, EXPERIMENTS).model.model_copy(update={"tie_embeddings": tied})
    assert layout(model).n_params == count_params(model) == count


def test_shapes_of_the_120m_block():
    table = layout(load_config("ANDREA-120M", EXPERIMENTS).model)
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        assert table[f"layer11.{name}"].shape == (768, 768)
    assert table["layer0.W_1"].shape == (768, 3072) and table["layer0.W_2"].shape == (3072, 768)
    for name in ("ln1.gamma", "ln1.beta", "ln2.gamma", "ln2.beta"):
        assert table[f"layer5.{name}"].shape == (768,)
    assert table["wte"].shape == table["lm_head"].shape == (8449, 768) and table["wpe"].shape == (1024, 768)


def test_canonical_order():
    model = ModelConfig(vocab=10, context=4, width=8, heads=2, layers=2)
    block = ["ln1.gamma", "ln1.beta", "W_Q", "W_K", "W_V", "W_O", "ln2.gamma", "ln2.beta", "W_1", "W_2"]
    names = ["wte", "wpe", *(f"layer{i}.{n}" for i in range(2) for n in block), "ln_f.gamma", "ln_f.beta", "lm_head"]
    assert [tensor.name for tensor in layout(model)] == names
    assert [t.name for t in layout(model.model_copy(update={"tie_embeddings": True}))] == names[:-1]


def test_only_the_matrices_of_the_blocks_decay():
    model = ModelConfig(vocab=10, context=4, width=8, heads=2, layers=2)
    assert {t.name.split(".")[-1] for t in layout(model) if t.decay} == {"W_Q", "W_K", "W_V", "W_O", "W_1", "W_2"}


models = st.builds(
    lambda vocab, context, heads, size, layers, tied: ModelConfig(
        vocab=vocab, context=context, width=heads * size, heads=heads, layers=layers, tie_embeddings=tied
    ),
    st.integers(1, 40), st.integers(1, 20), st.integers(1, 4), st.integers(1, 9), st.integers(1, 4), st.booleans(),
)  # fmt: skip


@given(models)
def test_tensors_and_regions_tile_the_vector(model):
    table = layout(model)
    at = 0
    for tensor in table:
        assert tensor.offset == at
        at = tensor.stop
    assert at == table.n_params == count_params(model)
    at = 0
    for start, stop, decay in table.regions():
        assert start == at and all(t.decay == decay for t in table if start <= t.offset < stop)
        at = stop
    assert at == table.n_params


def test_views_share_the_vector():
    model = ModelConfig(vocab=5, context=3, width=4, heads=2, layers=1, tie_embeddings=True)
    table = layout(model)
    flat = np.zeros(table.n_params, np.float32)
    views = table.views(flat)
    for number, tensor in enumerate(table, 1):
        views[tensor.name][...] = number
    assert [flat[t.offset] for t in table] == list(range(1, len(table.tensors) + 1))
    with pytest.raises(ValueError, match="found shape"):
        table.views(flat[:-1])


def test_offsets_beyond_two_gigabytes_are_exact():
    model = ModelConfig(vocab=2**20, context=1, width=4096, heads=1, layers=1)
    last = layout(model)["lm_head"]
    assert last.offset * 4 > 2**31 and last.stop == count_params(model)
