"""What a model takes in memory: what lessons say of it, and what the shapes say."""

from pathlib import Path

import pytest

from andrea_lab.model.config import ModelConfig, load_config
from andrea_lab.model.layout import layout
from andrea_lab.model.memory import plan

EXPERIMENTS = Path(__file__).parents[2] / "data" / "experiments"
CARD = 24e9  # bytes of the card the large model was trained on
NORMS = {f"ln{n}.{part}": (768,) for n in (1, 2) for part in ("gamma", "beta")}
BLOCK = {f"W_{n}": (768, 768) for n in "QKVO"} | {"W_1": (768, 3072), "W_2": (3072, 768)} | NORMS
OUTSIDE = {"wte": (8449, 768), "wpe": (1024, 768), "ln_f.gamma": (768,), "ln_f.beta": (768,), "lm_head": (8449, 768)}


def model(name: str) -> ModelConfig:
    return load_config(name, EXPERIMENTS).model


LARGE, SMALL = model("ANDREA-120M"), model("ANDREA-12M")


def test_the_gradient_tensors_of_the_120m_one_by_one():
    """Twelve times the ten of a block, and five outside: the sizes add up to the plan's one vector of gradients."""
    table = {tensor.name: tensor.shape for tensor in layout(LARGE)}
    blocks = {f"layer{i}.{name}": shape for i in range(12) for name, shape in BLOCK.items()}
    assert table == blocks | OUTSIDE
    block = 4 * 768**2 + 2 * 768 * 3072 + 4 * 768
    outside = 2 * 8449 * 768 + 1024 * 768 + 2 * 768
    assert 12 * block + outside == 98_737_152
    for precision, size in (("float32", 4), ("float16", 2)):
        roles = plan(LARGE, 8, 1024, precision).by_role()
        assert roles["gradients"] == roles["weights"] == size * (12 * block + outside)


def test_activations_take_most_of_the_memory_of_the_120m():
    """Sixteen tensors of N rows and C channels a layer, as pre and act are four wide; 403 MB a layer, 12 layers."""
    made = plan(LARGE, 8, 1024)
    saved, one = made.by_role()["saved"], 8 * 1024 * 768 * 4
    assert one == 25_165_824
    layer = sum(region.nbytes for region in made.regions if region.name.startswith("layer3."))
    assert 16 * one < layer < 16.1 * one
    assert 12 * layer / saved == pytest.approx(1, abs=0.02)
    assert saved > made.total / 2
    backward = made.by_role()["logits"] + made.by_role()["activation gradients"]
    assert 5e9 < saved + backward < 10e9, "of 24: what the lessons call five to ten"


def test_the_table_of_memory():
    """Weights, gradients, m and v are one size; saved activations follow the batch, so no multiple of it fits all."""
    for batch, context, times in ((8, 1024, 12.4), (1, 128, 0.19)):
        made = plan(LARGE, batch, context)
        roles = made.by_role()
        weights = roles["weights"]
        assert weights == roles["gradients"] == roles["m"] == roles["v"] == 4 * made.n_params
        assert roles["saved"] / weights == pytest.approx(times, rel=0.02)
        others = sum(n for role, n in roles.items() if role not in ("weights", "gradients", "m", "v", "saved"))
        assert 4 * weights + roles["saved"] + others + made.padding == made.total
    assert plan(LARGE, 8, 1024).total / weights > 8 and plan(LARGE, 1, 128).total / weights < 6


def test_eight_rows_of_1024_tokens_fit_the_card_in_half_precision_and_128_do_not():
    """The moments stay float32, so w, g, master, m, v are 16 bytes a parameter and not four times 240 MB."""
    half = plan(LARGE, 8, 1024, "float16")
    roles = half.by_role()
    assert sum(roles[name] for name in ("weights", "gradients", "master", "m", "v")) == 16 * half.n_params
    assert half.total == 4_304_264_896 < CARD
    assert plan(LARGE, 128, 1024, "float16").total > CARD, "a larger batch is taken in microbatches"
    low, high = 4 * 0.24 + 5, 4 * 0.24 + 10
    assert low == pytest.approx(5.96) and high == pytest.approx(10.96), "and not 10 to 12, as is said"


def test_ten_times_the_parameters_is_neither_ten_times_nor_the_same_ratio_of_memory():
    small, large = plan(SMALL, 8, 1024), plan(LARGE, 8, 1024)
    assert large.n_params / small.n_params == pytest.approx(7.72, abs=0.01)
    assert large.total / small.total == pytest.approx(4.24, abs=0.01)
    assert small.total == pytest.approx(1.66e9, rel=0.01), "1.4 GB is said of the run; 6 rows take that"
    assert plan(SMALL, 6, 1024).total < 1.4e9 < plan(SMALL, 7, 1024).total
