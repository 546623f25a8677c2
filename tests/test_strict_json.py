"""JSON that says what it means: what Python's own reader would let through is refused."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab.strict_json import parse

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(VALUES)
def test_what_json_writes_is_read(value):
    assert parse(json.dumps(value).encode()) == value


REFUSED = [
    (b'{"a": {"b": 1, "b": 1}}', "key 'b' twice"),
    (b"[NaN]", "NaN, which is not JSON"),
    (b"[-Infinity]", "-Infinity, which is not JSON"),
    (b"[" * 100_000, "nested too deeply"),
    (b"\xff", "utf-8"),
    (b"{", "Expecting"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_is_no_json_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        parse(text)


def test_objects_and_constants_may_be_replaced():
    assert parse(b'[{"a": {"b": 1}}]', object_hook=sorted) == [["a"]]
    assert math.isinf(parse(b"[Infinity]", constant=float)[0])
