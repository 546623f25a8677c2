"""The memory plan is arithmetic on shapes, and its figures are those of the published sizes."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab.model.claims import claims
from andrea_lab.model.config import ModelConfig, load_config
from andrea_lab.model.memory import ALIGN, ROLES, Arena, plan

EXPERIMENTS = Path(__file__).parents[2] / "data" / "experiments"
TINY = ModelConfig(vocab=33, context=9, width=12, heads=3, layers=2)


def model(name: str) -> ModelConfig:
    return load_config(name, EXPERIMENTS).model


def test_one_saved_tensor_of_the_120m_is_25_mb():
    made = plan(model("ANDREA-120M"), 8, 1024)
    assert made.by_name["layer0.h1"].nbytes == 8 * 1024 * 768 * 4 == 25_165_824
    assert made.by_role()["weights"] == made.by_role()["gradients"] == made.by_role()["m"] == 4 * 98_737_152


def test_saved_bytes_follow_the_formula():
    m, b, t = model("ANDREA-12M"), 4, 256
    n, c = b * t, m.width
    per_layer = 16 * n * c + 4 * n + b * m.heads * t  # x, h1, q, k, v, att, mid, h2: 8 C; pre, act: 8 C; statistics
    assert plan(m, b, t).by_role()["saved"] == 4 * (m.layers * per_layer + 2 * n * c + 2 * n)


@given(st.integers(1, 5), st.integers(1, 9), st.sampled_from(["float32", "float16"]))
def test_regions_are_aligned_disjoint_and_complete(batch, context, precision):
    made = plan(TINY, batch, context, precision)
    at = 0
    for region in made.regions:
        assert region.offset % ALIGN == 0 and region.offset >= at and region.role in ROLES
        at = region.offset + region.nbytes
    assert at <= made.total < at + ALIGN
    assert sum(made.by_role().values()) + made.padding == made.total
    assert sum(made.saved().values()) == made.by_role()["saved"]
    assert len(made.by_name) == len(made.regions)


def test_half_precision_halves_tensors_and_keeps_moments_and_statistics():
    full, half = plan(TINY, 2, 8), plan(TINY, 2, 8, "float16")
    a, b = full.by_role(), half.by_role()
    assert b["weights"] * 2 == a["weights"] == b["master"] and b["m"] == a["m"] and b["v"] == a["v"]
    assert half.by_name["layer0.h1"].nbytes * 2 == full.by_name["layer0.h1"].nbytes
    assert half.by_name["layer0.ln1.mean"].nbytes == full.by_name["layer0.ln1.mean"].nbytes
    with pytest.raises(ValueError, match="precision: found 'int8'"):
        plan(TINY, 2, 8, "int8")


def test_an_arena_is_exactly_its_plan():
    made = plan(TINY, 2, 8)
    arena = Arena(made)
    assert arena.nbytes == made.total
    for number, name in enumerate(made.by_name):
        arena.view(name)[...] = number
    for number, name in enumerate(made.by_name):
        view = arena.view(name)
        assert view.ctypes.data % ALIGN == 0 and np.all(view == number)
    assert arena.view("tokens").dtype == np.int32
    span = arena.span("dx", "dv")
    span[...] = 0
    assert all(not np.any(arena.view(name)) for name in ("dx", "dh", "datt", "dq", "dk", "dv"))
    assert np.any(arena.view("dpre")) and np.any(arena.view("branch"))


def test_a_view_may_be_smaller_and_not_larger():
    arena = Arena(plan(TINY, 2, 8))
    small = arena.view("hf", (3, 12))
    small[...] = 5
    assert np.all(arena.view("hf")[:3] == 5) and not np.any(arena.view("hf")[3:])
    with pytest.raises(ValueError, match="hf: found shape"):
        arena.view("hf", (17, 12))


def test_claims_carry_computed_numbers():
    found = {claim.about: claim for claim in claims()}
    assert [claim.about for claim in found.values() if claim.holds] == ["one saved tensor"]
    for about, number in (
        ("gradients", "98,737,152 parameters (92,248,320 tied) are 395 and 197 MB"),
        ("weight file of the 12M", "153,483,272 bytes are 153.5 MB or 146.4 MiB"),
        ("weight file of the 120M", "1,184,845,832 bytes = 1.18 GB"),
        ("m and v", "1.58 GB"),
        ("from 12M to 120M", "7.7 times"),
        ("one saved tensor", "25,165,824 bytes = 25.2 MB"),
        ("attention probabilities", "384 MiB a layer, 4.5 GiB in all"),
        ("120M in float16", "the sum as written is 6 to 11 GB"),
    ):
        assert number in found[about].found
