"""Bytes to ids and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab.text import BOUNDARY, BYTES, ByteTokenizer, TextError, Tokenizer, check_vocab, to_text


@given(st.binary(max_size=300))
def test_any_bytes_come_back(data):
    ids = BYTES.encode(data)
    assert ids.dtype == np.int32 and ids.shape == (len(data),)
    assert BYTES.decode(ids) == data
    assert BOUNDARY not in ids


@given(st.text(max_size=100))
def test_any_text_comes_back(text):
    assert to_text(BYTES.decode(BYTES.encode(text))) == text


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_boundaries_stand_for_no_byte(documents):
    ids = [256]
    for document in documents:
        ids += [*document, 256]
    assert BYTES.decode(ids) == b"".join(documents)


def test_it_is_a_tokenizer_of_257_ids():
    assert isinstance(BYTES, Tokenizer)
    assert (BYTES.vocab_size, BYTES.boundary) == (257, 256)
    assert ByteTokenizer() == BYTES and hash(ByteTokenizer()) == hash(BYTES)


@pytest.mark.parametrize("wrong", [-1, 257, 10**6])
def test_an_id_out_of_range_is_refused(wrong):
    with pytest.raises(TextError, match=f"id: found {wrong}, expected 0 to 256"):
        BYTES.decode([65, wrong])


def test_a_cut_character_is_shown_not_raised():
    assert to_text("né".encode()[:-1]) == "n\ufffd"


def test_a_model_may_have_more_ids_than_the_tokenizer_never_fewer():
    check_vocab(BYTES, 257)
    check_vocab(BYTES, 2305)
    with pytest.raises(TextError) as caught:
        check_vocab(BYTES, 256)
    assert str(caught.value) == "vocabulary: found a tokeniser of 257 ids, expected at most the model's 256"
