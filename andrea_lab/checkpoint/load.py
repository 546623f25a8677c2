"""Loading a weight file: refused before anything is allocated, read and hashed at once, compared with its sum."""

import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from andrea_lab.checkpoint.files import REAL, Files
from andrea_lab.checkpoint.numbers import first_bad
from andrea_lab.checkpoint.single import HEADER, CheckpointError, check_fit, expect_end, header, opened, pieces_into
from andrea_lab.checkpoint.sums import PartSums, Sum, SumError, parts_of, read_sum

NO_SUM = "found no sum beside it: the bytes cannot be verified"


@dataclass(frozen=True)
class Loaded:
    """What was loaded. sum: the one its bytes fit, None when `verified` is False; `reason` then says why."""

    step: int
    sha256: str
    verified: bool
    sum: Sum | None
    reason: str = ""


def load(
    path: Path,
    w: np.ndarray,
    m: np.ndarray,
    v: np.ndarray,
    *,
    allow_nonfinite: bool = False,
    files: Files = REAL,
    between: Callable[[], None] = lambda: None,
) -> Loaded:
    """Fill three (n,) float32 arrays from a weight file, and say whether its bytes are those that were saved.

    The bytes may fit the sum or the one before it. A file without a readable sum loads with `verified` False. `between`
    is called before each piece that is read. Raises CheckpointError, with a verdict and naming what differs; the arrays
    are untouched when the header is refused, else they hold nothing of use.
    """

    def attempt(known: Sum | None, reason: str) -> Loaded:
        step, sha256, bad = _fill(path, (w, m, v), known, files, between)
        if bad and not allow_nonfinite:
            raise CheckpointError(f"{path}: {bad}", "non-finite")
        fitting = known.fitting(sha256) if known else None
        return Loaded(step, sha256, fitting is not None, fitting, reason)

    return settled(path, attempt, files)


def _fill(
    path: Path, arrays: tuple[np.ndarray, ...], known: Sum | None, files: Files, between: Callable[[], None]
) -> tuple[int, str, str]:
    """Read the file into the arrays: its step, its sha256, and the text about the first bad number, or "".

    Raises CheckpointError when the bytes do not fit the sum.
    """
    with opened(path, files) as file:
        step, n = judged_header(path, file, known, files)
        check_fit(path, step, arrays, n)
        head = HEADER.pack(step, n)
        with _Hashing(head) as hashing:
            for piece in pieces_into(path, file, arrays, files):
                hashing.put(piece)
                between()
            bad = first_bad_number(arrays, known)  # while the other thread hashes on
        expect_end(path, file, files)
    sha256 = hashing.hexdigest()
    if known and known.fitting(sha256) is None:
        watched = watches(known, n)
        for _, sums in watched:
            for data in (head, *arrays):
                sums.update(memoryview(data).cast("B"))
        raise CheckpointError(f"{path}: {difference(known, n, watched)}", "flipped")
    return step, sha256, bad


def settled(path: Path, attempt: Callable, files: Files) -> Any:
    """`attempt(sum, why there is none)`, once more whenever the sum has changed under it and did not fit the bytes.

    A writer beside us renames the sum first and then the file, so what was read of the two may be of different saves.
    """
    known = known_sum(path, files)
    while True:
        error = result = None
        try:
            result = attempt(*known)
            if result.sum is not None:
                return result
        except CheckpointError as caught:
            if caught.verdict != "flipped":
                raise
            error = caught
        if (now := known_sum(path, files)) == known:
            if error is not None:
                raise error
            return result
        known = now


def known_sum(path: Path, files: Files = REAL) -> tuple[Sum | None, str]:
    """The sum beside a weight file and "", or None and why there is none that can be read."""
    try:
        found = read_sum(path, files)
    except SumError as error:
        return None, str(error)
    return found, "" if found else NO_SUM


def judged_header(path: Path, file: io.FileIO, known: Sum | None, files: Files = REAL) -> tuple[int, int]:
    """(step, n) of an open file. Raises CheckpointError, "flipped" where the sum shows that the header was changed."""
    try:
        return header(path, file, files)
    except CheckpointError as error:
        fitting = known.fitting_size(os.fstat(file.fileno()).st_size) if known else None
        if fitting is None:
            raise
        file.seek(0)
        step, n = HEADER.unpack(file.read(HEADER.size))
        if (step, n) == (fitting.step, fitting.n_params):
            raise
        expected = f"step {fitting.step}, n_params {fitting.n_params} as in its sum"
        raise CheckpointError(
            f"{path}: header: found step {step}, n_params {n}, expected {expected}", "flipped"
        ) from error


def watches(known: Sum | None, n: int) -> list[tuple[Sum, PartSums]]:
    """The sum and the one before it, if they are of n parameters, each with what takes in the bytes to compare."""
    sums = [known, known.before] if known else []
    return [(s, PartSums(s.cuts())) for s in sums if s and s.n_params == n]


def difference(known: Sum, n: int, watched: list[tuple[Sum, PartSums]]) -> str:
    """The text about bytes that fit neither sum: which parts differ from the nearer of them."""
    if not watched:
        return f"found {n} parameters, expected {known.n_params} as in its sum"
    names, nearest = min(((s.differing(found.hexes()), s) for s, found in watched), key=lambda pair: len(pair[0]))
    some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{some or 'sha256'}: found other bytes than were saved, expected sha256 {nearest.sha256[:16]}..."


def first_bad_number(arrays: tuple[np.ndarray, ...], known: Sum | None) -> str:
    """The text about the first number that may not stand in w, m or v; "" when all may."""
    cuts = known.cuts() if known and known.n_params == arrays[0].size else parts_of(arrays[0].size)
    for i, (region, array) in enumerate(zip("wmv", arrays, strict=True)):
        if (at := first_bad(region, array)) is not None:
            return bad_number(cuts, i, at, array.size, array[at])
    return ""


def bad_number(cuts: list[tuple[str, int, int]], region: int, at: int, n: int, value: float) -> str:
    """The text about element `at` of region 0, 1 or 2 (w, m, v) of a file of n parameters."""
    offset = HEADER.size + 4 * (region * n + at)
    name, start = next((name, start) for name, start, size in cuts if start <= offset < start + size)
    wanted = "a finite number of 0 or more" if region == 2 else "a finite number"
    return f"{name}[{(offset - start) // 4}]: found {value}, expected {wanted}"


class _Hashing:
    """sha256 on a second thread: what is put in must not change until the `with` block is left."""

    def __init__(self, head: bytes):
        self._digest, self._queue = hashlib.sha256(head), SimpleQueue()
        self._thread = Thread(target=self._run, name="sha256", daemon=True)

    def __enter__(self) -> "_Hashing":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._queue.put(None)
        self._thread.join()

    def put(self, piece: memoryview) -> None:
        self._queue.put(piece)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()

    def _run(self) -> None:
        while (piece := self._queue.get()) is not None:
            self._digest.update(piece)
