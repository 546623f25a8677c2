"""Files of one JSON object a line that only ever grow: how they are appended to, and how they are read from the end.

A crash tears at most the last line, or leaves it as zeros. Such a line is never removed: the next writer ends it with a
newline and goes on, every reader passes it over.
"""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from andrea_lab.checkpoint.files import REAL, Files, write_all

BLOCK = 64 * 1024  # bytes read at once, going backwards
BLANK = b"\r\0 \t"


class Lines:
    """The writer of one file. `append` returns when the line is on the disk, and costs the same however long the file.

    Opening reads the last byte alone. Raises OSError, which names the file. After a failed append the line may be
    missing, torn or whole; the next one opens the file anew, so that appending the same line again is right and a sync
    that failed is never asked of one descriptor twice.
    """

    def __init__(self, path: Path, files: Files = REAL):
        self.path, self.files = path, files
        self._fd = -1
        self._open()

    def append(self, line: str) -> None:
        """Write one line, given without its newline."""
        if self._fd < 0:
            self._open()
        with self._closed_on_error():
            if os.fstat(self._fd).st_nlink == 0:
                raise OSError(errno.ENOENT, "removed while it was in use")
            self._put(f"{line}\n".encode())

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self.files.close(fd)

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        self._fd = self.files.append(self.path)
        with self._closed_on_error():
            size = self.files.size(self._fd)
            if size == 0:
                self.files.sync_folder(self.path.parent)
            elif _byte(self.path, size - 1) != b"\n":
                self._put(b"\n")

    def _put(self, data: bytes) -> None:
        write_all(self.files, self._fd, memoryview(data))
        self.files.datasync(self._fd)

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            with suppress(OSError):  # the first error is the one to tell
                self.close()
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror or str(error), str(self.path)) from None
            raise


def append_line(path: Path, line: str, files: Files = REAL) -> None:
    """Append one line to a file that is written rarely. Raises OSError."""
    with Lines(path, files) as lines:
        lines.append(line)


def parse(line: bytes) -> dict[str, Any]:
    """The object of one line. Raises ValueError, whatever the line holds."""
    try:
        found = json.loads(line.strip(BLANK).decode())
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("a line is a JSON object")
    return found


def forwards(path: Path) -> list[bytes]:
    """All lines in file order, the blank ones as b"". Raises OSError."""
    with REAL.open(path) as file:
        return [line.strip(BLANK) for line in file.readall().split(b"\n")]


def backwards(path: Path) -> Iterator[bytes]:
    """The lines that are not blank, last first, read block by block: who stops early has read only the end.

    Raises OSError.
    """
    with REAL.open(path) as file:
        at, end = file.seek(0, os.SEEK_END), []
        while at:
            start = max(0, at - BLOCK)
            file.seek(start)
            block = file.read(at - start)
            at = start
            first, *rest = block.split(b"\n")
            if rest:
                rest[-1] = b"".join([rest[-1], *reversed(end)])
                end = []
                yield from (line for piece in reversed(rest) if (line := piece.strip(BLANK)))
            end.append(first)
        if line := b"".join(reversed(end)).strip(BLANK):
            yield line


def good(lines: Iterator[bytes] | list[bytes], read: Callable[[bytes], Any] = parse) -> Iterator[Any]:
    """What `read` makes of each line; lines that it refuses with ValueError are passed over."""
    for line in lines:
        try:
            if line:
                yield read(line)
        except ValueError:
            continue


def _byte(path: Path, at: int) -> bytes:
    with REAL.open(path) as file:
        file.seek(at)
        return file.read(1)
