"""Which old checkpoints go: all but the newest `keep` good ones, by number, and never one that may still be needed.

Good is what `examine` calls committed: whole, with the digest of its `.sum`, finite. Nothing else is counted and
nothing else is removed, so a damaged, a non-finite or an unverified file takes no good one's place. The `.bin` goes
first: its name is what makes a checkpoint, and a `.sum` alone is litter, which the rotation then takes away.
"""

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from andrea_lab.checkpoint.files import REAL, Files, read_all, replace_with
from andrea_lab.checkpoint.single import UNREADABLE, CheckpointError, file_name, step_of
from andrea_lab.checkpoint.sums import sum_path
from andrea_lab.checkpoint.verify import COMMITTED, examine, scan

PIN, SUM = ".pin", ".sum"
LONGEST_REASON = 4096  # bytes of a pin that are read


class Memo:
    """What `examine` found in this process, so that no file is hashed twice while it and its `.sum` stay as they are.

    n_params: the model's size; a checkpoint of another size is not good here. None takes any.
    """

    def __init__(self, n_params: int | None = None):
        self.n_params = n_params
        self._verdicts: dict[tuple, str] = {}

    def knows(self, path: Path) -> bool:
        """Whether `good(path)` has its answer without reading the file."""
        key = _identity(path)
        return key is None or key in self._verdicts

    def good(self, path: Path) -> bool:
        """Whether the file is a good checkpoint; False as well for one that is no longer there."""
        key = _identity(path)
        if key is None:
            return False
        if key not in self._verdicts:
            verdict = examine(path, n_params=self.n_params).verdict
            if verdict == UNREADABLE or _identity(path) != key:  # or it changed while it was read: nothing to remember
                return False
            self._verdicts[key] = verdict
        return self._verdicts[key] == COMMITTED

    def remember(self, path: Path) -> None:
        """Take a file as good that was verified elsewhere in this process: just saved and read back, or loaded."""
        key = _identity(path)
        if key is not None:
            self._verdicts[key] = COMMITTED


def rotate(
    folder: Path,
    keep: int,
    *,
    files: Files = REAL,
    verified: Memo | None = None,
    enough: Callable[[], bool] = lambda: False,
    coming: int = 0,
) -> list[str]:
    """Remove good checkpoints, oldest first, until `keep` are left; returns the names of those removed.

    keep: 0 keeps all. coming: files about to be saved, for which room is made, though one good one always stays. Pinned
    checkpoints stay and are not counted. `enough` is asked before a file is hashed that `verified` does not know; when
    it says True, this rotation does no more and the next one goes on. Raises OSError when the disk fails; whatever was
    not removed then is as it was.
    """
    if keep < 0:
        raise CheckpointError(f"keep: found {keep}, expected 0 or more")
    if keep == 0:
        return []
    keep = max(1, keep - coming)
    memo = Memo() if verified is None else verified
    pinned = pins(folder)
    found = [path for path in scan(folder) if step_of(path.name) not in pinned]
    doomed = _surplus(found, keep, memo, enough) if len(found) > keep else []
    gone = _remove(folder, doomed, files)
    _remove_lone_sums(folder, pinned, files)
    return gone


def pin(folder: Path, step: int, why: str, *, files: Files = REAL) -> None:
    """Keep a checkpoint from rotation; a second reason is added to the first. Raises CheckpointError, OSError."""
    there = next((path for path in scan(folder) if step_of(path.name) == step), None)
    if there is None:
        raise CheckpointError(f"{folder / file_name(step)}: found no weight file, expected one to pin")
    reasons = [" ".join(text.split()) for text in (pins(folder).get(step, ""), why)]
    text = "; ".join(dict.fromkeys(filter(None, reasons))) + "\n"
    replace_with(_pin_path(there), lambda write: write(memoryview(text.encode())), files=files)
    if not os.path.lexists(there):  # a rotation was faster
        unpin(folder, step, files=files)
        raise CheckpointError(f"{there}: found that it was just removed, expected one to pin")


def unpin(folder: Path, step: int, *, files: Files = REAL) -> None:
    """Leave a checkpoint to rotation again. Raises CheckpointError when it is not pinned, OSError."""
    if step not in pins(folder):
        raise CheckpointError(f"{folder / file_name(step)}: found no pin, expected one")
    for found, path in _named(folder, PIN):
        if found == step:
            files.remove(path)
    files.sync_folder(folder)


def pins(folder: Path) -> dict[int, str]:
    """Step -> why, for every pin. The name alone pins: a reason that cannot be read is empty."""
    return {step: _reason(path) for step, path in _named(folder, PIN)}


def _pin_path(path: Path) -> Path:
    return path.with_name(path.name + PIN)


def _named(folder: Path, ending: str) -> list[tuple[int, Path]]:
    """(step, path) of everything that is called like a weight file with `ending` after it."""
    names = sorted(name for name in os.listdir(folder) if name.endswith(ending))
    found = ((step_of(name.removesuffix(ending)), folder / name) for name in names)
    return [(step, path) for step, path in found if step is not None]


def _identity(path: Path) -> tuple | None:
    """What tells a file and its `.sum` from any other state of theirs, None when the file is gone."""
    own = _stat(path)
    return own and (path.name, own, _stat(sum_path(path)))


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _surplus(ascending: list[Path], keep: int, memo: Memo, enough: Callable[[], bool]) -> list[Path]:
    """The good ones, oldest first, that are older than the newest `keep` good ones."""
    left, stay, doomed = list(ascending), 0, []
    while left:
        at = -1 if stay < keep else 0  # the newest, until enough of them are good; then the oldest
        if not memo.knows(left[at]) and enough():
            break
        path = left.pop(at)
        if memo.good(path) and at == -1:
            stay += 1
        elif memo.good(path):
            doomed.append(path)
    return doomed


def _remove(folder: Path, doomed: Iterable[Path], files: Files) -> list[str]:
    """Every `.bin`, then their absence onto the disk: no power loss leaves one whose `.sum` went after it.

    One that was pinned while others were hashed stays. Returns the names of those removed.
    """
    gone = []
    for path in doomed:
        if os.path.lexists(_pin_path(path)):
            continue
        with contextlib.suppress(FileNotFoundError):  # someone else's hand was quicker
            files.remove(path)
            gone.append(path.name)
    if gone:
        files.sync_folder(folder)
    return gone


def _remove_lone_sums(folder: Path, pinned: Iterable[int], files: Files) -> None:
    """The `.sum` of every checkpoint older than the newest that has no `.bin`."""
    newest = max((step_of(path.name) for path in scan(folder)), default=0)
    for step, path in _named(folder, SUM):
        if step < newest and step not in pinned and not os.path.lexists(path.with_suffix("")):
            with contextlib.suppress(FileNotFoundError):
                files.remove(path)


def _reason(path: Path) -> str:
    data = bytearray(LONGEST_REASON)
    try:
        with REAL.open(path) as file:
            return bytes(data[: read_all(REAL, file, memoryview(data))]).decode(errors="replace").strip()
    except OSError:
        return ""
