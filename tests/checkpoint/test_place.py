"""Which tensor a byte of a weight file belongs to, against the bytes themselves."""

import struct

import numpy as np
import pytest

from andrea_lab.checkpoint.place import REGIONS, Cut, place, start
from andrea_lab.checkpoint.single import CheckpointError, nbytes
from andrea_lab.model.config import ModelConfig
from andrea_lab.model.layout import layout

TENSORS = layout(ModelConfig(vocab=6, context=4, width=4, heads=1, layers=1))
N = TENSORS.n_params


def test_every_byte_of_a_file_is_found_where_it_was_written():
    arrays = [np.arange(N, dtype=np.float32) + 1000 * k for k in range(3)]
    data = struct.pack("<ii", 200, N) + b"".join(array.tobytes() for array in arrays)
    assert len(data) == nbytes(N)
    views = {region: TENSORS.views(array) for region, array in zip(REGIONS, arrays, strict=True)}
    for byte in range(8, len(data)):
        there = place(byte, TENSORS, N)
        (value,) = struct.unpack_from("<f", data, there.first)
        assert views[there.region][there.tensor][there.index] == value
        assert views[there.region][there.tensor].reshape(-1)[there.element] == value
        assert there.offset == byte - start(N, there.region, TENSORS[there.tensor].offset) and byte - there.first < 4


def test_the_header_has_two_fields():
    said = [str(place(byte, TENSORS, N)) for byte in (0, 3, 4)]
    assert said == [
        "byte 0: header, byte 0 of step, an int32",
        "byte 3: header, byte 3 of step, an int32",
        "byte 4: header, byte 0 of n, an int32",
    ]


def test_a_place_in_words():
    assert str(place(1384, TENSORS, N)) == "byte 1,384: m, layer0.W_K, number 0 = [0, 0], byte 0 of its 4"
    assert str(place(8 + 4 * 42 + 3, TENSORS, N)) == "byte 179: w, layer0.ln1.gamma, number 2, byte 3 of its 4"
    assert str(place(9, [Cut("all", 0, (50,))], 50)) == "byte 9: w, all, number 0, byte 1 of its 4"


def test_a_byte_beyond_two_gigabytes_does_not_wrap():
    n = 200_000_000
    last = place(nbytes(n) - 1, [Cut("all", 0, (n,))], n)
    assert (last.byte, last.region, last.element) == (2_400_000_007, "v", n - 1)


@pytest.mark.parametrize("byte", [-1, 8 + 12 * N])
def test_a_byte_outside_the_file_is_one_line(byte):
    with pytest.raises(CheckpointError, match=f"^byte: found {byte}, expected 0 to 3367, the last of 8 \\+ 12 x 280"):
        place(byte, TENSORS, N)
