"""The sidecar: it reads back as it was written, and one changed byte is refused or means the same."""

import json
from dataclasses import replace

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_lab.checkpoint.sums import (
    MOST_BYTES,
    PartSums,
    Sum,
    SumError,
    from_json,
    parts_of,
    read_sum,
    sum_path,
    to_json,
    write_sum,
)
from tests.checkpoint.faults import Faulty
from tests.checkpoint.material import TENSORS, N, names, put

HEX = "0123456789abcdef"
digests = st.text(HEX, min_size=64, max_size=64)
text = st.text(max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def lone_sums(draw):
    """A sum without `before`."""
    n = draw(st.integers(1, 200))
    cuts = sorted(draw(st.sets(st.integers(1, n - 1), max_size=4))) if n > 1 else []
    tensors = [(f"t{i}", a, b - a) for i, (a, b) in enumerate(zip([0, *cuts], [*cuts, n], strict=True))]
    parts = tuple((*cut, draw(st.text(HEX, min_size=16, max_size=16))) for cut in parts_of(n, tensors))
    step, segment = draw(st.integers(0, 2**31 - 1)), draw(st.integers(1, 2**40))
    entry = draw(st.none() | st.dictionaries(text, json_values, max_size=4))
    config = draw(st.none() | digests)
    return Sum("step_000001.bin", 8 + 12 * n, step, n, draw(digests), parts, segment, entry, config)


sums = st.builds(lambda new, old: replace(new, before=old), lone_sums(), st.none() | lone_sums())


@settings(max_examples=60, deadline=None)
@given(sums)
def test_what_is_written_is_read(value):
    written = to_json(value)
    assert from_json(written) == value
    assert to_json(from_json(written)) == written
    assert json.loads(written)["sha256"] == value.sha256


@settings(max_examples=150, deadline=None)
@given(sums, st.data())
def test_one_changed_byte_is_refused_or_means_the_same(value, data):
    written = bytearray(to_json(value))
    at = data.draw(st.integers(0, len(written) - 1))
    how = data.draw(st.sampled_from(["flip", "any", "drop", "add"]))
    byte = data.draw(st.integers(0, 255))
    if how == "flip":
        written[at] ^= 1 << byte % 8
    elif how == "any":
        written[at] = byte
    elif how == "drop":
        del written[at]
    else:
        written.insert(at, byte)
    try:
        assert from_json(bytes(written)) == value
    except SumError as error:
        assert "\n" not in str(error) and len(str(error)) < 400


@settings(max_examples=100, deadline=None)
@given(sums, st.data())
def test_a_torn_sum_is_refused(value, data):
    written = to_json(value)
    with pytest.raises(SumError):
        from_json(written[: data.draw(st.integers(0, len(written) - 3))])


def test_every_bit_of_one_sum(tmp_path):
    put(tmp_path, 7, 0, entry={"step": 7, "loss": 1.25})
    value, written = read_sum(tmp_path / "step_000007.bin"), sum_path(tmp_path / "step_000007.bin").read_bytes()
    same = 0
    for at in range(len(written)):
        for bit in range(8):
            changed = bytearray(written)
            changed[at] ^= 1 << bit
            try:
                assert from_json(bytes(changed)) == value
                same += 1
            except SumError:
                pass
    assert same < len(written) / 8  # a blank that became another blank


def plain(**changed):
    """The text of a sum with fields changed and the check made right again."""
    fields = json.loads(to_json(example()))
    del fields["check"]
    fields = {key: value for key, value in (fields | changed).items() if value != "absent"}
    fields["check"] = xxhash.xxh3_64_hexdigest(json.dumps(fields, sort_keys=True).encode())
    return json.dumps(fields).encode()


def example(**more):
    parts = tuple((*cut, "0" * 16) for cut in parts_of(2))
    return Sum("step_000001.bin", 32, 1, 2, "a" * 64, parts, **more)


PARTS = [["header", 0, 8, "0" * 16], ["w", 8, 8, "0" * 16], ["m", 16, 8, "0" * 16], ["v", 24, 8, "0" * 16]]
MUTANTS = [
    ({"schema": 0}, "schema: found 0, expected 1"),
    ({"schema": 2}, "schema: found 2, expected 1"),
    ({"schema": "1"}, "schema: found '1', expected 1"),
    ({"schema": True}, "schema: found True, expected 1"),
    ({"schema": 1.0}, "schema: found 1.0, expected 1"),
    ({"algorithm": "crc32"}, "algorithm: found 'crc32', expected xxh3_64"),
    ({"file": ""}, "file: found '', expected a file's name"),
    ({"file": "../step_000001.bin"}, "file: found '../step_000001.bin', expected a file's name"),
    ({"file": None}, "file: found None, expected a file's name"),
    ({"n_params": 0}, "n_params: found 0, expected 1 to 2147483647"),
    ({"n_params": 2**31}, "n_params: found 2147483648, expected 1 to 2147483647"),
    ({"n_params": 3}, "nbytes: found 32, expected 44"),
    ({"nbytes": 33}, "nbytes: found 33, expected 32"),
    ({"nbytes": 32.0}, "nbytes: found 32.0, expected 32"),
    ({"step": -1}, "step: found -1, expected 0 to 2147483647"),
    ({"step": 2**31}, "step: found 2147483648, expected 0 to 2147483647"),
    ({"segment": 0}, "segment: found 0, expected 1 or more"),
    ({"sha256": "A" * 64}, "sha256: found 'AAAA"),
    ({"sha256": "a" * 63}, "sha256: found 'aaaa"),
    ({"config": ""}, "config: found '', expected 64 hex digits or null"),
    ({"entry": 3}, "entry: found 3, expected an object or null"),
    ({"parts": {}}, "parts: found {}, expected a list of lists"),
    ({"parts": []}, "parts: bytes in all: found 0, expected 32"),
    ({"parts": [*PARTS, ["x", 32, 1, "0" * 16]]}, "part x: bytes: found 1, expected 1 to 0"),
    ({"parts": PARTS[:3]}, "parts: bytes in all: found 24, expected 32"),
    ({"parts": [PARTS[0], ["w", 9, 8, "0" * 16], *PARTS[2:]]}, "part w: offset: found 9, expected 8"),
    ({"parts": [["header", 0, -8, "0" * 16], *PARTS[1:]]}, "part header: bytes: found -8, expected 1 to 32"),
    ({"parts": [["header", 0, 8, "0" * 15], *PARTS[1:]]}, "parts: found .*, expected name, offset, bytes and 16 hex"),
    ({"parts": [PARTS[0], PARTS[1], ["w", 16, 8, "0" * 16], PARTS[3]]}, "parts: found 'w', expected each name once"),
    ({"before": 1}, "before: found 1, expected a sum without a `before` of its own, or null"),
    ({"before": {}}, "found none, expected the fields of a sum"),
    ({"step": "absent"}, "'step': found none, expected the fields of a sum"),
    ({"extra": 1}, "'extra': found one, expected the fields of a sum"),
]


@pytest.mark.parametrize(("changed", "message"), MUTANTS)
def test_a_wrong_field_is_named_even_when_the_check_is_right(changed, message):
    assert from_json(plain()) == example()
    with pytest.raises(SumError, match=message):
        from_json(plain(**changed))


def test_a_before_has_no_before():
    with pytest.raises(SumError, match="before: found .*, expected a sum without a `before` of its own, or null"):
        example(before=example(before=example()))


NOT_SUMS = [
    (b"", "found no JSON"),
    (b"{", "found no JSON"),
    (b"\xff\xfe", "found no JSON"),
    (b"\xef\xbb\xbf" + plain(), "found no JSON"),
    (b"[]", r"sum: found \[\], expected an object"),
    (b"null", "sum: found None, expected an object"),
    (b"[" * 100_000, "found no JSON"),
    (b'{"a": ' * 100_000, "found no JSON"),
    (b'{"schema": 1, "schema": 1}', r"found no JSON \(key 'schema' twice\), expected a sum"),
    (b'{"step": NaN}', r"found no JSON \(NaN, which is not JSON\), expected a sum"),
    (b'{"step": -Infinity}', r"found no JSON \(-Infinity, which is not JSON\), expected a sum"),
    (b'{"step": ' + b"9" * 5000 + b"}", "found no JSON"),
    (b" " * (MOST_BYTES + 1), "found 4194305 bytes, expected at most 4194304"),
    (plain().replace(b'"schema": 1', b'"schema": 1e999'), "schema: found inf, expected 1"),
]


@pytest.mark.parametrize(("data", "message"), NOT_SUMS, ids=range(len(NOT_SUMS)))
def test_what_is_no_sum_is_refused_in_one_line(tmp_path, data, message):
    sum_path(tmp_path / "a").write_bytes(data)
    with pytest.raises(SumError, match=message) as caught:
        read_sum(tmp_path / "a")
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_a_huge_sum_is_not_read_whole(tmp_path):
    with open(sum_path(tmp_path / "a"), "wb") as file:
        file.truncate(2**40)
    with pytest.raises(SumError, match="expected at most 4194304"):
        read_sum(tmp_path / "a")


def test_no_sum_is_none_and_what_is_no_file_is_an_error(tmp_path):
    assert read_sum(tmp_path / "a") is None
    sum_path(tmp_path / "a").symlink_to("/dev/zero")
    with pytest.raises(SumError, match="found a symbolic link, expected a sum"):
        read_sum(tmp_path / "a")
    sum_path(tmp_path / "b").mkdir()
    with pytest.raises(SumError, match="found a folder, expected a sum"):
        read_sum(tmp_path / "b")


def test_a_sum_that_cannot_be_written_leaves_the_old_one(tmp_path):
    write_sum(tmp_path / "a", example())
    for number in range(1, 7):
        with pytest.raises(OSError, match="planted"):
            write_sum(tmp_path / "a", example(segment=2), Faulty(number))
        assert read_sum(tmp_path / "a") == example() and names(tmp_path) == ["a.sum"]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.lists(st.integers(0, 12), max_size=9))
def test_parts_are_summed_in_pieces_of_any_size(sizes, pieces):
    ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    data = bytes(range(ends[-1]))
    parts = [(str(i), ends[i], size) for i, size in enumerate(sizes)]
    found, at = PartSums(parts), 0
    for piece in [*pieces, ends[-1]]:
        found.update(memoryview(data)[at : at + piece])
        at += piece
    assert found.hexes() == [xxhash.xxh3_64_hexdigest(data[a : a + size]) for _, a, size in parts]
    with pytest.raises(SumError, match="found 1 bytes behind the last part"):
        found.update(memoryview(b"x"))


def test_parts_cover_the_file_and_have_names():
    assert parts_of(N)[-1] == ("v", 8 + 8 * N, 4 * N)
    named = parts_of(N, TENSORS)
    assert sum(size for _, _, size in named) == 8 + 12 * N and named[1] == ("w wte", 8, 40)
    value = Sum("a", 8 + 12 * N, 1, N, "0" * 64, tuple((*cut, "0" * 16) for cut in named))
    assert value.differing(["0" * 16] * 9 + ["1" * 16]) == ["v ln_f.gamma"]
    for wrong in ([], [("a", 0, N + 1)], [("a", 0, 0), ("b", 0, N)], [("b", 4, N - 4), ("a", 0, 4)]):
        with pytest.raises(SumError, match="^tensor"):
            parts_of(N, wrong)
