"""Saving a weight file: all of it or nothing, and never at the cost of a good one that stands there.

The pieces go to a temporary neighbour while a second thread reads them back from the file and hashes them, so that what
is committed is what the disk gave back. Then: fsync, size, the sum beside it (renamed first), the rename of the weight
file, which is the commit, and the sync of the folder.

A file of that step may stand there already. The same bytes: nothing is written. Other good bytes: they are copied to
`.was-SEGMENT`, and the new sum carries the old one as `before`, so that the file fits one of the two at every instant.
Damaged bytes: they are renamed to `.bad-SEGMENT`. Numbers that are not finite, or below zero in v, go to
`.nonfinite-SEGMENT`, a name that is never loaded from, and the save is refused.
"""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from andrea_lab.checkpoint.files import REAL, Files, Temp, commit, discard, read_all, replace_with, stage
from andrea_lab.checkpoint.load import bad_number, known_sum
from andrea_lab.checkpoint.numbers import first_bad
from andrea_lab.checkpoint.readback import Beside, ReadBack
from andrea_lab.checkpoint.single import (
    HEADER,
    PIECE,
    READ,
    UNREADABLE,
    CheckpointError,
    check_arrays,
    file_name,
    nbytes,
)
from andrea_lab.checkpoint.sums import (
    Part,
    PartSums,
    Sum,
    SumError,
    parts_of,
    sum_path,
    to_json,
    write_sum,
    write_sum_file,
)
from andrea_lab.checkpoint.verify import Look, look

RESERVE = 2**20  # bytes that must stay free beside the weight file, for the sum and the loss log


class SaveError(OSError):
    """The disk failed; one line. committed: True when the file stands and only its durability is unknown."""

    def __init__(self, message: str, number: int | None = None, committed: bool = False):
        super().__init__(message)
        self.errno, self.committed = number, committed


@dataclass(frozen=True)
class Saved:
    """What a save did. outcome: "new", "same" (nothing was written), "replaced" (good bytes) or "repaired" (bad)."""

    file: Path
    step: int
    sha256: str
    nbytes: int
    outcome: str


def save(
    folder: Path,
    step: int,
    w: np.ndarray,
    m: np.ndarray,
    v: np.ndarray,
    *,
    segment: int = 1,
    entry: dict[str, Any] | None = None,
    tensors: Sequence[tuple[str, int, int]] | None = None,
    config: str | None = None,
    files: Files = REAL,
    between: Callable[[], None] = lambda: None,
) -> Saved:
    """Write `step_NNNNNN.bin` and its sum into a folder, as a whole or not at all.

    w, m, v: (n,) float32, contiguous. segment: of the run, from 1. entry: the step's line of the loss log. tensors:
    (name, offset, size) in elements, to name what a damaged byte lies in. config: sha256 of the run's config.json.
    `between` is called before each piece of 8 MiB; what it raises ends the save and goes on.

    Raises CheckpointError for arrays that do not fit the format or hold numbers that may not be kept, SaveError when
    the disk fails. Then the old file is as it was, and nothing else is left; see SaveError.committed for the exception.
    """
    path = Path(folder) / file_name(step)
    n = check_arrays(path, step, w, m, v)
    try:
        cuts = parts_of(n, tensors)
        new = _New(path, step, (w, m, v), cuts, segment, entry, config, files, between)
        to_json(new.sum("0" * 64, ["0" * 16] * len(cuts), None))
    except SumError as error:
        raise CheckpointError(f"{path}: {error}") from None
    try:
        return _save(new)
    except SaveError:
        raise
    except OSError as error:
        raise SaveError(f"{path}: not saved: {_text(error)}", error.errno) from error


@dataclass(frozen=True)
class _New:
    """One save's material."""

    path: Path
    step: int
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray]
    cuts: list[Part]
    segment: int
    entry: dict[str, Any] | None
    config: str | None
    files: Files
    between: Callable[[], None]

    @property
    def n(self) -> int:
        return int(self.arrays[0].size)

    def sum(self, sha256: str, hexes: Sequence[str], before: Sum | None) -> Sum:
        """The sum of the new file."""
        parts = tuple((*cut, text) for cut, text in zip(self.cuts, hexes, strict=True))
        about = (self.path.name, nbytes(self.n), self.step, self.n, sha256, parts, self.segment)
        return Sum(*about, entry=self.entry, config=self.config, before=before)

    def pieces(self) -> Iterator[memoryview]:
        """The bytes of the file in order, with a look at `between` before each 8 MiB."""
        self.between()
        yield memoryview(HEADER.pack(self.step, self.n))
        for array in self.arrays:
            view = memoryview(array).cast("B")
            for at in range(0, view.nbytes, READ):
                if at % PIECE == 0:
                    self.between()
                yield view[at : at + READ]

    def aside(self, label: str) -> tuple[Path, Path]:
        """Names that are free for a weight file that has to go and for its sum: NAME.LABEL-SEGMENT, -2, -3, ..."""
        number = 1
        while True:
            end = f".{label}-{self.segment}" + (f"-{number}" if number > 1 else "")
            names = self.path.with_name(self.path.name + end), self.path.with_name(sum_path(self.path).name + end)
            if not any(map(os.path.lexists, names)):
                return names
            number += 1


def _save(new: _New) -> Saved:
    path, files = new.path, new.files
    standing, damaged = _standing(new)
    if standing is not None and (done := _same(new, standing)):
        return done
    need = nbytes(new.n) + RESERVE + (standing.own.nbytes if standing else 0)
    if (free := files.free(path.parent)) < need:
        raise OSError(errno.ENOSPC, f"found {free} bytes free, expected {need}")
    temp, sha256, hexes = _staged(new)
    made: list[Path] = []
    try:
        before = None if standing is None else _copy_aside(new, standing, made)
        if damaged:
            _move_aside(new, "bad")
        _put_sum(new, new.sum(sha256, hexes, before), made)
        commit(temp, path, files)
    except BaseException:
        discard(temp, files)
        for left in made:
            with suppress(OSError):
                files.remove(left)
        raise
    _sync_folder(new)
    return Saved(path, new.step, sha256, nbytes(new.n), "replaced" if standing else "repaired" if damaged else "new")


def _standing(new: _New) -> tuple[Look | None, bool]:
    """(what stands under the name if its bytes are of use, whether something of no use stands there)."""
    if not os.path.lexists(new.path):
        return None, False
    try:
        return look(new.path, cuts=new.cuts, files=new.files), False
    except CheckpointError as error:
        if error.verdict == UNREADABLE and error.__cause__.errno != errno.EIO:
            raise error.__cause__ from None  # it may be whole; one that the disk itself does not give is put aside
        return None, True


def _same(new: _New, standing: Look) -> Saved | None:
    """The outcome "same", if the file that stands there has the very bytes; it gets its sum if it has none."""
    digest = hashlib.sha256()
    for piece in new.pieces():
        digest.update(piece)
    hexes, bad = _meant(new)
    if bad or digest.hexdigest() != standing.own.sha256:
        return None
    if standing.sum is None:
        _put_sum(new, new.sum(digest.hexdigest(), hexes, None), [])
    return Saved(new.path, new.step, digest.hexdigest(), nbytes(new.n), "same")


def _staged(new: _New) -> tuple[Path, str, list[str]]:
    """Write the temporary neighbour and compare what it gives back: its path, the sha256, the sums of the parts.

    Numbers that may not be kept are found on the way; then the neighbour takes its `.nonfinite-` name.
    """
    back: list[ReadBack] = []

    def fill(temp: Temp) -> None:
        back.append(ReadBack(temp.path, new.cuts, new.files))
        for piece in new.pieces():
            temp.write(piece)
            back[0].written(piece.nbytes)

    def compare(temp: Path) -> None:
        for cut, found, right in zip(new.cuts, back[0].result()[1], meant.result()[0], strict=True):
            if found != right:
                raise OSError(errno.EIO, f"{cut[0]}: the file gave back other bytes than were written")

    meant = Beside(_meant, new)
    try:
        temp = stage(new.path, fill, files=new.files, size=nbytes(new.n), check=compare)
    finally:
        meant.wait()
        for thread in back:
            thread.stop()
    if bad := meant.result()[1]:
        kept, _ = new.aside("nonfinite")
        commit(temp, kept, new.files)
        _sync_folder(new)
        raise CheckpointError(f"{new.path}: {bad}; the bytes are kept in {kept.name}", "non-finite")
    return temp, *back[0].result()


def _meant(new: _New) -> tuple[list[str], str]:
    """From memory: the sums of the parts, and the text about the first number that may not be kept, or ""."""
    sums, bad = PartSums(new.cuts), ""
    sums.update(memoryview(HEADER.pack(new.step, new.n)))
    step = READ // 4
    for region, array in enumerate(new.arrays):
        for at in range(0, new.n, step):
            numbers = array[at : at + step]
            sums.update(memoryview(numbers).cast("B"))
            if not bad and (found := first_bad("wmv"[region], numbers)) is not None:
                bad = bad_number(new.cuts, region, at + found, new.n, numbers[found])
    return sums.hexes(), bad


def _copy_aside(new: _New, standing: Look, made: list[Path]) -> Sum:
    """Copy a good file and its sum to `.was-SEGMENT`, unless a copy is there; returns what is to be `before`."""
    path, files, own = new.path, new.files, standing.own
    before = standing.sum.alone() if standing.sum else own
    for there in path.parent.glob(f"{path.name}.was-*"):
        with suppress(OSError):  # what cannot be read is no copy
            if there.stat().st_size == own.nbytes and _sha256(there, files) == own.sha256:
                return before
    names = new.aside("was")
    if standing.sum:
        made.append(names[1])
        write_sum_file(names[1], before, files)

    def check(copy: Path) -> None:
        if _sha256(copy, files) != own.sha256:
            raise OSError(errno.EIO, f"{names[0].name}: the copy is not what {path.name} was a moment ago")

    made.append(names[0])
    replace_with(names[0], lambda write: _copy(new, write), files=files, size=own.nbytes, check=check)
    return before


def _copy(new: _New, write: Callable[[memoryview], None]) -> None:
    """Write all of the standing file."""
    buffer = memoryview(bytearray(PIECE))
    with new.files.open(new.path) as file:
        while got := read_all(new.files, file, buffer):
            new.between()
            write(buffer[:got])


def _sha256(path: Path, files: Files) -> str:
    digest, buffer = hashlib.sha256(), memoryview(bytearray(READ))
    with files.open(path) as file:
        while got := read_all(files, file, buffer):
            digest.update(buffer[:got])
    return digest.hexdigest()


def _move_aside(new: _New, label: str) -> None:
    """Rename the file that stands there, then its sum: a damaged file must not stand there as one without a sum."""
    names = new.aside(label)
    new.files.rename(new.path, names[0])
    if os.path.lexists(sum_path(new.path)):
        new.files.rename(sum_path(new.path), names[1])


def _put_sum(new: _New, value: Sum, made: list[Path]) -> None:
    """Put the sum in its place; one that cannot be read goes to `.bad-SEGMENT`. It is `made` if it is nobody else's."""
    there = sum_path(new.path)
    if os.path.lexists(there) and known_sum(new.path, new.files)[0] is None:
        new.files.rename(there, new.aside("bad")[1])
    if not os.path.lexists(new.path):
        made.append(there)
    write_sum(new.path, value, new.files)


def _sync_folder(new: _New) -> None:
    try:
        new.files.sync_folder(new.path.parent)
    except OSError as error:
        text = f"{new.path}: committed, durability unknown: {_text(error)} while its folder was synced"
        raise SaveError(text, error.errno, committed=True) from error


def _text(error: OSError) -> str:
    return error.strerror or str(error)
