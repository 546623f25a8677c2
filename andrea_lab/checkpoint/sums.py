"""The sidecar of a weight file, `step_NNNNNN.bin.sum`: what its bytes must be, tensor by tensor, and the step's entry.

The weight file has no room for a digest, so it stands beside it, in JSON, and is renamed first. The whole has a sha256;
the header and each tensor of w, m and v has an xxh3_64, so that a damaged byte can be given a name. `before` is the sum
of the file that is about to be replaced: while it is there, the weight file may be either of the two.
"""

import errno
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import xxhash

from andrea_lab import strict_json
from andrea_lab.checkpoint.files import REAL, Files, read_all, replace_with
from andrea_lab.checkpoint.single import HEADER, INT32_MAX, nbytes

SCHEMA = 1
ALGORITHM = "xxh3_64"
MOST_BYTES = 4 * 2**20
Part = tuple[str, int, int]  # name, offset and size in bytes


class SumError(ValueError):
    """A sidecar that cannot be believed; the message is one line."""


@dataclass(frozen=True)
class Sum:
    """What a weight file's bytes must be. Raises SumError when the fields contradict one another.

    parts: (name, offset, bytes, 16 hex digits) without gap or overlap from 0 to nbytes. entry: the step's line of the
    loss log, or None. config: sha256 of the run's config.json, or None.
    """

    file: str
    nbytes: int
    step: int
    n_params: int
    sha256: str
    parts: tuple[tuple[str, int, int, str], ...]
    segment: int = 1
    entry: dict[str, Any] | None = None
    config: str | None = None
    before: "Sum | None" = None
    algorithm: str = ALGORITHM
    schema: int = SCHEMA

    def __post_init__(self):
        _whole("schema", self.schema, SCHEMA, SCHEMA)
        _is("algorithm", self.algorithm, self.algorithm == ALGORITHM, ALGORITHM)
        _is("file", self.file, isinstance(self.file, str) and self.file and "/" not in self.file, "a file's name")
        _whole("n_params", self.n_params, 1, INT32_MAX)
        _whole("nbytes", self.nbytes, nbytes(self.n_params), nbytes(self.n_params))
        _whole("step", self.step, 0, INT32_MAX)
        _whole("segment", self.segment, 1, None)
        _is("sha256", self.sha256, _hex(self.sha256, 64), "64 hex digits")
        _is("config", self.config, self.config is None or _hex(self.config, 64), "64 hex digits or null")
        _is("entry", self.entry, self.entry is None or isinstance(self.entry, dict), "an object or null")
        _check_parts(self.parts, self.nbytes)
        last = self.before is None or (isinstance(self.before, Sum) and self.before.before is None)
        _is("before", self.before, last, "a sum without a `before` of its own, or null")

    def fitting(self, sha256: str) -> "Sum | None":
        """This sum or the one before it, whichever has this digest; None for neither."""
        return next((s for s in (self, self.before) if s is not None and s.sha256 == sha256), None)

    def fitting_size(self, size: int) -> "Sum | None":
        """This sum or the one before it, whichever is of a file this large; None for neither."""
        return next((s for s in (self, self.before) if s is not None and s.nbytes == size), None)

    def alone(self) -> "Sum":
        """This sum without `before`."""
        return replace(self, before=None)

    def differing(self, hexes: Sequence[str]) -> list[str]:
        """The names of the parts whose sums are not these."""
        return [part[0] for part, found in zip(self.parts, hexes, strict=True) if part[3] != found]

    def cuts(self) -> list[Part]:
        """The parts without their sums."""
        return [part[:3] for part in self.parts]


def parts_of(n: int, tensors: Iterable[tuple[str, int, int]] | None = None) -> list[Part]:
    """How a file of n parameters is cut: the header, then each tensor of w, of m and of v.

    tensors: (name, offset, size) in elements, in order and without gaps; None makes one part of each region.
    Raises SumError when they do not cover the vector.
    """
    parts, at = [("header", 0, HEADER.size)], HEADER.size
    if tensors is None:
        return parts + [(region, at + 4 * n * i, 4 * n) for i, region in enumerate("wmv")]
    cuts, end = [tuple(cut) for cut in tensors], 0
    for name, offset, size in cuts:
        if offset != end or size <= 0:
            raise SumError(f"tensor {name}: found offset {offset} and size {size}, expected offset {end} and a size")
        end += size
    if end != n:
        raise SumError(f"tensors: found {end} elements in all, expected {n}")
    for i, region in enumerate("wmv"):
        parts += [(f"{region} {name}", at + 4 * (n * i + offset), 4 * size) for name, offset, size in cuts]
    return parts


class PartSums:
    """The xxh3_64 of each part of a file whose bytes come by in order, in pieces of any size."""

    def __init__(self, parts: Sequence[Part]):
        self._sizes = [size for _, _, size in parts]
        self._states = [xxhash.xxh3_64() for _ in parts]
        self._part, self._left = 0, self._sizes[0]

    def update(self, data: memoryview) -> None:
        """Take in the next bytes; raises SumError when there are more than the parts have."""
        while data.nbytes:
            while not self._left:
                self._part += 1
                if self._part == len(self._sizes):
                    raise SumError(f"found {data.nbytes} bytes behind the last part, expected none")
                self._left = self._sizes[self._part]
            piece = data[: self._left]
            self._states[self._part].update(piece)
            self._left -= piece.nbytes
            data = data[piece.nbytes :]

    def hexes(self) -> list[str]:
        """16 hex digits for each part."""
        return [state.hexdigest() for state in self._states]


def sum_path(path: Path) -> Path:
    """Where the sum of a weight file stands."""
    return path.with_name(f"{path.name}.sum")


def to_json(value: Sum) -> bytes:
    """The text of a sidecar; it ends with `check`, an xxh3_64 of all the rest. SumError: JSON has no such value."""
    plain = _plain(value)
    plain["check"] = _check(plain)
    return ("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in plain.items()) + "\n}\n").encode()


def from_json(text: bytes) -> Sum:
    """The sum in a sidecar's text. Raises SumError unless every field is there, right, and as it was written."""
    if len(text) > MOST_BYTES:
        raise SumError(f"found {len(text)} bytes, expected at most {MOST_BYTES}")
    try:
        plain = strict_json.parse(text)
    except ValueError as error:
        raise SumError(f"found no JSON ({str(error).splitlines()[0][:100]}), expected a sum") from None
    _is("sum", plain, isinstance(plain, dict), "an object")
    check = plain.pop("check", None)
    value = _from_plain(plain)
    if check != (expected := _check(plain)):
        raise SumError(f"check: found {check!r:.40}, expected {expected}: the sum was changed after it was written")
    return value


def read_sum(path: Path, files: Files = REAL) -> Sum | None:
    """The sum beside the weight file `path`, None when there is no sidecar. Raises SumError when it is damaged."""
    return read_sum_file(sum_path(path), files)


def read_sum_file(path: Path, files: Files = REAL) -> Sum | None:
    """The sum in a sidecar of any name, None when it is not there. Raises SumError naming the file."""
    try:
        with files.open(path) as file:
            data = bytearray(min(os.fstat(file.fileno()).st_size, MOST_BYTES) + 1)
            text = bytes(data[: read_all(files, file, memoryview(data))])
        return from_json(text)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SumError(f"{path}: found {error.strerror or error}, expected a sum") from error
    except SumError as error:
        raise SumError(f"{path}: {error}") from None


def write_sum(path: Path, value: Sum, files: Files = REAL) -> None:
    """Put a sum beside the weight file `path`, replacing what is there. Raises OSError when the disk fails."""
    write_sum_file(sum_path(path), value, files)


def write_sum_file(path: Path, value: Sum, files: Files = REAL) -> None:
    """Write a sidecar of any name, and read it back before it takes the name. Raises OSError when the disk fails."""
    text = to_json(value)

    def check(temp: Path) -> None:
        with files.open(temp) as file:
            found = bytearray(len(text))
            if read_all(files, file, memoryview(found)) != len(text) or found != text:
                raise OSError(errno.EIO, f"{path.name}: the file gave back other bytes than were written")

    replace_with(path, lambda write: write(memoryview(text)), files=files, size=len(text), check=check)


def _plain(value: Sum) -> dict[str, Any]:
    order = ["schema", *(f.name for f in fields(Sum) if f.name != "schema")]
    plain = {name: getattr(value, name) for name in order}
    plain["parts"] = [list(part) for part in value.parts]
    plain["before"] = None if value.before is None else _plain(value.before)
    return plain


def _from_plain(plain: dict[str, Any]) -> Sum:
    names = {f.name for f in fields(Sum)}
    if plain.keys() != names:
        odd = sorted(plain.keys() ^ names)
        raise SumError(f"{odd[0]!r:.40}: found {'one' if odd[0] in plain else 'none'}, expected the fields of a sum")
    parts, before = plain["parts"], plain["before"]
    _is("parts", parts, isinstance(parts, list) and all(isinstance(part, list) for part in parts), "a list of lists")
    if isinstance(before, dict):
        before = _from_plain(before)
    return Sum(**{**plain, "parts": tuple(tuple(part) for part in parts), "before": before})


def _check(plain: dict[str, Any]) -> str:
    try:
        return xxhash.xxh3_64_hexdigest(json.dumps(plain, sort_keys=True, allow_nan=False).encode())
    except (ValueError, TypeError, RecursionError) as error:
        raise SumError(f"entry: found what JSON does not have ({str(error)[:80]}), expected plain values") from None


def _check_parts(parts: Any, total: int) -> None:
    end, seen = 0, set()
    for part in parts:
        right = isinstance(part, tuple) and len(part) == 4 and isinstance(part[0], str) and _hex(part[3], 16)
        _is("parts", part, right, "name, offset, bytes and 16 hex digits")
        _whole(f"part {part[0]:.40}: offset", part[1], end, end)
        _whole(f"part {part[0]:.40}: bytes", part[2], 1, total - end)
        _is("parts", part[0], part[0] not in seen, "each name once")
        seen.add(part[0])
        end += part[2]
    _whole("parts: bytes in all", end, total, total)


def _hex(value: Any, digits: int) -> bool:
    return isinstance(value, str) and len(value) == digits and not set(value) - set("0123456789abcdef")


def _whole(name: str, value: Any, least: int, most: int | None) -> None:
    right = type(value) is int and value >= least and (most is None or value <= most)
    wanted = str(least) if least == most else f"{least} or more" if most is None else f"{least} to {most}"
    _is(name, value, right, wanted)


def _is(name: str, value: Any, right: Any, wanted: str) -> None:
    if not right:
        raise SumError(f"{name}: found {value!r:.60}, expected {wanted}")
