"""The weight file: [int32 step][int32 n][float32 w[n]][float32 m[n]][float32 v[n]], little-endian, 8 + 12 n bytes.

There is no magic number, no version and no digest inside: these bytes are the published format. What can be known from
the outside, the exact size, is tested before anything is allocated.
"""

import errno
import io
import os
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from andrea_lab.checkpoint.files import REAL, Files, read_all

HEADER = struct.Struct("<ii")
PIECE = 8 * 2**20  # bytes written between two looks at `between`
READ = 2**20  # bytes read at a time
INT32_MAX = 2**31 - 1
UNREADABLE = "unreadable"
NO_FILE = (errno.EINVAL, errno.ELOOP, errno.ENOTDIR)  # a folder, a pipe, a link, ...: whatever it is, no weight file
NAME = re.compile(r"step_([0-9]{6,})\.bin")


class CheckpointError(ValueError):
    """A weight file that cannot be written or read; the message is one line for the user.

    verdict: "torn", "flipped", "wrong step", "non-finite", "unreadable" (the disk did not give the bytes, which says
    nothing about them) or "unverified"; "" when it is not about a file.
    """

    def __init__(self, message: str, verdict: str = ""):
        super().__init__(message)
        self.verdict = verdict


def nbytes(n: int) -> int:
    """Size in bytes of the file of n parameters: 8 + 12 n (a Python integer, so it never wraps)."""
    return HEADER.size + 12 * int(n)


def file_name(step: int) -> str:
    """step_NNNNNN.bin; more digits when a step needs them."""
    return f"step_{step:06d}.bin"


def step_of(name: str) -> int | None:
    """The step in a file's name, None for a name that is no weight file's."""
    match = NAME.fullmatch(name)
    return int(match[1]) if match else None


def read_header(path: Path, files: Files = REAL) -> tuple[int, int]:
    """(step, n) of a file whose size and name fit its header exactly. Raises CheckpointError; allocates nothing."""
    with opened(path, files) as file:
        return header(path, file, files)


def read_into(path: Path, w: np.ndarray, m: np.ndarray, v: np.ndarray, files: Files = REAL) -> int:
    """Fill three (n,) float32 arrays from the file and return its step; nothing is compared with a sum.

    Raises CheckpointError; unless the disk failed on the way the arrays are then untouched.
    """
    with opened(path, files) as file:
        step, n = header(path, file, files)
        check_fit(path, step, (w, m, v), n)
        for _ in pieces_into(path, file, (w, m, v), files):
            pass
        expect_end(path, file, files)
    return step


def read(path: Path, files: Files = REAL) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """(step, w, m, v) of a file. Raises CheckpointError before any allocation when the size does not fit."""
    _, n = read_header(path, files)
    w, m, v = (np.empty(n, np.float32) for _ in range(3))
    return read_into(path, w, m, v, files), w, m, v


@contextmanager
def opened(path: Path, files: Files = REAL) -> Iterator[io.FileIO]:
    """The file, open for reading. Raises CheckpointError for what is no regular file, and for what the disk refuses."""
    try:
        with files.open(path) as file:
            yield file
    except FileNotFoundError:
        raise CheckpointError(f"{path}: found no file, expected a weight file", "torn") from None
    except OSError as error:
        verdict = "torn" if error.errno in NO_FILE else UNREADABLE
        raise CheckpointError(f"{path}: found {error.strerror or error}, expected a weight file", verdict) from error


def header(path: Path, file: io.FileIO, files: Files = REAL) -> tuple[int, int]:
    """(step, n) of an open file, judged against its size and its name. Raises CheckpointError."""
    size = os.fstat(file.fileno()).st_size
    if size < HEADER.size:
        raise CheckpointError(f"{path}: found {size} bytes, expected at least the {HEADER.size} of the header", "torn")
    data = bytearray(HEADER.size)
    if (got := read_all(files, file, memoryview(data))) < HEADER.size:
        raise CheckpointError(f"{path}: found {got} bytes, expected at least the {HEADER.size} of the header", "torn")
    step, n = HEADER.unpack(data)
    if n <= 0:
        raise CheckpointError(f"{path}: n_params: found {n}, expected a positive number", "torn")
    if size != nbytes(n):
        raise CheckpointError(f"{path}: found {size} bytes, expected {nbytes(n)} = 8 + 12 * {n}", "torn")
    if step < 0:
        raise CheckpointError(f"{path}: step: found {step}, expected 0 or more", "wrong step")
    named = step_of(path.name)
    if named is not None and step != named:
        raise CheckpointError(
            f"{path}: step: found {step} in the header, expected {named} as in the name", "wrong step"
        )
    return step, n


def pieces_into(path: Path, file: io.FileIO, arrays: Sequence[np.ndarray], files: Files = REAL) -> Iterator[memoryview]:
    """Fill the arrays in order from an open file; yields each piece of them once it is there.

    Raises CheckpointError when the file ends too early.
    """
    for array in arrays:
        view = memoryview(array).cast("B")
        for at in range(0, view.nbytes, READ):
            piece = view[at : at + READ]
            if (got := read_all(files, file, piece)) < piece.nbytes:
                raise CheckpointError(f"{path}: found the end {piece.nbytes - got} bytes too early", "torn")
            yield piece


def expect_end(path: Path, file: io.FileIO, files: Files = REAL) -> None:
    """Raise CheckpointError when the file goes on."""
    if files.read(file, memoryview(bytearray(1))):
        raise CheckpointError(f"{path}: found bytes behind the last array, expected the end of the file", "torn")


def check_fit(path: Path, step: int, arrays: Sequence[np.ndarray], n: int) -> None:
    """Raise CheckpointError unless the arrays are such as a file of this step and n fills."""
    if not all(array.size == n for array in arrays):
        raise CheckpointError(f"{path}: found {n} parameters, expected {arrays[0].size}", "torn")
    check_arrays(path, step, *arrays)


def check_arrays(path: Path, step: int, w: np.ndarray, m: np.ndarray, v: np.ndarray) -> int:
    """n, when the arrays and the step fit the format. Raises CheckpointError."""
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
