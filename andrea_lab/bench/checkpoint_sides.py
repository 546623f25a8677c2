"""What `andrea bench checkpoint` times: our saves, and a bare copy, digest, write and read of the same bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from andrea_lab.bench import timing
from andrea_lab.checkpoint.files import REAL, write_all
from andrea_lab.checkpoint.saver import Saver
from andrea_lab.checkpoint.single import PIECE, file_name
from andrea_lab.model.config import Config
from andrea_lab.model.layout import layout
from andrea_lab.rng import rng

ENTRY = {"step": 112_700, "segment": 3, "policy": "9f2c41d8", "source": "wikipedia", "draw": 40_211, "tokens": 1024}
ENTRY |= {"loss": 3.1415927, "grad_norm": 0.7182818, "clip": 1.0, "lr": 0.00028731, "ms": 1234.5}


class State:
    """The arrays of a model, a second set to copy or load into, and a folder to save in."""

    def __init__(self, config: Config, folder: Path):
        cuts = layout(config.model)
        self.folder, self.n = folder, cuts.n_params
        draw = rng(1, "bench checkpoint", "w").normal(self.n).astype(np.float32)
        self.arrays = (draw, draw * np.float32(1e-2), np.square(draw))
        self.others = tuple(np.ones(self.n, np.float32) for _ in range(3))
        tensors = [(t.name, t.offset, t.size) for t in cuts]
        self.saver = Saver(folder, self.n, tensors=tensors, config=hashlib.sha256(b"bench").hexdigest())
        self.step = 0

    def save(self, wait: bool) -> float:
        """Seconds that the caller of a save is held up."""
        self.step += 1
        entry = ENTRY | {"step": self.step}
        return timing.seconds(lambda: self.saver.save(self.step, *self.arrays, segment=3, entry=entry, wait=wait))

    def copy(self) -> None:
        for into, array in zip(self.others, self.arrays, strict=True):
            np.copyto(into, array)

    def digest(self) -> None:
        whole = hashlib.sha256()
        for array in self.arrays:
            for at in range(0, array.nbytes, PIECE):
                whole.update(memoryview(array).cast("B")[at : at + PIECE])

    def write(self) -> None:
        """The bytes alone into a new file, and onto the disk."""
        fd = REAL.create(self.folder / "bare")
        for array in self.arrays:
            view = memoryview(array).cast("B")
            for at in range(0, view.nbytes, PIECE):
                write_all(REAL, fd, view[at : at + PIECE])
        REAL.sync(fd)
        REAL.close(fd)

    def read(self) -> None:
        """The newest file's bytes alone, into arrays that are there."""
        with open(self.newest, "rb", buffering=0) as file:
            file.seek(8)
            for array in self.others:
                view = memoryview(array).cast("B")
                while view.nbytes:
                    view = view[file.readinto(view[:PIECE]) :]

    @property
    def newest(self) -> Path:
        return self.folder / file_name(self.step)

    def clear(self) -> None:
        """Empty the folder: what a file's removal costs stands on no side."""
        for file in list(self.folder.iterdir()):
            REAL.remove(file)
