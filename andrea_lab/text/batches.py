"""Windows of text for training and evaluation, as functions of their arguments alone.

Training. A source's training documents, each behind a boundary id, stand on a ring of N ids. An epoch is a start on
the ring and an order, both drawn from (seed, source, epoch): it cuts the ring at that start into n = N // T windows
that do not overlap and takes them in that order. Each window gives T tokens, and as targets the ids that follow them,
so every id is a target once in an epoch, but for the N mod T < T ids before the start. Row r of draw d is window
d * B + r of the endless row of epochs; so draws 0, 1, 2, ... go through the text without repeating any of it until
all is used, at any B. The start moves from epoch to epoch: what a window's edge cuts in one is whole in another.

The caller counts the draws of each source on its own. Every target is a real id; none is -1.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from andrea_lab.rng import Shuffle, rng
from andrea_lab.text.documents import TextError
from andrea_lab.text.sources import Source
from andrea_lab.text.tokenizer import BYTES, Tokenizer

IGNORED = -1


@lru_cache(maxsize=256)
def _epoch(seed: int, name: str, epoch: int, ring: int, windows: int) -> tuple[int, Shuffle]:
    """Return where an epoch starts on the ring and the order of its windows."""
    stream = rng(seed, "batch", name, epoch)
    return int(stream.words(1)[0]) % ring, Shuffle(windows, stream)


def windows_per_epoch(source: Source, T: int, tokenizer: Tokenizer = BYTES) -> int:
    """Return how many windows of T ids an epoch of `source` has. Raises TextError if there is none."""
    ring = len(source.train_stream(tokenizer))
    if ring <= T:
        raise TextError(f"source {source.name}: found {ring} training ids, expected more than the context of {T}")
    return ring // T


def batch(
    source: Source,
    seed: int,
    draw: int,
    B: int,
    T: int,
    tokens_out: np.ndarray,
    targets_out: np.ndarray,
    tokenizer: Tokenizer = BYTES,
) -> None:
    """Fill `tokens_out` and `targets_out`, both int32 (B, T), with draw number `draw` >= 0 of `source`.

    A pure function of (seed, source, draw) and of the sizes. In steady state it allocates no array. Raises TextError.
    """
    if draw < 0:
        raise TextError(f"draw: found {draw}, expected 0 or more")
    for name, out in (("tokens_out", tokens_out), ("targets_out", targets_out)):
        if out.dtype != np.int32 or out.shape != (B, T):
            raise TextError(f"{name}: found {out.dtype} {out.shape}, expected int32 {(B, T)}")
    stream = source.train_stream(tokenizer)
    ring, count = len(stream), windows_per_epoch(source, T, tokenizer)
    for row in range(B):
        epoch, place = divmod(draw * B + row, count)
        start, order = _epoch(seed, source.name, epoch, ring, count)
        at = (start + order[place] * T) % ring
        _copy(stream, at, tokens_out[row])
        _copy(stream, at + 1, targets_out[row])


def _copy(stream: np.ndarray, at: int, out: np.ndarray) -> None:
    """Copy ids of the ring, from `at` on, into `out`, which is shorter than the ring."""
    at %= len(stream)
    head = min(len(out), len(stream) - at)
    out[:head] = stream[at : at + head]
    out[head:] = stream[: len(out) - head]


def held_out_batches(
    source: Source, count: int, B: int, T: int, tokenizer: Tokenizer = BYTES
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return up to `count` batches (tokens, targets), int32 (B, T), of the held-out documents.

    The held-out stream is cut from its beginning into windows that predict every id but the first once; if they are
    more than count * B, that many are taken, evenly spread; if fewer, fewer batches come back. What is missing in the
    last window of the stream, and in the last batch, has target -1 and boundary tokens: weigh a mean by the targets
    that are not -1. Raises TextError.
    """
    if count < 1 or B < 1 or T < 1:
        raise TextError(f"count, B, T: found {count}, {B}, {T}, expected 1 or more")
    stream = source.held_out_stream(tokenizer)
    windows = -(-(len(stream) - 1) // T)
    rows = min(count * B, windows)
    batches = -(-rows // B)
    tokens = np.full((batches * B, T), tokenizer.boundary, dtype=np.int32)
    targets = np.full((batches * B, T), IGNORED, dtype=np.int32)
    for row in range(rows):
        at = (row * windows // rows) * T
        length = min(T, len(stream) - 1 - at)
        tokens[row, :length] = stream[at : at + length]
        targets[row, :length] = stream[at + 1 : at + 1 + length]
    return [(tokens[first : first + B], targets[first : first + B]) for first in range(0, batches * B, B)]
