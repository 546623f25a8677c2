"""The weight file: [int32 step][int32 n][float32 w[n]][float32 m[n]][float32 v[n]], little-endian, 8 + 12 n bytes.

There is no magic number, no version and no digest inside: these bytes are the published format. What can be known from
the outside, the exact size, is tested before anything is allocated.
"""

import hashlib
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

from andrea_lab.checkpoint.files import REAL, Files, replace_with

HEADER = struct.Struct("<ii")
PIECE = 8 * 2**20  # bytes written between two looks at `between`
INT32_MAX = 2**31 - 1
NAME = re.compile(r"step_(\d{6,})\.bin")


class CheckpointError(ValueError):
    """A weight file that cannot be written or read; the message is one line for the user."""


def nbytes(n: int) -> int:
    """Size in bytes of the file of n parameters: 8 + 12 n (a Python integer, so it never wraps)."""
    return HEADER.size + 12 * int(n)


def file_name(step: int) -> str:
    """step_NNNNNN.bin; more digits when a step needs them."""
    return f"step_{step:06d}.bin"


def newest(folder: Path) -> Path | None:
    """The weight file of the highest step in a folder, or None. Order is by number, never by text or date."""
    found = [(int(match[1]), file) for file in folder.iterdir() if (match := NAME.fullmatch(file.name))]
    return max(found)[1] if found else None


def write(
    path: Path,
    step: int,
    w: np.ndarray,
    m: np.ndarray,
    v: np.ndarray,
    *,
    files: Files = REAL,
    between: Callable[[], None] = lambda: None,
) -> str:
    """Write the file as a whole or not at all; returns the sha256 of its bytes.

    w, m, v: (n,) float32, contiguous. `between` is called before each piece of 8 MiB. Raises CheckpointError for
    arrays that do not fit the format or a name that is taken, OSError when the disk fails; then nothing is left behind.
    """
    n = _checked(path, step, w, m, v)
    if path.exists():
        raise CheckpointError(f"{path}: found a file of this name, expected none: a weight file is never rewritten")
    digest = hashlib.sha256()

    def fill(put: Callable[[memoryview], None]) -> None:
        for part in (HEADER.pack(step, n), w, m, v):
            view = memoryview(part).cast("B")
            for at in range(0, view.nbytes, PIECE):
                between()
                digest.update(view[at : at + PIECE])
                put(view[at : at + PIECE])

    replace_with(path, fill, files=files, size=nbytes(n))
    return digest.hexdigest()


def read_header(path: Path) -> tuple[int, int]:
    """(step, n) of a file whose size fits its header exactly. Raises CheckpointError; allocates nothing."""
    with _open(path) as file:
        return _header(path, file)


def read_into(path: Path, w: np.ndarray, m: np.ndarray, v: np.ndarray) -> int:
    """Fill three (n,) float32 arrays from the file and return its step. Raises CheckpointError, arrays untouched."""
    with _open(path) as file:
        step, n = _header(path, file)
        if not w.size == m.size == v.size == n:
            raise CheckpointError(f"{path}: found {n} parameters, expected {w.size}")
        _checked(path, step, w, m, v)
        for array in (w, m, v):
            view = memoryview(array).cast("B")
            while view.nbytes:
                got = file.readinto(view[:PIECE])
                if not got:
                    raise CheckpointError(f"{path}: found the end {view.nbytes} bytes too early, expected {nbytes(n)}")
                view = view[got:]
    return step


def read(path: Path) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """(step, w, m, v) of a file. Raises CheckpointError before any allocation when the size does not fit."""
    _, n = read_header(path)
    w, m, v = (np.empty(n, np.float32) for _ in range(3))
    return read_into(path, w, m, v), w, m, v


def _open(path: Path):
    try:
        if not path.is_file():
            found = "something that is not a file" if path.exists() else "no file"
            raise CheckpointError(f"{path}: found {found}, expected a weight file")
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise CheckpointError(f"{path}: found {error.strerror}, expected a readable weight file") from None


def _header(path: Path, file) -> tuple[int, int]:
    size = os.fstat(file.fileno()).st_size
    if size < HEADER.size:
        raise CheckpointError(f"{path}: found {size} bytes, expected at least the {HEADER.size} of the header")
    step, n = HEADER.unpack(file.read(HEADER.size))
    if n <= 0:
        raise CheckpointError(f"{path}: n_params: found {n}, expected a positive number")
    if step < 0:
        raise CheckpointError(f"{path}: step: found {step}, expected 0 or more")
    if size != nbytes(n):
        raise CheckpointError(f"{path}: found {size} bytes, expected {nbytes(n)} = 8 + 12 * {n}")
    return step, n


def _checked(path: Path, step: int, w: np.ndarray, m: np.ndarray, v: np.ndarray) -> int:
    n = int(w.size)
    if not 0 <= step <= INT32_MAX:
        raise CheckpointError(f"{path}: step: found {step}, expected 0 to {INT32_MAX}")
    if not 1 <= n <= INT32_MAX:
        raise CheckpointError(f"{path}: n_params: found {n}, expected 1 to {INT32_MAX}")
    for name, array in (("w", w), ("m", m), ("v", v)):
        if array.dtype != np.dtype("<f4") or array.shape != (n,) or not array.flags.c_contiguous:
            raise CheckpointError(
                f"{path}: {name}: found {array.dtype} {array.shape}, expected contiguous little-endian float32 ({n},)"
            )
    return n
