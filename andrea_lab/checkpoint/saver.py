"""Saves that do not hold up training: the arrays are copied, a thread writes the copy, rotation follows.

One save at a time. The next call waits for the one before and raises what went wrong with it, so a failure is heard of
at the latest one save later. The copy goes into memory that was allocated and touched at construction: no page of it is
missing when a save needs it.
"""

import copy
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from andrea_lab.checkpoint.files import REAL, Files
from andrea_lab.checkpoint.numbers import first_bad
from andrea_lab.checkpoint.rotation import Memo, rotate
from andrea_lab.checkpoint.save import Saved, SaveError, save
from andrea_lab.checkpoint.single import CheckpointError, check_arrays, file_name

SLICE = 0.05  # seconds between two looks at `between` while waiting for the thread


def _nothing() -> None:
    pass


class Saver:
    """Writes the checkpoints of one run directory and keeps their number.

    folder: the run directory, which exists. n: parameters. tensors, config: as `save` takes them. keep: good
    checkpoints to leave, 0 for all. rotate: "after", old ones go once the new one is on disk; "before", they go first,
    but one good one always stays. hurry: asked before rotation hashes an old file; True puts that off to a later save.
    Memory: 12 n bytes, held from construction to close.
    """

    def __init__(
        self,
        folder: Path,
        n: int,
        *,
        tensors: list[tuple[str, int, int]] | None = None,
        config: str | None = None,
        keep: int = 0,
        rotate: str = "after",
        files: Files = REAL,
        hurry: Callable[[], bool] = lambda: False,
    ):
        if rotate not in ("after", "before"):
            raise CheckpointError(f"rotate: found {rotate!r}, expected 'after' or 'before'")
        self.folder, self.n, self.keep, self.files = Path(folder), n, keep, files
        self.memo = Memo(n)
        self.seconds: list[float] = []  # of every save that ended well, until it was on disk
        self.last: Saved | None = None
        self._before, self._facts, self._hurry = rotate == "before", {"tensors": tensors, "config": config}, hurry
        self._copy = np.empty((3, n), np.float32)
        self._copy.fill(0)  # the kernel hands out pages when they are touched, not when they are asked for
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._closed = False

    @property
    def pending(self) -> bool:
        """Whether a save is under way in the background."""
        return self._thread is not None and self._thread.is_alive()

    def save(
        self,
        step: int,
        w: np.ndarray,
        m: np.ndarray,
        v: np.ndarray,
        *,
        segment: int = 1,
        entry: dict[str, Any] | None = None,
        wait: bool = True,
        between: Callable[[], None] = _nothing,
    ) -> Saved | None:
        """Save the arrays as they are now: w, m, v (n,) float32. Waits for the save before and raises its error first.

        wait: True returns what was saved, once it is on disk and rotation is done; `between` is called before each
        piece of 8 MiB and may raise to give up. False returns None as soon as the arrays are copied: they, and `entry`,
        may then change; the outcome is told by `wait`. Raises CheckpointError, SaveError, and what `between` raises.
        """
        path = self.folder / file_name(step)
        if self._closed:
            raise CheckpointError(f"{path}: found a closed saver, expected an open one")
        self.wait(between)
        if w.size != self.n:
            raise CheckpointError(f"{path}: found {w.size} parameters, expected {self.n}")
        check_arrays(path, step, w, m, v)
        if wait:
            self._work(step, (w, m, v), segment, entry, between)
            return self.last
        for into, array in zip(self._copy, (w, m, v), strict=True):
            np.copyto(into, array)
        arguments = (step, tuple(self._copy), segment, copy.deepcopy(entry))
        thread = threading.Thread(target=self._background, args=arguments, name=f"save {step}")
        thread.start()
        self._thread = thread
        return None

    def wait(self, between: Callable[[], None] = _nothing) -> Saved | None:
        """Wait for the save under way, raise its error, once; else return the newest save of this saver, or None.

        `between` is called every 50 ms meanwhile and may raise; the save goes on then.
        """
        while self._thread is not None:
            self._thread.join(SLICE)
            if self._thread.is_alive():
                between()
            else:
                self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self.last

    def close(self) -> None:
        """Wait, give the memory back, raise the error of the last save if nobody has heard it. Once is enough."""
        self._closed = True
        try:
            self.wait()
        finally:
            if self._thread is None:
                self._copy = np.empty((3, 0), np.float32)

    def _background(self, *work) -> None:
        try:
            self._work(*work, _nothing)
        except BaseException as error:  # a thread has nobody above it: the next call raises it
            self._error = error

    def _work(self, step: int, arrays: tuple, segment: int, entry: dict | None, between: Callable[[], None]) -> None:
        start = time.monotonic()
        if self._before and self._needs_room(step, arrays):
            self._rotate(step, coming=1)
        self.last = save(
            self.folder,
            step,
            *arrays,
            segment=segment,
            entry=entry,
            files=self.files,
            between=between,
            **self._facts,
        )
        self.seconds.append(time.monotonic() - start)
        self.memo.remember(self.last.file)
        self._rotate(step)

    def _needs_room(self, step: int, arrays: tuple) -> bool:
        """Whether the save will add a checkpoint: the step is not there, and no number will have it refused."""
        there = (self.folder / file_name(step)).exists()
        return not there and all(first_bad(name, a) is None for name, a in zip("wmv", arrays, strict=True))

    def _rotate(self, step: int, coming: int = 0) -> None:
        """Rotate; of files that were there before this process, no more than `keep` and two are hashed at a time."""
        more = iter(range(self.keep + 2))
        try:
            rotate(
                self.folder,
                self.keep,
                files=self.files,
                verified=self.memo,
                enough=lambda: next(more, None) is None or self._closed or self._hurry(),
                coming=coming,
            )
        except OSError as error:
            saved = self.last is not None and self.last.step == step
            what = f"{self.folder}: rotation at step {step}: found {error.strerror or error}"
            raise SaveError(f"{what}, expected old files to go", error.errno, committed=saved) from error
