"""Reading a file back while it is still being written, so that what is committed is what the disk gave back."""

import errno
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Condition, Thread
from typing import Any

from andrea_lab.checkpoint.files import Files, read_all
from andrea_lab.checkpoint.single import READ
from andrea_lab.checkpoint.sums import Part, PartSums


class Beside:
    """A call on a thread of its own. No pool: one starts no thread any more once the process has begun to end."""

    def __init__(self, do: Callable[..., Any], *args: Any):
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, args=(do, args), name=do.__name__, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Return once the call has ended, however."""
        self._thread.join()

    def result(self) -> Any:
        """What the call returned, once it has; raises what it raised."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._found

    def _run(self, do: Callable[..., Any], args: tuple) -> None:
        try:
            self._found = do(*args)
        except BaseException as error:  # it belongs to the thread that asks for the result
            self._error = error


class ReadBack:
    """Reads a file back behind its writer, on a thread of its own: its sha256 and the sums of its parts."""

    def __init__(self, path: Path, cuts: Sequence[Part], files: Files):
        self._files, self._file = files, files.open(path)
        self._total = sum(cuts[-1][1:])
        self._digest, self._parts = hashlib.sha256(), PartSums(cuts)
        self._changed, self._there, self._stopped = Condition(), 0, False
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="read back", daemon=True)
        self._thread.start()

    def written(self, count: int) -> None:
        """So many bytes more are in the file."""
        with self._changed:
            self._there += count
            self._changed.notify()

    def result(self) -> tuple[str, list[str]]:
        """(sha256, the sums of the parts), once all is read. Raises what went wrong on the thread."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._digest.hexdigest(), self._parts.hexes()

    def stop(self) -> None:
        """Read no further and close the file."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()
        self._file.close()

    def _run(self) -> None:
        buffer, done = memoryview(bytearray(READ)), 0
        try:
            while done < self._total:
                with self._changed:
                    while not self._stopped and self._there == done:
                        self._changed.wait()
                    if self._stopped:
                        return
                    piece = buffer[: min(READ, self._there - done)]
                if read_all(self._files, self._file, piece) < piece.nbytes:
                    raise OSError(errno.EIO, f"the file gave back fewer than the {done + piece.nbytes} bytes written")
                self._digest.update(piece)
                self._parts.update(piece)
                done += piece.nbytes
        except BaseException as error:  # it belongs to the thread that asks for the result
            self._error = error
