"""The one file format of every source: UTF-8 documents with a separator line between them.

The separator is a line that holds the single character U+001E, ASCII's "record separator". A document is any bytes
without that character; the file is the documents joined by newline, U+001E, newline, and ends with a newline. So the
file reads as plain text, and `split(join(documents)) == documents`.
"""

from __future__ import annotations

from collections.abc import Sequence

SEPARATOR = b"\n\x1e\n"


class TextError(ValueError):
    """A mistake in a text, a tokeniser or a batch; the message is one line: what, found, expected."""


def join(documents: Sequence[bytes]) -> bytes:
    """Return the file that holds one document or more. Raises TextError if a document holds U+001E."""
    if not documents:
        raise TextError("documents: found none, expected one or more")
    for number, document in enumerate(documents):
        if b"\x1e" in document:
            raise TextError(f"document {number}: found the separator character U+001E, expected text without it")
    return SEPARATOR.join(documents) + b"\n"


def split(data: bytes) -> list[bytes]:
    """Return the documents of a file."""
    return data.removesuffix(b"\n").split(SEPARATOR)
