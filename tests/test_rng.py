"""The one random generator: committed vectors, portable arithmetic, and no other generator anywhere."""

import ast
import hashlib
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab.rng import GOLDEN, MASK, Shuffle, Stream, log, mix, rng, sincos_turn

ROOT = Path(__file__).resolve().parent.parent

# The sequence that SplitMix64 is published with, from the seed 1234567.
PUBLISHED = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]

NAMES = {
    (0, "init"): [0x15389869925CB755, 0x6E203EF1F079960B, 0x3A50C7500CD85EEC],
    (1, "batch", "kjv", 0): [0xD2DA600BADF91790, 0xF80CB558EEBD60B2, 0x282FC19E782CFC1A],
    (-5, "x", 2**70, "1"): [0xC450F7AD2E585409, 0x92456D0778A81C48, 0x6B06E214984E5717],
    (0, "x", "1"): [0x99A7A762F6696506, 0x7F27E712641867C1, 0xA9696969A167C317],
}


def test_words_are_splitmix64s():
    assert Stream(1234567).words(5).tolist() == PUBLISHED
    stream = Stream(1234567)
    assert [*stream.words(2).tolist(), *stream.words(3).tolist()] == PUBLISHED


@pytest.mark.parametrize("name", NAMES)
def test_named_streams_have_committed_words(name):
    assert rng(*name).words(3).tolist() == NAMES[name]


@given(st.integers(0, MASK), st.integers(0, MASK), st.integers(0, 5), st.integers(0, 20))
def test_words_are_a_function_of_the_counter(state, gamma, before, n):
    stream = Stream(state, gamma)
    stream.words(before)
    assert stream.words(n).tolist() == [mix((state + (i + 1) * (gamma | 1)) & MASK) for i in range(before, before + n)]
    assert stream.counter == before + n


def test_numbers_have_committed_bits():
    def stream():
        return rng(7, "vector")

    uniform = ["0x1.e5bfaf3861310p-3", "0x1.a803e3ae91fa8p-2", "0x1.8e8af416b26b1p-1", "0x1.937ce066f9527p-1"]
    normal = [
        "0x1.9b7d771fa150cp-2",
        "0x1.dd1b2716e7688p-1",
        "-0x1.6157c17d23b24p-1",
        "-0x1.a5ecb070e7571p+0",
        "-0x1.e4646a8ce8ac9p-1",
    ]
    assert [value.hex() for value in stream().uniform(4).tolist()] == uniform
    assert [value.hex() for value in stream().normal(5).tolist()] == normal
    assert stream().integers(8, 1000).tolist() == [237, 414, 778, 788, 873, 535, 696, 230]
    assert stream().integers(3, 2**32).tolist() == [1018688999, 1778448619, 3343219211]
    assert stream().permutation(10).tolist() == [7, 0, 1, 8, 5, 9, 6, 2, 3, 4]
    many = hashlib.sha256(stream().normal(100_001).astype("<f8").tobytes()).hexdigest()
    assert many == "a21eb0ca67006f3e71c0152f885bf0f4e96e1b42ecebe3d542ec90d1c4a8dd66"


def test_names_do_not_run_together():
    names = [(1, "a"), (1, "b"), (2, "a"), (1, "a", 1), (1, "a", "1"), (1, "a", 1, 1), (1, "a", 11), (1, "a", -1)]
    assert len({(rng(*name).state, rng(*name).gamma) for name in names}) == len(names)
    assert rng(np.int64(3), "a", np.int32(4)).words(2).tolist() == rng(3, "a", 4).words(2).tolist()


@pytest.mark.parametrize("name", [(1.0, "a"), (True, "a"), (1, 2), (1, "a", 2.0), (1, "a", False), (1, "a", None)])
def test_other_types_are_refused(name):
    with pytest.raises(TypeError, match="expected an int|expected a str"):
        rng(*name)


def test_every_gamma_is_odd_and_busy():
    for index in range(300):
        gamma = rng(0, "gamma", index).gamma
        assert gamma & 1 and (gamma ^ (gamma >> 1)).bit_count() >= 23
    assert GOLDEN & 1


@given(st.integers(1, 2**32), st.integers(0, MASK))
def test_integers_are_the_exact_product(hi, state):
    words = Stream(state).words(20).tolist()
    assert Stream(state).integers(20, hi).tolist() == [word * hi >> 64 for word in words]


@pytest.mark.parametrize("hi", [0, -1, 2**32 + 1])
def test_integers_refuse_a_range_they_cannot_serve(hi):
    with pytest.raises(ValueError, match="hi: expected 1 to 2"):
        rng(0, "a").integers(1, hi)


@given(st.integers(0, 9), st.integers(0, 40))
def test_normal_takes_an_even_number_of_words(seed, n):
    stream = rng(seed, "normal")
    assert stream.normal(n).shape == (n,)
    assert stream.counter == 2 * ((n + 1) // 2)


@given(st.floats(min_value=2.2250738585072014e-308, max_value=1.7e308))
def test_log_agrees_with_the_library(x):
    assert math.isclose(log(np.array([x]))[0], math.log(x), rel_tol=1e-15, abs_tol=1e-300)


def test_log_near_one_keeps_its_relative_precision():
    x = 1.0 + np.concatenate([2.0 ** -np.arange(1, 52), -(2.0 ** -np.arange(2, 53))])
    exact = np.log(x.astype(np.longdouble))
    assert (abs(log(x) - exact) / abs(exact)).max() < 5e-16
    assert log(np.array([1.0]))[0] == 0.0


@given(st.integers(0, 2**53 - 1))
def test_sine_and_cosine_agree_with_the_library(numerator):
    turn = numerator * 2.0**-53
    sine, cosine = sincos_turn(np.array([turn]))
    assert abs(sine[0] - math.sin(2 * math.pi * turn)) < 1e-15
    assert abs(cosine[0] - math.cos(2 * math.pi * turn)) < 1e-15


def test_quarter_turns_are_exact():
    sine, cosine = sincos_turn(np.array([0.0, 0.25, 0.5, 0.75]))
    assert sine.tolist() == [0.0, 1.0, 0.0, -1.0]
    assert cosine.tolist() == [1.0, 0.0, -1.0, 0.0]


def test_moments():
    uniform, normal = rng(3, "moments").uniform(200_000), rng(4, "moments").normal(200_000)
    assert uniform.min() >= 0 and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.003 and abs(uniform.var() - 1 / 12) < 0.001
    assert abs(normal.mean()) < 0.01 and abs(normal.std() - 1) < 0.01
    assert abs((normal**3).mean()) < 0.03 and abs((normal**4).mean() - 3) < 0.08
    assert abs(np.corrcoef(uniform[:-1], uniform[1:])[0, 1]) < 0.01
    assert abs(np.corrcoef(normal[:100_000], normal[100_000:])[0, 1]) < 0.02
    counts = np.bincount(rng(5, "moments").integers(60_000, 6))
    assert (abs(counts - 10_000) < 450).all()


@given(st.integers(0, 300), st.integers(0, 5))
def test_permutation_holds_every_number_once(n, seed):
    assert sorted(rng(seed, "order").permutation(n).tolist()) == list(range(n))


@given(st.integers(1, 700), st.integers(0, 5))
def test_shuffle_is_a_bijection(n, seed):
    shuffle = Shuffle(n, rng(seed, "shuffle"))
    assert sorted(shuffle[k] for k in range(n)) == list(range(n))
    assert len(shuffle) == n


def test_shuffle_has_committed_values_and_bounds():
    shuffle = Shuffle(10, rng(7, "vector"))
    assert [shuffle[k] for k in range(10)] == [6, 9, 3, 0, 8, 5, 1, 2, 7, 4]
    big = Shuffle(1_000_003, rng(7, "vector"))
    assert [big[k] for k in range(5)] == [686044, 889753, 395536, 967203, 754646]
    for k in (-1, 10):
        with pytest.raises(IndexError, match="expected 0 to 9"):
            shuffle[k]
    with pytest.raises(ValueError, match="expected 1 or more"):
        Shuffle(0, rng(0, "a"))


def test_shuffle_leaves_no_neighbours_in_order():
    n = 5000
    order = [Shuffle(n, rng(1, "mixed"))[k] for k in range(n)]
    assert abs(np.corrcoef(order, range(n))[0, 1]) < 0.06
    assert sum(b == a + 1 for a, b in zip(order, order[1:], strict=False)) < 10


def test_negative_counts_are_refused():
    for draw in ("words", "uniform", "normal", "permutation"):
        with pytest.raises(ValueError, match="n: expected 0 or more, found -1"):
            getattr(rng(0, "a"), draw)(-1)


def forbidden(tree: ast.AST) -> list[str]:
    """Names of other generators that a file uses."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in ("random", "secrets", "uuid")]
            found += [alias.name for alias in node.names if alias.name.startswith("numpy.random")]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module.split(".")[0] in ("random", "secrets", "uuid") or module.startswith("numpy.random"):
                found.append(module)
            found += [f"{module}.{alias.name}" for alias in node.names if (module, alias.name) == ("numpy", "random")]
            found += [f"os.{alias.name}" for alias in node.names if (module, alias.name) == ("os", "urandom")]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in ("np.random", "numpy.random", "os.urandom"):
                found.append(name)
    return found


@pytest.mark.parametrize(
    "code",
    [
        "import random",
        "from random import choice",
        "import numpy.random as r",
        "from numpy import random",
        "from numpy.random import default_rng",
        "x = np.random.rand(3)",
        "x = os.urandom(3)",
        "import secrets",
    ],
)
def test_the_search_for_other_generators_finds_them(code):
    assert forbidden(ast.parse(code))


# A token that nobody can guess must not be what anybody could draw again.
MUST_BE_GUESSED_BY_NOBODY = {"andrea_lab/view/dashboard/serve.py": ["secrets"]}


def test_no_other_generator_is_used():
    files = [file for folder in ("kernels", "andrea_lab") for file in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 10
    assert {
        str(file.relative_to(ROOT)): names for file in files if (names := forbidden(ast.parse(file.read_text())))
    } == MUST_BE_GUESSED_BY_NOBODY
