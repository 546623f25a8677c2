"""Text files of the user's: what is taken, and what is refused in one line."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab.text import TextError, batch, join, load_text_file
from andrea_lab.text.sources import LONGEST_LINE, PIECE, _pieces

PARAGRAPH = "A line of plain words, and one more.\nIts second line.\n\n"


def refused(path, context=None) -> str:
    with pytest.raises(TextError) as caught:
        load_text_file(path, context)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(path)) and "found" in message and "expected" in message
    return message


def test_a_text_becomes_a_source(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text(PARAGRAPH * 200)
    found = load_text_file(path, context=128)
    assert found.name == "notes"
    assert len(found.documents) > 5 and all(len(document) < 2 * PIECE for document in found.documents)
    assert found.held_out_docs and found.train_docs


def test_separators_are_kept_as_the_writer_set_them(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(join([b"one", b"two\n\nstill two", b"three"]))
    assert load_text_file(path).documents == (b"one", b"two\n\nstill two", b"three")


def test_byte_order_mark_and_line_ends(tmp_path):
    path = tmp_path / "dos.txt"
    path.write_bytes(b"\xef\xbb\xbf" + (PARAGRAPH * 200).replace("\n", "\r\n").encode())
    found = load_text_file(path)
    assert found.documents[0].startswith(b"A line of plain words, and one more.\nIts second")
    assert not any(b"\r" in document for document in found.documents)


def test_other_languages_are_text(tmp_path):
    path = tmp_path / "greek.txt"
    path.write_text("Ἄνδρα μοι ἔννεπε, Μοῦσα, πολύτροπον, ὃς μάλα πολλὰ\n" * 200, encoding="utf-8")
    assert len(load_text_file(path, 64).documents) > 2


def test_no_such_file(tmp_path):
    assert "No such file" in refused(tmp_path / "none.txt")


def test_a_folder(tmp_path):
    assert "found a folder, expected a text file" in refused(tmp_path)


def test_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    assert "found a device or pipe, expected a text file" in refused(tmp_path / "pipe.txt")


def test_a_name_that_is_not_utf8(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9.txt")
    path.write_text(PARAGRAPH * 200)
    found = load_text_file(path, 16)
    tokens, targets = np.empty((2, 16), np.int32), np.empty((2, 16), np.int32)
    batch(found, 0, 0, 2, 16, tokens, targets)
    assert (tokens[:, 1:] == targets[:, :-1]).all()


@pytest.mark.parametrize("data", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_an_empty_file(tmp_path, data):
    path = tmp_path / "empty.txt"
    path.write_bytes(data)
    assert "found an empty file, expected text" in refused(path)


def test_binary_files(tmp_path):
    path = tmp_path / "image.txt"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 10)
    assert "found a binary file (byte 0 at 8), expected UTF-8 text" in refused(path)
    path.write_bytes("words in UTF-16 ".encode("utf-16") * 50)
    assert "found a binary file" in refused(path)
    path.write_bytes(bytes(range(1, 256)) * 20)
    assert "not UTF-8" in refused(path)
    path.write_bytes(b"plain words " * 50 + bytes([1, 2, 3, 4]) * 20)
    assert "not UTF-8" in refused(path)


def test_a_few_stray_bytes_are_taken_as_they_are(tmp_path):
    path = tmp_path / "mostly.txt"
    path.write_bytes((PARAGRAPH * 100).encode() + b"caf\xe9\n")
    assert load_text_file(path).documents[-1].endswith(b"caf\xe9")


def test_too_short(tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("A few words.\n")
    assert "found 12 bytes, too short to hold a part out, expected a longer text" in refused(path)
    assert "expected more than twice the context of 64" in refused(path, 64)
    path.write_text(PARAGRAPH * 60)
    assert load_text_file(path, 64)
    assert "expected more than the context of 5000" in refused(path, 5000)


@given(st.lists(st.sampled_from(["word ", "né", "\n", "\n\n", "x" * 700, "ü" * 2500]), min_size=1, max_size=60))
def test_pieces_hold_the_whole_text_in_order(parts):
    text = "".join(parts)
    data = text.encode()
    pieces = _pieces(data)
    assert b"".join(pieces).replace(b"\n", b"") == data.replace(b"\n", b"")
    assert all(len(piece) <= LONGEST_LINE + 5 * PIECE for piece in pieces)
    for piece in pieces:
        piece.decode("utf-8")
