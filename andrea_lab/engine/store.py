"""The engine's side of a run directory: its lock, the checkpoint it goes on from, and what it saves."""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np

from andrea_lab.checkpoint.files import REAL, Files, sweep
from andrea_lab.checkpoint.load import Loaded
from andrea_lab.checkpoint.lock import LockError, RunLock, holder
from andrea_lab.checkpoint.save import SaveError
from andrea_lab.checkpoint.saver import Saver
from andrea_lab.checkpoint.single import CheckpointError, file_name
from andrea_lab.checkpoint.verify import candidates
from andrea_lab.engine.errors import EngineError
from andrea_lab.engine.signals import Signals
from andrea_lab.model.config import Config
from andrea_lab.model.layout import Layout

ORPHAN = 30.0  # seconds to wait for an engine whose proxy is gone: it saves and ends
PAUSE = 0.05


class Store:
    """What an engine keeps on disk. folder: the run directory. poll: called while it waits and between pieces.
    signals: while a stop is asked for there, rotation does nothing that takes long.

    `claim` comes before anything is read or written. errors: one line for each save in the background that failed and,
    as train.save_errors says "go_on", did not stop the run.
    """

    def __init__(
        self,
        folder: Path,
        config: Config,
        layout: Layout,
        poll: Callable[[], Any],
        signals: Signals | None = None,
        files: Files = REAL,
    ):
        self.folder, self.config, self.layout, self.files = folder, config, layout, files
        self.errors: list[str] = []
        self._poll, self._signals = poll, signals
        self._lock = RunLock(folder, "engine", files)
        self._saver: Saver | None = None
        self._last: dict[str, Any] | None = None  # the newest save asked for: step, file, sha256

    def claim(self, patient: bool = False) -> None:
        """Take the lock, clear away what killed processes left, make ready to save. Once is enough.

        patient: wait for an engine that is alone, its proxy gone. Raises LockError naming who is at work here.
        """
        if self._saver is not None:
            return
        self._take_lock(monotonic() + (ORPHAN if patient else 0.0))
        sweep(self.folder, self.files)
        train, signals = self.config.train, self._signals
        self._saver = Saver(
            self.folder,
            self.layout.n_params,
            tensors=[(tensor.name, tensor.offset, tensor.size) for tensor in self.layout],
            config=hashlib.sha256(self.config.to_json().encode()).hexdigest(),
            keep=train.keep,
            rotate=train.rotate,
            files=self.files,
            hurry=lambda: signals is not None and signals.stop_since is not None,
        )

    def _take_lock(self, until: float) -> None:
        while True:
            try:
                self._lock.acquire()
                return
            except LockError:
                if monotonic() >= until or not self._is_orphan():
                    raise
            self._poll()
            sleep(PAUSE)

    def _is_orphan(self) -> bool:
        """Whether the engine at work here has no proxy: nobody holds that lock, or we and our own parent do."""
        engine, proxy = holder(self.folder, "engine"), holder(self.folder, "proxy")
        ours = (os.getpid(), os.getppid())
        return engine is None or (engine.pid not in ours and (proxy is None or proxy.pid in ours))

    def newest(self, load: Callable[[Path], Loaded]) -> dict[str, Any]:
        """Load the newest checkpoint that passes every test, walking back over those that do not.

        Returns what `told` does. Raises EngineError when none passes: a run never begins anew by itself.
        """
        rejected: list[dict[str, Any]] = []
        for path in candidates(self.folder):
            self._poll()
            try:
                found = load(path)
            except CheckpointError as error:
                rejected.append({"file": path.name, "verdict": error.verdict, "reason": str(error)})
                continue
            return told(path, found, rejected)
        reasons = "; ".join(each["reason"] for each in rejected) or "no step_NNNNNN.bin"
        raise EngineError(f"{self.folder}: found no checkpoint that loads ({reasons}), expected one")

    def save(
        self, step: int, arrays: Callable[[], Sequence[np.ndarray]], entry: dict[str, Any] | None, wait: bool
    ) -> dict[str, Any]:
        """Save a step once; asked again, say how that went. Returns {step, file, sha256}, sha256 None while pending.

        wait: False copies the arrays and returns. Raises CheckpointError, SaveError, Aborted.
        """
        self.claim()
        self.settle(wait=wait or self._last is None or self._last["step"] != step)
        if self._last is None or self._last["step"] != step:
            segment = (entry or {}).get("segment", 1)
            options = {"segment": segment, "entry": entry or None, "wait": wait, "between": self._poll}
            saved = self._saver.save(step, *arrays(), **options)
            self._last = {"step": step, "file": file_name(step), "sha256": saved and saved.sha256}
        return self._last

    def settle(self, wait: bool = True) -> None:
        """Hear how the save in the background went; wait for it if asked to.

        Raises SaveError for one that failed when train.save_errors says "stop"; else notes it in `errors`.
        """
        saver = self._saver
        if saver is None or (not wait and saver.pending):
            return
        try:
            saved = saver.wait(self._poll)
        except SaveError as error:
            self._last = None
            if self.config.train.save_errors == "stop":
                raise
            self.errors.append(str(error))
            return
        except CheckpointError:
            self._last = None
            raise
        if self._last is not None and saved is not None and saved.step == self._last["step"]:
            self._last["sha256"] = saved.sha256

    @property
    def seconds(self) -> Sequence[float]:
        """How long each save took."""
        return [] if self._saver is None else self._saver.seconds

    @property
    def pending(self) -> bool:
        """Whether a save is under way in the background."""
        return self._saver is not None and self._saver.pending

    def forget(self) -> None:
        """The arrays hold other values now: nothing of them is saved."""
        self._last = None

    def close(self) -> None:
        """Wait for the save in the background and give the lock back. Raises SaveError as `settle` does.

        Interrupted while it waits, it keeps the lock: the save goes on, and nobody may write beside it.
        """
        try:
            if self._saver is not None:
                self._saver.close()
        except SaveError as error:
            if self.config.train.save_errors == "stop":
                raise
            self.errors.append(str(error))
        finally:
            if not self.pending:
                self._saver = None
                self._lock.release()


def told(path: Path, found: Loaded, rejected: list[dict[str, Any]]) -> dict[str, Any]:
    """What was loaded: {file, step, sha256, verified, reason, entry, config, rejected: [{file, verdict, reason}]}.

    entry: the step's line of the log, config: sha256 of the run's config.json then; as the sum has them, or None.
    reason: why a file is not verified, else "".
    """
    facts = {"file": path.name, "step": found.step, "sha256": found.sha256, "verified": found.verified}
    saved = {"entry": found.sum and found.sum.entry, "config": found.sum and found.sum.config}
    return facts | {"reason": found.reason} | saved | {"rejected": rejected}
