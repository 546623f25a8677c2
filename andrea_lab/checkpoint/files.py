"""The one door to the file system: every file the project writes goes through `Files`, so a test can make any act fail.

A file that is replaced is never opened: its new content goes to a temporary neighbour `.NAME.PID-K.tmp`, is synced and
counted, and takes the name in one rename. `sweep` clears away the neighbours that a killed process left.
"""

import errno
import io
import itertools
import os
import re
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

NOFOLLOW, NONBLOCK, CLOEXEC, BINARY = (
    getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "CLOEXEC", "BINARY")
)
TEMP = re.compile(r"\.(.+)\.([0-9]+)-([0-9]+)\.tmp")
KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class Files:
    """The real file system. Every method either does its whole job or raises OSError."""

    def create(self, path: Path) -> int:
        """Open a new file for writing; fails if the name is taken, be it by a link. Returns the descriptor."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | CLOEXEC | BINARY, 0o644)

    def append(self, path: Path) -> int:
        """Open a file for reading and for writing at its end, made if it is not there. Returns the descriptor."""
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | NOFOLLOW | CLOEXEC | BINARY, 0o644)

    def open(self, path: Path) -> io.FileIO:
        """Open a regular file for reading; never waits for a pipe, follows a link or touches a device."""
        _check_regular(os.lstat(path).st_mode, path)
        file = io.FileIO(path, opener=lambda name, flags: os.open(name, flags | NOFOLLOW | NONBLOCK | CLOEXEC))
        try:
            _check_regular(os.fstat(file.fileno()).st_mode, path)
        except OSError:
            file.close()
            raise
        return file

    def read(self, file: io.FileIO, into: memoryview) -> int:
        """Read some bytes into `into`, return how many came; 0 at the end of the file."""
        return file.readinto(into)

    def write(self, fd: int, data: memoryview) -> int:
        """Write some of `data`, return how many bytes went out."""
        return os.write(fd, data)

    def sync(self, fd: int) -> None:
        """Push the file's bytes, and what describes it, to the disk."""
        os.fsync(fd)

    def datasync(self, fd: int) -> None:
        """Push the file's bytes and its length to the disk."""
        getattr(os, "fdatasync", os.fsync)(fd)

    def size(self, fd: int) -> int:
        """The file's length in bytes."""
        return os.fstat(fd).st_size

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(fd, size)

    def close(self, fd: int) -> None:
        os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        """Replace `new` by `old` in one indivisible act."""
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        """Take a name away; of a link, the link and not what it points to."""
        os.unlink(path)

    def make_folder(self, path: Path) -> None:
        """Make one folder; fails if the name is taken or the folder around it is missing."""
        os.mkdir(path)

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        os.rmdir(path)

    def sync_folder(self, path: Path) -> None:
        """Push the folder's names to the disk, where the system offers it."""
        if os.name != "posix":
            return
        fd = os.open(path, os.O_RDONLY | CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free(self, path: Path) -> int:
        """Bytes that may still be written to the disk of this folder."""
        return shutil.disk_usage(path).free


REAL = Files()


class Temp(NamedTuple):
    """A temporary neighbour while it is written: its path, and what writes all of a memoryview to it."""

    path: Path
    write: Callable[[memoryview], None]


_numbers = itertools.count()
_in_use: set[str] = set()  # names of temporary neighbours that a thread of this process is at work on


def write_all(files: Files, fd: int, data: memoryview) -> None:
    """Write all of `data`, however short the single writes are."""
    while data.nbytes:
        done = files.write(fd, data)
        if done <= 0:
            raise OSError(errno.EIO, f"write took {done} of {data.nbytes} bytes")
        data = data[done:]


def read_all(files: Files, file: io.FileIO, into: memoryview) -> int:
    """Fill `into`, however short the single reads are; returns the bytes read, fewer only at the end of the file."""
    total = into.nbytes
    while into.nbytes and (got := files.read(file, into)):
        into = into[got:]
    return total - into.nbytes


def stage(
    path: Path,
    fill: Callable[[Temp], None],
    *,
    files: Files = REAL,
    size: int | None = None,
    check: Callable[[Path], None] | None = None,
) -> Path:
    """Write a temporary neighbour of `path`, synced and counted, ready for `commit`; returns its path.

    check: looks at the closed neighbour and raises OSError if it is not what it should be. Any error removes the
    neighbour and goes on. A sync that failed is not tried again: the system may have dropped the bytes.
    """
    temp, fd = _create(path, files)
    try:
        try:
            fill(Temp(temp, lambda data: write_all(files, fd, data)))
            files.sync(fd)
            if size is not None and (found := files.size(fd)) != size:
                raise OSError(errno.EIO, f"{temp.name} has {found} bytes, expected {size}")
        except BaseException:
            with suppress(OSError):  # the first error is the one to tell
                files.close(fd)
            raise
        files.close(fd)
        if check is not None:
            check(temp)
    except BaseException:
        discard(temp, files)
        raise
    return temp


def commit(temp: Path, path: Path, files: Files = REAL) -> None:
    """Let a staged neighbour take the name; if it cannot, it is removed. The folder is not synced here."""
    try:
        files.rename(temp, path)
    except BaseException:
        discard(temp, files)
        raise
    _in_use.discard(temp.name)


def discard(temp: Path, files: Files = REAL) -> None:
    """Remove a staged neighbour; what cannot be removed now is left for `sweep`."""
    _in_use.discard(temp.name)
    with suppress(OSError):
        files.remove(temp)


def replace_with(
    path: Path,
    fill: Callable[[Callable[[memoryview], None]], None],
    *,
    files: Files = REAL,
    size: int | None = None,
    check: Callable[[Path], None] | None = None,
) -> None:
    """Write a file so that its name shows either the old content or all of the new.

    `fill(write)` calls `write(memoryview)` as often as it likes. The bytes go to a temporary neighbour, are synced,
    counted (`size`, if given) and looked at (`check`), then the neighbour takes the name, then the folder is synced. On
    any error the neighbour is removed and the error goes on. An error of the last sync leaves the new file in place.
    """
    commit(stage(path, lambda temp: fill(temp.write), files=files, size=size, check=check), path, files)
    files.sync_folder(path.parent)


def make_folders(path: Path, files: Files = REAL) -> None:
    """Make a folder and what is missing above it; one that is there already is left as it is."""
    for folder in reversed([folder for folder in (path, *path.parents) if not folder.is_dir()]):
        try:
            files.make_folder(folder)
        except FileExistsError:
            if not folder.is_dir():  # else somebody was faster
                raise


def sweep(folder: Path, files: Files = REAL) -> list[str]:
    """Remove the temporary neighbours that nobody is at work on; returns their names.

    Those of dead processes go, and those that this process left behind; those of another live process stay. A link is
    removed, what it points to is not touched. What cannot be removed stays and is not reported as gone.
    """
    gone = []
    for name in sorted(os.listdir(folder)):
        path = folder / name
        if (match := TEMP.fullmatch(name)) and not _at_work(int(match[2]), name) and not path.is_dir():
            with suppress(OSError):
                files.remove(path)
                gone.append(name)
    return gone


def _create(path: Path, files: Files) -> tuple[Path, int]:
    while True:
        temp = path.with_name(f".{path.name}.{os.getpid()}-{next(_numbers)}.tmp")
        _in_use.add(temp.name)
        try:
            return temp, files.create(temp)
        except BaseException as error:
            _in_use.discard(temp.name)
            # A process of an earlier boot may have had this number: take the next name.
            if not (isinstance(error, FileExistsError) and os.path.lexists(temp)):
                raise


def _at_work(pid: int, name: str) -> bool:
    if pid == os.getpid():
        return name in _in_use
    if os.name != "posix":
        return False  # there a file that is open cannot be removed, which is answer enough
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _check_regular(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        kind = next((text for test, text in KINDS if test(mode)), "something that is not a file")
        raise OSError(errno.EINVAL, kind, str(path))
