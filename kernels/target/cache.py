"""Compiled kernels on disk, one file each, so that a new process starts fast.

The name of an entry is a digest of everything the machine code depends on: the kernel's text, the device functions it
calls, the outside values it uses, block shape, argument types and layout, processor, versions of Python, Numba,
llvmlite and NumPy, and this package's own source. An entry that is damaged in any way is compiled again.
"""

import functools
import hashlib
import os
import platform
import struct
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import llvmlite
import numba
import numpy

from .processor import processor

MAGIC = b"andrea1\n"


@dataclass
class Counts:
    """How many variants this process compiled, and how many it loaded."""

    compiled: int = 0
    loaded: int = 0


counts = Counts()


def folder():
    """Where entries live: $ANDREA_CACHE, else the user's cache folder."""
    return folder_of(os.environ)


def folder_of(environment):
    """As `folder`, for some environment variables."""
    given = environment.get("ANDREA_CACHE")
    if given:
        return Path(given)
    base = environment.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "andrea-lab" / "kernels"


@functools.cache
def own_source():
    """A digest of this package's own files."""
    total = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def surroundings():
    """Versions and processor, as part of every key."""
    return (
        (sys.implementation.name, platform.python_version()),
        (numba.__version__, llvmlite.__version__, numpy.__version__),
        (platform.system(), platform.machine(), *processor()),
        own_source(),
    )


def digest(source, block, argtypes, readonly, distinct):
    """The name of an entry."""
    parts = (
        source.text,
        source.values(),
        tuple(block),
        tuple(map(str, argtypes)),
        tuple(readonly),
        distinct,
        surroundings(),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _path(name):
    return folder() / name[:2] / f"{name}.bin"


def read(name):
    """The two parts of an entry, or None if it is missing or damaged."""
    try:
        data = _path(name).read_bytes()
    except OSError:
        return None
    head = len(MAGIC) + 32 + 8
    if len(data) < head or not data.startswith(MAGIC):
        return None
    check, (first, second) = data[len(MAGIC) : len(MAGIC) + 32], struct.unpack("<II", data[head - 8 : head])
    body = data[head:]
    if len(body) != first + second or hashlib.sha256(data[head - 8 :]).digest() != check:
        return None
    return body[:first], body[first:]


def write(name, first, second):
    """Store an entry whole or not at all; another process may be doing the same."""
    path = _path(name)
    body = struct.pack("<II", len(first), len(second)) + first + second
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(MAGIC + hashlib.sha256(body).digest() + body)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        _warn(str(path.parent), error.strerror)


@functools.cache
def _warn(where, reason):
    warnings.warn(
        f"compiled kernels cannot be kept in {where} ({reason}); set ANDREA_CACHE", RuntimeWarning, stacklevel=2
    )
