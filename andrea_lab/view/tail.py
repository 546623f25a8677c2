"""The loss log as it grows: each new line becomes a record, read once, in blocks.

A line without its newline is a write in progress and left for the next time. A line that is no entry, torn by a crash
or longer than any entry, is counted and passed over. A log that became shorter, or whose bytes read before are others
now, is read again from its start.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from andrea_lab.checkpoint.files import REAL
from andrea_lab.run.lines import BLANK
from andrea_lab.run.losslog import decode
from andrea_lab.view.records import Records

BLOCK = 2**20  # bytes read at once, and more than any line has
MARK = 64  # bytes before the offset that must be the same the next time


class Tail:
    """Appends the lines of a log to `records`.

    unreadable: lines that were passed over. generation: rises when what was read before no longer counts. problem: why
    the log cannot be read, None while it can or is not there yet. changed: when it was last written to, in seconds of
    the system's clock; 0 without a log. behind: whether the last `read` left something, its limit being reached.
    """

    def __init__(self, records: Records):
        self.records = records
        self.unreadable, self.generation, self.problem, self.changed = 0, 1, None, 0.0
        self.behind = False
        self._offset, self._mark, self._within, self._seen = 0, b"", False, None

    def read(self, path: Path, limit: int) -> bool:
        """Take what is new, up to about `limit` bytes. Returns whether there was anything; never raises OSError."""
        self.behind = False
        try:
            found = os.stat(path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            self.problem, self.changed, self._seen = None, 0.0, None
            return self._begin_again()
        except (OSError, ValueError) as error:
            return self._fail(error)
        key = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
        if key == self._seen:
            return False
        try:
            with REAL.open(path) as file:
                anew = (self._offset > found.st_size or not self._same(file)) and self._begin_again()
                read = self._blocks(file, limit)
        except OSError as error:
            return self._fail(error)
        mended, self.problem, self.changed = self.problem is not None, None, found.st_mtime
        self.behind = read >= limit
        self._seen = None if self.behind else key  # as before it was read: what came meanwhile is new the next time
        return anew or mended or read > 0

    def _fail(self, error: OSError | ValueError) -> bool:
        before, self.problem, self._seen = self.problem, getattr(error, "strerror", None) or str(error), None
        return self.problem != before

    def _begin_again(self) -> bool:
        """Drop all that was read, if there was anything. Returns whether there was."""
        if not (self._offset or self.unreadable):
            return False
        self.records.clear()
        self.generation += 1
        self._offset, self._mark, self._within, self.unreadable = 0, b"", False, 0
        return True

    def _same(self, file: Any) -> bool:
        """Whether the bytes before the offset are those that were read."""
        file.seek(self._offset - len(self._mark))
        return file.read(len(self._mark)) == self._mark

    def _blocks(self, file: Any, limit: int) -> int:
        """Take whole lines from the offset on; returns how many bytes they had."""
        begin = self._offset
        while self._offset - begin < limit:
            file.seek(self._offset)
            block = file.read(BLOCK)
            end = block.rfind(b"\n") + 1
            if not end and len(block) == BLOCK:  # no line is as long as that: leave out all of it
                self.unreadable += not self._within
                self._within, end = True, BLOCK
            elif end:
                start = block.index(b"\n") + 1 if self._within else 0
                self._within = False
                self._lines(block[start:end])
            if not end:
                break
            self._mark = (self._mark + block[:end])[-MARK:]
            self._offset += end
        return self._offset - begin

    def _lines(self, block: bytes) -> None:
        """Take whole lines."""
        entries = None
        if _plain(block):
            with suppress(ValueError):
                entries = from_json(b"[" + block[:-1].replace(b"\n", b",\n") + b"]")
        if entries is None:
            entries = []
            for line in block.split(b"\n"):
                try:
                    if line := line.strip(BLANK):
                        entries.append(decode(line))
                except ValueError:
                    self.unreadable += 1
        self.unreadable += self.records.add(entries)


def _plain(block: bytes) -> bool:
    """Whether each line is one object with none inside and no mark of its own, so that all may be decoded at once."""
    count = block.count(b"\n")
    braces = block.count(b"{") == block.count(b"}") == count == block.count(b"}\n{") + 1
    return braces and block.startswith(b"{") and block.endswith(b"}\n") and b"nonfinite" not in block
