"""Eight ways to save, from the first that comes to mind to those that hold, small enough to be read and changed.

Each is a function of the file system's seam, the run's folder and the bytes to be saved as step 200. `crashes_of` runs
one against the crash explorer, and `survivor` is the judge: the package's own loader, which takes the newest weight
file it finds no fault with.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from andrea_lab.checkpoint.files import Files, write_all
from andrea_lab.checkpoint.load import load
from andrea_lab.checkpoint.single import HEADER, CheckpointError
from andrea_lab.checkpoint.verify import candidates
from andrea_lab.lesson.crashes import DAMAGED, MODELS, NEW, NOTHING, OLD, Explored, explore, lay_out, record, scratch

N = 4  # parameters of the model that is saved
FIRST, SECOND, THIRD = "step_000000.bin", "step_000100.bin", "step_000200.bin"


def in_place(files: Files, folder: Path, new: bytes) -> None:
    """Write over the file that is there."""
    fd = files.append(folder / THIRD)
    files.truncate(fd, 0)
    write_all(files, fd, memoryview(new))
    files.close(fd)


def renamed(files: Files, folder: Path, new: bytes, sync: bool = False, sync_folder: bool = False) -> None:
    """Write a neighbour and give it the name. Nothing is synced unless it is asked for."""
    temp = folder / f"{THIRD}.tmp"
    fd = files.create(temp)
    write_all(files, fd, memoryview(new))
    if sync:
        files.sync(fd)
    files.close(fd)
    files.rename(temp, folder / THIRD)
    if sync_folder:
        files.sync_folder(folder)


def file_synced(files: Files, folder: Path, new: bytes) -> None:
    """The neighbour's bytes are on the disk before it gets the name."""
    renamed(files, folder, new, sync=True)


def both_synced(files: Files, folder: Path, new: bytes) -> None:
    """The name is on the disk, too, before anyone hears of it."""
    renamed(files, folder, new, sync=True, sync_folder=True)


def keep_1_before(files: Files, folder: Path, new: bytes) -> None:
    """Keep one file; the old one goes before the save, which takes less room."""
    files.remove(folder / SECOND)
    both_synced(files, folder, new)


def keep_1_unsynced(files: Files, folder: Path, new: bytes) -> None:
    """Keep one file; the old one goes after the save, whose folder was not synced."""
    file_synced(files, folder, new)
    files.remove(folder / SECOND)


def keep_1_after(files: Files, folder: Path, new: bytes) -> None:
    """Keep one file; the old one goes after the save."""
    both_synced(files, folder, new)
    files.remove(folder / SECOND)


def keep_2_after(files: Files, folder: Path, new: bytes) -> None:
    """Keep two files; the oldest goes after the save."""
    both_synced(files, folder, new)
    files.remove(folder / FIRST)


@dataclass(frozen=True)
class Protocol:
    """A way to save, its name in pictures, and the whole, synced files it finds in its folder."""

    name: str
    save: Callable[[Files, Path, bytes], None]
    before: dict[str, bytes]


def weights(step: int, value: float) -> bytes:
    """A weight file of N parameters in which every number is `value`."""
    return HEADER.pack(step, N) + np.full(3 * N, value, "<f4").tobytes()


NEW_BYTES = weights(200, 2.0)
SAME = {THIRD: weights(200, 1.0)}
ONE = {SECOND: weights(100, 1.0)}
TWO = {FIRST: weights(0, 1.0), **ONE}
PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("in place", in_place, SAME),
        Protocol("rename", renamed, SAME),
        Protocol("sync, rename", file_synced, SAME),
        Protocol("sync, rename, sync folder", both_synced, SAME),
        Protocol("keep 1, remove before", keep_1_before, ONE),
        Protocol("keep 1, folder not synced", keep_1_unsynced, ONE),
        Protocol("keep 1, remove after", keep_1_after, ONE),
        Protocol("keep 2, remove after", keep_2_after, TWO),
    )
}


def crashes_of(protocol: Protocol, models: Iterable[str] = MODELS) -> Explored:
    """What a protocol does, and every state in which a crash may leave its folder, with the loader's verdict."""
    with scratch() as top:
        folder = top / "run"
        lay_out(tuple(protocol.before.items()), folder)
        log = record(folder, lambda files: protocol.save(files, folder, NEW_BYTES))
    return explore(log, survivor({NEW_BYTES}, set(protocol.before.values())), models)


def survivor(new: set[bytes], old: set[bytes], n: int = N) -> Callable[[Path], str]:
    """A judge: whether the newest file of n parameters that loads is one of `new`, of `old`, or other bytes."""

    def judge(folder: Path) -> str:
        for path in candidates(folder):
            try:
                load(path, *(np.empty(n, np.float32) for _ in range(3)))
            except CheckpointError:
                continue
            data = path.read_bytes()
            return NEW if data in new else OLD if data in old else DAMAGED
        return NOTHING

    return judge
