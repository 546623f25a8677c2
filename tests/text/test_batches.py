"""Training and held-out windows: what they hold, and that nothing but their arguments decides it."""

import hashlib
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab.text import BOUNDARY, BYTES, Source, TextError, batch, held_out_batches, source, windows_per_epoch

documents = st.lists(st.binary(min_size=0, max_size=30), min_size=2, max_size=25)
sizes = st.tuples(st.integers(1, 4), st.integers(1, 9))


def made(texts, name="made") -> Source:
    return Source(name, Path("none"), text=tuple(texts))


def arrays(B, T):
    return np.full((B, T), -7, dtype=np.int32), np.full((B, T), -7, dtype=np.int32)


def drawn(found, seed, draw, B, T):
    tokens, targets = arrays(B, T)
    batch(found, seed, draw, B, T, tokens, targets)
    return tokens, targets


@given(documents, st.integers(0, 3), st.integers(0, 50), sizes)
def test_targets_are_the_ids_that_follow(texts, seed, draw, size):
    B, T = size
    found = made(texts)
    ring = found.train_stream()
    if len(ring) <= T:
        return
    tokens, targets = drawn(found, seed, draw, B, T)
    assert (tokens[:, 1:] == targets[:, :-1]).all()
    assert tokens.min() >= 0 and targets.min() >= 0 and max(tokens.max(), targets.max()) <= BOUNDARY
    windows = {tuple(np.roll(ring, -at)[: T + 1].tolist()) for at in range(len(ring))}
    for row in range(B):
        assert (*tokens[row].tolist(), int(targets[row, -1])) in windows


@given(st.integers(0, 2**40), st.integers(0, 10**9), sizes)
def test_a_batch_is_a_function_of_its_arguments(seed, draw, size):
    B, T = size
    texts = [bytes([65 + i]) * (i % 7 + 1) for i in range(40)]
    first, second = made(texts), made(texts)
    tokens, targets = drawn(first, seed, draw, B, T)
    drawn(first, seed + 1, draw + 3, 2, 3)
    again = drawn(first, seed, draw, B, T)
    fresh = drawn(second, seed, draw, B, T)
    for other in (again, fresh):
        assert (tokens == other[0]).all() and (targets == other[1]).all()


class Numbered:
    """A tokeniser whose ids tell their place: document number n becomes the ids 10 n to 10 n + 6."""

    vocab_size, boundary = 10_000, 0

    def encode(self, text):
        return np.arange(7, dtype=np.int32) + 10 * int(text)

    def decode(self, ids):
        return b" ".join(b"%d" % i for i in ids)


@given(st.integers(1, 5), st.integers(1, 20), st.integers(0, 4))
def test_an_epoch_has_every_id_as_a_target_once(B, T, seed):
    found, tokenizer = made([b"%d" % n for n in range(1, 61)]), Numbered()
    ring = found.train_stream(tokenizer)
    count = windows_per_epoch(found, T, tokenizer)
    tokens, targets = arrays(B, T)
    rows = []
    for draw in range(-(-2 * count // B)):
        batch(found, seed, draw, B, T, tokens, targets, tokenizer)
        rows += targets.tolist()
    for epoch in (rows[:count], rows[count : 2 * count]):
        seen = np.bincount(np.concatenate(epoch), minlength=ring.max() + 1)
        there = np.bincount(ring)
        assert (seen <= there).all()
        assert 0 <= (there - seen).sum() == len(ring) % T


def test_rows_follow_each_other_whatever_the_batch_size():
    found = made([bytes([i]) * 5 for i in range(50)])
    wide = drawn(found, 1, 2, 6, 8)[0]
    narrow = np.concatenate([drawn(found, 1, draw, 2, 8)[0] for draw in range(6, 9)])
    assert (wide == narrow).all()


def test_epochs_differ_in_start_and_order():
    found = source("devils")
    count = windows_per_epoch(found, 64)
    first, second = drawn(found, 0, 0, count, 64)[0], drawn(found, 0, 1, count, 64)[0]
    assert not (first == second).all(axis=1).any()
    assert len(set(map(bytes, first)) & set(map(bytes, second))) < count / 20


def test_seeds_and_sources_differ():
    texts = [bytes([i]) * 5 for i in range(50)]
    base = drawn(made(texts), 0, 0, 4, 16)[0]
    assert not (base == drawn(made(texts), 1, 0, 4, 16)[0]).all()
    assert made(texts).train_docs != made(texts, "other").train_docs


def test_committed_batch():
    tokens, targets = drawn(source("kjv"), 0, 12345, 3, 128)
    both = hashlib.sha256(tokens.astype("<i4").tobytes() + targets.astype("<i4").tobytes()).hexdigest()
    assert both == "096a97925a2f1d92c5f5bdf928050e81874793c81ae65d611cf30fb8b3c9b869"


def test_a_warm_batch_allocates_nearly_nothing():
    found, B, T = source("kjv"), 8, 128
    tokens, targets = arrays(B, T)
    for draw in range(3):
        batch(found, 0, draw, B, T, tokens, targets)
    last = windows_per_epoch(found, T) // B - 2
    tracemalloc.start()
    try:
        for draw in [*range(3, 23), *range(last, last + 4)]:  # a new epoch begins among the last four
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            batch(found, 0, draw, B, T, tokens, targets)
            after, peak = tracemalloc.get_traced_memory()
            assert peak - before < 8192 and after - before < 4096
    finally:
        tracemalloc.stop()


def test_mistakes_are_one_line():
    found = made([b"abc"] * 12)
    tokens, targets = arrays(2, 4)
    cases = [
        (lambda: batch(found, 0, -1, 2, 4, tokens, targets), "draw: found -1, expected 0 or more"),
        (
            lambda: batch(found, 0, 0, 2, 5, tokens, targets),
            r"tokens_out: found int32 \(2, 4\), expected int32 \(2, 5\)",
        ),
        (
            lambda: batch(found, 0, 0, 2, 4, tokens, targets.astype(np.int64)),
            r"targets_out: found int64 \(2, 4\), expected int32 \(2, 4\)",
        ),
        (lambda: windows_per_epoch(found, 4000), r"source made: found \d+ training ids, expected more than .* 4000"),
        (lambda: held_out_batches(found, 0, 1, 4), "count, B, T: found 0, 1, 4, expected 1 or more"),
    ]
    for call, message in cases:
        with pytest.raises(TextError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


@given(documents, st.integers(1, 6), sizes)
def test_held_out_windows(texts, count, size):
    B, T = size
    found = made(texts)
    stream = found.held_out_stream()
    batches = held_out_batches(found, count, B, T)
    windows = -(-(len(stream) - 1) // T)
    assert len(batches) == min(count, -(-windows // B))
    tokens = np.concatenate([tokens for tokens, _ in batches])
    targets = np.concatenate([targets for _, targets in batches])
    assert tokens.shape == targets.shape and tokens.dtype == targets.dtype == np.int32
    ignored = targets == -1
    assert (tokens[ignored] == BOUNDARY).all()
    assert (ignored[:, :-1] <= ignored[:, 1:]).all()
    inside = ~ignored[:, 1:]
    assert (tokens[:, 1:][inside] == targets[:, :-1][inside]).all()
    if count * B >= windows:  # all of it: every id but the first is predicted once, in order
        assert targets[~ignored].tolist() == stream[1:].tolist()
        assert tokens[~ignored].tolist() == stream[:-1].tolist()
    else:
        assert (~ignored).sum() >= (count * B - 1) * T


def test_held_out_windows_are_spread_and_never_trained_on():
    found = source("shakespeare")
    batches = held_out_batches(found, 2, 4, 128)
    assert len(batches) == 2
    train = b"\0".join(found.train_docs)
    rows = [BYTES.decode(row) for tokens, _ in batches for row in tokens]
    assert len(set(rows)) == 8
    assert not any(row in train for row in rows)


def test_the_streams_hold_the_documents():
    found = made([b"ab", b"c", b"", b"de"])
    for docs, stream, end in (
        (found.train_docs, found.train_stream(), []),
        (found.held_out_docs, found.held_out_stream(), [BOUNDARY]),
    ):
        assert stream.tolist() == [i for document in docs for i in (BOUNDARY, *document)] + end
        assert stream.dtype == np.int32 and not stream.flags.writeable
    assert found.train_stream() is found.train_stream()
