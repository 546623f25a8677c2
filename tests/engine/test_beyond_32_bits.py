"""Counters and sizes beyond 2^31: a long run of a large model must not wrap where a number grows past 32 bits."""

import struct

import numpy as np
import pytest

from andrea_lab import text
from andrea_lab.checkpoint import single
from andrea_lab.checkpoint.save import save
from andrea_lab.checkpoint.single import INT32_MAX, file_name, read_header, step_of
from andrea_lab.engine.schedule import learning_rate
from tests.engine.tiny import config


@pytest.mark.parametrize("draw", [2**31 - 1, 2**31, 2**33, 2**40])
def test_draws_beyond_two_to_the_31_go_on_through_the_text(draw):
    source, rows = text.sources()["shakespeare"], []
    for batch, first in ((2, draw), (1, 2 * draw), (1, 2 * draw + 1)):
        tokens, targets = (np.zeros((batch, 16), np.int32) for _ in range(2))
        text.batch(source, 1, first, batch, 16, tokens, targets, text.ByteTokenizer())
        rows += list(tokens)
    assert (rows[0] == rows[2]).all() and (rows[1] == rows[3]).all() and (rows[0] != rows[1]).any()


def test_the_last_step_a_header_can_hold(tmp_path):
    path = tmp_path / file_name(INT32_MAX)
    save(tmp_path, INT32_MAX, *(np.ones(3, np.float32) for _ in range(3)))
    assert path.name == "step_2147483647.bin" and step_of(path.name) == INT32_MAX
    assert read_header(path) == (INT32_MAX, 3)
    assert learning_rate(config(steps=INT32_MAX).train, INT32_MAX) == pytest.approx(1e-4)


def test_header_fields_are_whole_numbers_of_python_so_that_sizes_do_not_wrap(tmp_path):
    path = tmp_path / file_name(700_000)
    n = 178_956_971  # the first n whose 12 n is beyond 2^31
    with open(path, "wb") as file:
        file.write(struct.pack("<ii", 700_000, n))
        file.truncate(single.nbytes(n))
    found = read_header(path)
    assert found == (700_000, n) and [type(value) for value in found] == [int, int]
    assert 12 * found[1] > 2**31 and path.stat().st_size == single.nbytes(np.int32(n)) == 8 + 12 * n
