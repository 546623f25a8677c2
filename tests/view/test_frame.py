"""Frames: what goes in comes out, to the bit; what is no frame is refused in one line."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab.view.frame import COLUMNS, KEYS, RECORD, VERSION, pack, unpack
from tests.view.make_frames import eventful, frames, records, run_frames, with_rewind

ENDS = {"i4": (-(2**31), 2**31 - 1)}
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))


@st.composite
def made(draw):
    count = draw(st.integers(0, 9))
    numbers = {"i4": st.integers(*ENDS["i4"]), "f4": st.floats(width=32)}
    return {name: np.array(draw(st.lists(numbers[k], min_size=count, max_size=count)), k) for name, k in COLUMNS}


@given(made(), st.text(), st.lists(st.text()), st.dictionaries(st.text(), JSON), st.integers(0, 5), st.integers(0, 5))
def test_what_is_packed_is_unpacked(columns, run, sources, facts, first, later):
    count = len(columns["step"])
    total = first + count + later
    data = pack(columns, run=run, facts=facts, sources=sources, generation=3, first=first, total=total)
    header, found = unpack(data)
    assert len(data) % 8 == 0
    assert [header[key] for key in ("v", "run", "generation")] == [VERSION, run, 3]
    assert [header[key] for key in ("first", "count", "total")] == [first, count, total]
    assert header["sources"] == sources and header["facts"] == facts and header["strips"] == []
    for name, kind in COLUMNS:
        assert found[name].dtype == np.dtype(f"<{kind}") and found[name].tobytes() == columns[name].tobytes()


def test_the_layout_is_the_one_written_down():
    columns = {name: np.arange(3).astype(kind) for name, kind in COLUMNS}
    data = pack(columns, run="r", facts={}, sources=["a"])
    (length,) = struct.unpack_from("<I", data)
    assert (4 + length) % 8 == 0
    header = json.loads(data[4 : 4 + length])
    assert list(header) == list(KEYS)
    assert header["columns"] == [list(pair) for pair in COLUMNS]
    assert data[4 + length : 4 + length + 16] == struct.pack("<4i", 0, 1, 2, 0)
    assert data[-16:] == struct.pack("<4f", 0, 1, 2, 0)
    assert len(data) == 4 + length + 16 * len(COLUMNS)


def test_a_record_costs_36_bytes():
    few, many = (len(frames(records(count))[0]) for count in (1000, 101_000))
    assert RECORD == 36 and many - few <= 100_000 * RECORD + 16


def test_a_fact_that_json_has_no_word_for_is_refused():
    columns = {name: np.zeros(0, kind) for name, kind in COLUMNS}
    with pytest.raises(ValueError, match="not JSON compliant"):
        pack(columns, run="r", facts={"threshold": float("nan")}, sources=[])


def test_a_column_of_another_length_is_refused():
    columns = records(3) | {"loss": np.zeros(2, "f4")}
    with pytest.raises(ValueError, match="^loss: found 2 numbers, expected 3$"):
        pack(columns, run="r", facts={}, sources=[])


def _with_header(**changes):
    data = run_frames(2)[0]
    (length,) = struct.unpack_from("<I", data)
    text = json.dumps(json.loads(data[4 : 4 + length]) | changes).encode()
    text += b" " * (-(4 + len(text)) % 8)
    return struct.pack("<I", len(text)) + text + data[4 + length :]


@pytest.mark.parametrize(
    "data, found",
    [
        (b"", "found 0 bytes"),
        (b"\xff\xff\xff\xff", "found a header of 4294967295 bytes in 4"),
        (b"\x05\0\0\0{} \0\0", "found a header of 5 bytes in 9"),
        (b"\x04\0\0\0nope", "found a header that is no JSON"),
        (b"\x04\0\0\0[]  ", "found a header with other fields"),
        (_with_header(count="2"), "found a header with other fields"),
        (_with_header(v=2), "found version 2"),
        (_with_header(columns=[["step", "i4"]]), "found version 1 or other columns"),
        (_with_header(first=-1), "found records -1"),
        (_with_header(total=1), "found records 0 \\+ 2 of 1"),
        (run_frames(3)[0][:-8], "found 136 bytes of columns, expected 144"),
    ],
)
def test_what_is_no_frame_is_refused_in_one_line(data, found):
    with pytest.raises(ValueError, match=f"^frame: {found}") as error:
        unpack(data)
    assert "\n" not in str(error.value)


@given(st.binary(max_size=80))
def test_garbage_is_refused_and_nothing_else_happens(data):
    with pytest.raises(ValueError, match="^frame: "):
        unpack(data)


def test_made_runs_come_in_pieces_that_follow_each_other():
    whole = with_rewind(records(1000), at=600, to=500)
    pieces = [unpack(data) for data in frames(whole, most=300)]
    assert [piece.header["first"] for piece in pieces] == [0, 300, 600, 900]
    assert {piece.header["total"] for piece in pieces} == {1100}
    steps = np.concatenate([piece.columns["step"] for piece in pieces])
    assert steps.tolist() == [*range(1, 601), *range(501, 1001)]
    assert len(unpack(eventful(100)[0]).header["facts"]["marks"]) == 6
