"""The few operations on files that a save needs, behind one small class, so that a test can make any of them fail."""

import os
from pathlib import Path


class Files:
    """The real file system. Every method either does its whole job or raises OSError."""

    def create(self, path: Path) -> int:
        """Open a new file for writing; fails if the name is taken. Returns the descriptor."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o644)

    def write(self, fd: int, data: memoryview) -> int:
        """Write some of `data`, return how many bytes went out."""
        return os.write(fd, data)

    def sync(self, fd: int) -> None:
        """Push the file's bytes to the disk."""
        os.fsync(fd)

    def size(self, fd: int) -> int:
        """The file's length in bytes."""
        return os.fstat(fd).st_size

    def close(self, fd: int) -> None:
        os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        """Replace `new` by `old` in one indivisible act."""
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def sync_folder(self, path: Path) -> None:
        """Push the folder's names to the disk, where the system offers it."""
        if os.name != "posix":
            return
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


REAL = Files()


def write_all(files: Files, fd: int, data: memoryview) -> None:
    """Write all of `data`, however short the single writes are."""
    while data.nbytes:
        done = files.write(fd, data)
        if done <= 0:
            raise OSError(f"write took {done} of {data.nbytes} bytes")
        data = data[done:]


def replace_with(path: Path, fill, *, files: Files = REAL, size: int | None = None) -> None:
    """Write a file so that its name shows either the old content or all of the new.

    `fill(write)` calls `write(memoryview)` as often as it likes. The bytes go to a temporary neighbour, are synced and
    counted (`size`, if given), then the neighbour takes the name, then the folder is synced. On any error the neighbour
    is removed and the error goes on. An error of the last sync leaves the new file in place.
    """
    temp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    fd = files.create(temp)
    try:
        try:
            fill(lambda data: write_all(files, fd, data))
            files.sync(fd)
            if size is not None and (found := files.size(fd)) != size:
                raise OSError(f"{temp.name} has {found} bytes, expected {size}")
        finally:
            files.close(fd)
        files.rename(temp, path)
    except BaseException:
        if temp.exists():
            files.remove(temp)
        raise
    files.sync_folder(path.parent)
