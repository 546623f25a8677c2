"""Text to ids and back. Ids 0 to 255 are the bytes themselves; 256 is the boundary between two documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from andrea_lab.text.documents import TextError

BOUNDARY = 256


@runtime_checkable
class Tokenizer(Protocol):
    """What training and sampling need of a tokeniser.

    Every tokeniser is lossless: decode(encode(data)) == data for any bytes, and never yields `boundary` from text.
    It is hashable, so that encoded sources can be kept by it.
    """

    vocab_size: int
    boundary: int

    def encode(self, text: bytes | str) -> np.ndarray: ...

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes: ...


class ByteTokenizer:
    """One id a byte: 256 ids, and the boundary."""

    vocab_size = 257
    boundary = BOUNDARY

    def __eq__(self, other: object) -> bool:
        return type(other) is ByteTokenizer

    def __hash__(self) -> int:
        return hash(ByteTokenizer)

    def __repr__(self) -> str:
        return "ByteTokenizer()"

    def encode(self, text: bytes | str) -> np.ndarray:
        """Return the ids of `text`, int32 (n,); a str is taken as UTF-8."""
        data = text.encode("utf-8") if isinstance(text, str) else text
        return np.frombuffer(data, dtype=np.uint8).astype(np.int32)

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Return the bytes of `ids` (n,); boundaries stand for no byte. Raises TextError for an id out of range."""
        ids = np.asarray(ids, dtype=np.int64)
        wrong = ids[(ids < 0) | (ids >= self.vocab_size)]
        if wrong.size:
            raise TextError(f"id: found {wrong[0]}, expected 0 to {self.vocab_size - 1}")
        return ids[ids != self.boundary].astype(np.uint8).tobytes()


BYTES = ByteTokenizer()


def to_text(data: bytes) -> str:
    """Return `data` as text for display: what is not UTF-8, a cut character at either end say, shows as U+FFFD."""
    return data.decode("utf-8", errors="replace")


def check_vocab(tokenizer: Tokenizer, model_vocab: int) -> None:
    """Refuse a tokeniser with more ids than the model has rows; fewer are allowed. Raises TextError."""
    if tokenizer.vocab_size > model_vocab:
        raise TextError(
            f"vocabulary: found a tokeniser of {tokenizer.vocab_size} ids, expected at most the model's {model_vocab}"
        )
