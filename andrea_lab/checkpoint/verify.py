"""What stands in a folder of weight files, and whether each is whole: read in pieces, nothing is loaded."""

import hashlib
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from andrea_lab.checkpoint.files import REAL, Files
from andrea_lab.checkpoint.load import bad_number, difference, judged_header, settled, watches
from andrea_lab.checkpoint.numbers import first_bad
from andrea_lab.checkpoint.single import HEADER, READ, CheckpointError, expect_end, nbytes, opened, pieces_into, step_of
from andrea_lab.checkpoint.sums import Part, PartSums, Sum, parts_of

COMMITTED, UNVERIFIED, NON_FINITE = "committed", "unverified", "non-finite"
LOADS = (COMMITTED, UNVERIFIED)  # verdicts of files that a resume takes


@dataclass(frozen=True)
class Verdict:
    """What one file is, and why. verdict: "committed", "unverified", or one of those of a CheckpointError.

    nbytes, n_params and sha256 are None where they could not be found out.
    """

    file: Path
    step: int | None
    verdict: str
    reason: str = ""
    nbytes: int | None = None
    n_params: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Look:
    """What a whole file was found to hold. sum: the one it fits, or None. own: a sum of the bytes as they are."""

    verdict: str
    reason: str
    own: Sum
    sum: Sum | None


def scan(folder: Path) -> list[Path]:
    """The weight files of a folder by step, ascending. Goes by names alone; folders and odd names are left out."""
    with os.scandir(folder) as entries:
        found = [(step, e.name) for e in entries if (step := step_of(e.name)) is not None and not e.is_dir()]
    return [folder / name for _, name in sorted(found)]


def candidates(folder: Path) -> list[Path]:
    """The weight files of a folder, the newest first: the order in which a resume tries them."""
    return scan(folder)[::-1]


def survey(folder: Path, *, n_params: int | None = None, files: Files = REAL) -> list[Verdict]:
    """The verdict on each weight file of a folder, by step, ascending; every file is read whole."""
    return [examine(path, n_params=n_params, files=files) for path in scan(folder)]


def examine(path: Path, *, n_params: int | None = None, files: Files = REAL) -> Verdict:
    """The verdict on one file, which is read once in pieces. n_params: what the model has, if that is known."""
    try:
        found = look(path, n_params=n_params, files=files)
    except CheckpointError as error:
        reason = str(error).removeprefix(f"{path}: ")
        size = path.lstat().st_size if os.path.lexists(path) else None
        return Verdict(path, step_of(path.name), error.verdict, reason, size)
    own = found.own
    return Verdict(path, own.step, found.verdict, found.reason, own.nbytes, own.n_params, own.sha256)


def look(path: Path, *, n_params: int | None = None, cuts: Sequence[Part] | None = None, files: Files = REAL) -> Look:
    """Read a whole file; committed, non-finite or unverified. Raises CheckpointError for a damaged one.

    cuts: how a file without a sum is to be cut, if it has that size.
    """
    return settled(path, lambda known, reason: _look(path, known, reason, n_params, cuts, files), files)


def _look(
    path: Path, known: Sum | None, reason: str, n_params: int | None, cuts: Sequence[Part] | None, files: Files
) -> Look:
    with opened(path, files) as file:
        step, n = judged_header(path, file, known, files)
        if n_params is not None and n != n_params:
            raise CheckpointError(f"{path}: found {n} parameters, expected {n_params}", "torn")
        watched = watches(known, n)
        if watched:
            cuts = watched[0][0].cuts()
        elif cuts is None or sum(cuts[-1][1:]) != nbytes(n):
            cuts = parts_of(n)
        own = watched[0][1] if watched else PartSums(cuts)
        sha256, bad = _stream(path, file, HEADER.pack(step, n), [sums for _, sums in watched] or [own], cuts, files)
    fitting = known.fitting(sha256) if known else None
    if known and fitting is None:
        raise CheckpointError(f"{path}: {difference(known, n, watched)}", "flipped")
    parts = tuple((*cut, text) for cut, text in zip(cuts, own.hexes(), strict=True))
    itself = Sum(path.name, nbytes(n), step, n, sha256, parts)
    if bad:
        return Look(NON_FINITE, bad, itself, fitting)
    return Look(COMMITTED if fitting else UNVERIFIED, reason, itself, fitting)


def _stream(
    path: Path, file: io.FileIO, head: bytes, takers: Sequence[PartSums], cuts: Sequence[Part], files: Files
) -> tuple[str, str]:
    """Read what is behind the header: the sha256 of the whole, and the text about the first bad number, or ""."""
    digest, text = hashlib.sha256(head), ""
    for sums in takers:
        sums.update(memoryview(head))
    _, n = HEADER.unpack(head)
    buffer = np.empty(min(READ // 4, n), np.float32)
    for region, name in enumerate("wmv"):
        for at in range(0, n, buffer.size):
            numbers = buffer[: n - at]
            for piece in pieces_into(path, file, (numbers,), files):
                digest.update(piece)
                for sums in takers:
                    sums.update(piece)
            if not text and (bad := first_bad(name, numbers)) is not None:
                text = bad_number(cuts, region, at + bad, n, numbers[bad])
    expect_end(path, file, files)
    return digest.hexdigest(), text
