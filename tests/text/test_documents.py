"""The file format: documents with a separator line between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab.text import TextError, join, split

document = st.binary(max_size=40).map(lambda data: data.replace(b"\x1e", b"\n"))


@given(st.lists(document, min_size=1, max_size=12))
def test_documents_come_back(documents):
    assert split(join(documents)) == documents
    assert join(documents).endswith(b"\n")


def test_a_file_reads_as_text():
    assert join([b"one\ntwo", b"three"]) == b"one\ntwo\n\x1e\nthree\n"


def test_what_would_not_come_back_is_refused():
    with pytest.raises(TextError, match=r"document 1: found the separator character"):
        join([b"a", b"b\x1ec"])
    with pytest.raises(TextError, match="found none"):
        join([])
