"""One engine and one proxy to a run directory: a lock that the kernel drops when its holder dies, however it dies.

The lock is an flock on `<role>.lock`; the file stays, its being there means nothing. While the lock is held, the file
names the holder, with the time its process started, so that a number given to another process later is noticed.
"""

import json
import os
import socket
import weakref
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep

from andrea_lab.checkpoint.files import REAL, Files, write_all

ROLES = ("engine", "proxy")
PATIENCE = 1.0  # seconds for a lock held by nobody we can name: a holder about to write its record, or one just dying
PAUSE = 0.02  # seconds between two tries
SAME_START = 1.5  # seconds by which two readings of one process's start may differ
LOCKS = Path("/proc/locks")  # "1: FLOCK ADVISORY WRITE pid device:inode 0 EOF"

_held: "weakref.WeakSet[RunLock]" = weakref.WeakSet()


class LockError(ValueError):
    """A run directory that is in use, or where no lock can be had; the message is one line for the user."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lock. started: seconds between the machine's start and the process's; since: UTC, as text."""

    pid: int
    started: float
    role: str
    host: str
    since: str

    @property
    def here(self) -> bool:
        """Whether the process is one of this machine, and so may be looked at and signalled."""
        return self.host == socket.gethostname()

    @property
    def alive(self) -> bool:
        """Whether the process is there, and is the one that took the lock, not a later one of the same number."""
        started = process_start(self.pid) if self.here else None
        return started is not None and abs(started - self.started) < SAME_START

    def __str__(self) -> str:
        where = "" if self.here else f" on {self.host}"
        return f"{self.role} {self.pid}{where} (since {self.since})"


class RunLock:
    """The lock of one role, "engine" or "proxy", in a run directory. Also a context manager."""

    def __init__(self, folder: Path | str, role: str, files: Files = REAL):
        if role not in ROLES:
            raise ValueError(f"role: found {role!r}, expected one of {', '.join(ROLES)}")
        self.folder, self.role, self.files = Path(folder), role, files
        self.path = lock_path(self.folder, role)
        self._fd = -1

    @property
    def held(self) -> bool:
        return self._fd >= 0

    def acquire(self, wait: float = 0.0) -> "RunLock":
        """Take the lock, or do nothing when this object has it. wait: seconds to wait for a holder to end.

        Raises LockError naming the holder when another has it, this process included, and when the folder or the
        system cannot give a lock.
        """
        start = monotonic()
        while not self.held:
            if self._try():
                break
            holder, waited = _read(self.path), monotonic() - start
            known = holder is not None and (holder.alive or not holder.here)
            if waited >= max(wait, PAUSE if known else PATIENCE):
                raise LockError(f"{self.folder}: found {_named(holder, self.role)}, expected no other")
            sleep(PAUSE)
        return self

    def release(self) -> None:
        """Give the lock up. The record goes first, so that it is never read when nobody holds the lock."""
        if not self.held:
            return
        fd, self._fd = self._fd, -1
        _held.discard(self)
        try:
            with suppress(OSError):  # a record without a lock is not believed
                self.files.truncate(fd, 0)
        finally:
            self.files.close(fd)

    def __enter__(self) -> "RunLock":
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)

    def _try(self) -> bool:
        fcntl = _fcntl(self.folder)
        fd = -1
        try:
            fd = self.files.append(self.path)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _same_file(fd, self.path):  # removed or replaced between the two calls: another may lock the new one
                return False
            self._record(fd)
            self._fd, fd = fd, -1
            _held.add(self)
            return True
        except BlockingIOError:
            return False
        except OSError as error:
            raise LockError(
                f"{self.path}: found {error.strerror or error}, expected a folder where a lock can be held"
            ) from error
        finally:
            if fd >= 0:
                self.files.close(fd)

    def _record(self, fd: int) -> None:
        since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        holder = Holder(os.getpid(), process_start(os.getpid()) or 0.0, self.role, socket.gethostname(), since)
        self.files.truncate(fd, 0)
        write_all(self.files, fd, memoryview((json.dumps(asdict(holder)) + "\n").encode()))


def lock_path(folder: Path | str, role: str) -> Path:
    return Path(folder) / f"{role}.lock"


def holder(folder: Path | str, role: str) -> Holder | None:
    """Who holds the lock now: only when it is really held and the process that took it is there. None otherwise.

    A holder on another machine cannot be looked at and is believed while the lock is held.
    """
    path = lock_path(folder, role)
    found = _read(path)
    if found is None or (found.here and not found.alive):
        return None
    return found if _is_locked(path) else None


def seen_at_work(folder: Path | str, role: str) -> Holder | None:
    """Who seems to hold the lock, found out by looking alone: no lock is asked for, so that none is ever in the way.

    The record must name a process that is there and, where the system lists its locks, has one on this very file. A
    holder on another machine cannot be looked at and is believed.
    """
    path = lock_path(folder, role)
    found = _read(path)
    if found is None or not found.here:
        return found
    return found if found.alive and _listed(path, found.pid) else None


def process_start(pid: int) -> float | None:
    """Seconds from the machine's start to the process's, which no change of the clock moves; None: no such process."""
    import psutil

    try:
        return round(psutil.Process(pid).create_time() - psutil.boot_time(), 2)
    except (psutil.Error, ValueError, OverflowError):
        return None


def _named(holder: Holder | None, role: str) -> str:
    if holder is None:
        return f"an unnamed {role} at work"
    if holder.here and not holder.alive:
        return f"the lock held, though {holder}, whose it was, is not a process of this machine now"
    return f"{holder} at work" + (" in this very process" if holder.here and holder.pid == os.getpid() else "")


def _read(path: Path) -> Holder | None:
    """The record in a lock file, None when there is none or it is no whole record."""
    try:
        with REAL.open(path) as file:
            record = json.loads(file.read(4096))
        if not isinstance(record, dict) or {key: type(value) for key, value in record.items()} != _TYPES:
            return None
        return Holder(**record)
    except (OSError, ValueError, RecursionError):
        return None


_TYPES = {"pid": int, "started": float, "role": str, "host": str, "since": str}


def _is_locked(path: Path) -> bool:
    fcntl = _fcntl(path.parent)
    try:
        with REAL.open(path) as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def _listed(path: Path, pid: int) -> bool:
    """Whether /proc/locks has a lock of this process on this file; True where the system has no such list.

    A file is told by its inode alone: some file systems list another device number than the one they tell.
    """
    try:
        with REAL.open(LOCKS) as file:
            lines = file.readall().decode().splitlines()
    except OSError:
        return True
    try:
        inode = str(os.lstat(path).st_ino)
    except OSError:
        return False
    held = (line.split() for line in lines)
    return any(words[4] == str(pid) and words[5].split(":")[-1] == inode for words in held if len(words) > 5)


def _same_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _fcntl(folder: Path):
    try:
        import fcntl
    except ImportError:
        raise LockError(f"{folder}: found a system without flock, expected one where a run can be locked") from None
    return fcntl


def _in_child() -> None:
    """A forked child has the parent's descriptors, and a lock lives as long as any of them: close, never unlock."""
    for lock in list(_held):
        fd, lock._fd = lock._fd, -1
        os.close(fd)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
