"""The weight file itself: exactly the published bytes, for whoever writes and reads them."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_lab.checkpoint import single
from andrea_lab.checkpoint.load import load
from andrea_lab.checkpoint.save import save
from andrea_lab.checkpoint.single import CheckpointError
from tests.checkpoint.material import arrays, bits, blank


def any_numbers(seed, n):
    """w, m and v of any bits that may be kept."""
    rng = np.random.default_rng(seed)
    w, m, v = (rng.integers(0, 2**32, n, np.uint32).view(np.float32) for _ in range(3))
    for array in (w, m, v):
        array[~np.isfinite(array)] = -0.0
    return w, m, np.abs(v)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31 - 1), st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_the_bytes_are_exactly_the_published_ones(tmp_path_factory, step, n, seed):
    triple = any_numbers(seed, n)
    saved = save(tmp_path_factory.mktemp("w"), step, *triple)
    data = saved.file.read_bytes()
    assert data == struct.pack("<ii", step, n) + bits(triple)
    assert len(data) == 8 + 12 * n == single.nbytes(n) and saved.file.name == f"step_{step:06d}.bin"
    found, *again = single.read(saved.file)
    assert found == step and bits(again) == bits(triple)
    into = blank(n)
    assert load(saved.file, *into).step == step and bits(into) == bits(triple)


def test_a_file_made_by_hand_is_read(tmp_path):
    """So another program's file is: header, weights, first and second averages, nothing else."""
    (tmp_path / "step_000003.bin").write_bytes(struct.pack("<ii6f", 3, 2, 1.0, -2.0, 0.5, 0.25, 0.0, 4.0))
    step, w, m, v = single.read(tmp_path / "step_000003.bin")
    assert (step, w.tolist(), m.tolist(), v.tolist()) == (3, [1.0, -2.0], [0.5, 0.25], [0.0, 4.0])
    assert single.read_header(tmp_path / "step_000003.bin") == (3, 2)
    assert {a.dtype for a in (w, m, v)} == {np.dtype("<f4")}


def test_published_size_of_12m():
    assert single.nbytes(12_790_272) == 153_483_272
    assert single.nbytes(98_737_152) == 1_184_845_832
    assert single.nbytes(np.int32(200_000_000)) == 2_400_000_008


def test_a_file_beyond_two_gibibytes_is_judged_by_its_true_size(tmp_path):
    path, n = tmp_path / "step_000003.bin", 200_000_000
    path.write_bytes(struct.pack("<ii", 3, n))
    with open(path, "r+b") as file:  # a hole, which takes no room
        file.truncate(8 + 12 * n)
        assert single.read_header(path) == (3, n)
        file.truncate((8 + 12 * n) // 2)
    with pytest.raises(CheckpointError, match="found 1200000004 bytes, expected 2400000008"):
        single.read_header(path)


def test_names_say_steps():
    names = ("step_000042.bin", "step_1000000.bin", "step_0000042.bin", "step_42.bin")
    assert [single.step_of(name) for name in names] == [42, 10**6, 42, None]


def test_reading_into_arrays_that_do_not_fit_leaves_them(tmp_path):
    path = save(tmp_path, 3, *arrays(0, 5)).file
    mine = blank(6)
    with pytest.raises(CheckpointError, match="found 5 parameters, expected 6"):
        single.read_into(path, *mine)
    with pytest.raises(CheckpointError, match="found 5 parameters, expected 6"):
        single.read_into(path, mine[0], *blank(5)[:2])
    assert all(np.isnan(a).all() for a in mine)
