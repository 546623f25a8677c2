"""A frame: part of a run's records and all its facts as one piece of bytes, the way a picture elsewhere takes them.

All numbers are little-endian:

    u32 length of the header | header, JSON padded with spaces so that 4 + length is a multiple of 8 | columns

Each column holds `count` numbers and is padded with zeros to a multiple of 8 bytes, so that a reader may look at it in
place. The header: {"v", "run", "generation", "first", "count", "total", "columns", "sources", "strips", "facts"}. The
records are `first` ... `first + count - 1` of `total`, in file order of the log. A reader that has fewer than `first`
of this generation asks again; one of another generation drops what it has, for it no longer counts. `sources` names all
so far, the column "source" is an index into it. A value that is missing is NaN. Facts and strips come whole each time.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

VERSION = 1
INTEGERS = ("step", "segment", "source")
FLOATS = ("loss", "grad_norm", "clip", "lr", "tokens", "ms")
COLUMNS = tuple((name, "i4") for name in INTEGERS) + tuple((name, "f4") for name in FLOATS)
RECORD = 4 * len(COLUMNS)  # bytes of one record
KEYS = {"v": int, "run": str, "generation": int, "first": int, "count": int, "total": int}
KEYS |= {"columns": list, "sources": list, "strips": list, "facts": dict}
LENGTH = struct.Struct("<I")
ALIGN = 8


class Frame(NamedTuple):
    """A frame taken apart: its header, and an array of `count` numbers by the name of its column."""

    header: dict[str, Any]
    columns: dict[str, np.ndarray]


def pack(
    columns: Mapping[str, np.ndarray],
    *,
    run: str,
    facts: dict[str, Any],
    sources: list[str],
    generation: int = 1,
    first: int = 0,
    total: int | None = None,
    strips: list[dict[str, Any]] | None = None,
) -> bytes:
    """The bytes of one frame. columns: the arrays of COLUMNS, of one length; total: records of the run, by default
    those up to the last of this frame. Facts and strips are plain JSON values, every number finite, else ValueError.
    """
    count = len(columns["step"])
    last = first + count
    header = {"v": VERSION, "run": run, "generation": generation, "first": first, "count": count}
    header |= {"total": last if total is None else total, "columns": COLUMNS, "sources": sources}
    header |= {"strips": strips or [], "facts": facts}
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-(LENGTH.size + len(text)) % ALIGN)
    parts = [LENGTH.pack(len(text)), text]
    for name, kind in COLUMNS:
        data = np.ascontiguousarray(columns[name], f"<{kind}").tobytes()
        if len(data) != 4 * count:
            raise ValueError(f"{name}: found {len(data) // 4} numbers, expected {count}")
        parts += [data, bytes(-len(data) % ALIGN)]
    return b"".join(parts)


def unpack(data: bytes) -> Frame:
    """Take a frame apart. Raises ValueError, one line, for bytes that are no frame of this version."""
    header, at = _header(data)
    count, columns = header["count"], {}
    for name, kind in header["columns"]:
        columns[name] = np.frombuffer(data, f"<{kind}", count, at)
        at += 4 * count + -4 * count % ALIGN
    return Frame(header, columns)


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    """The header, and where the columns begin."""
    if len(data) < LENGTH.size:
        raise ValueError(f"frame: found {len(data)} bytes, expected {LENGTH.size} or more")
    begin = LENGTH.size + LENGTH.unpack_from(data)[0]
    if begin > len(data) or begin % ALIGN:
        raise ValueError(f"frame: found a header of {begin - LENGTH.size} bytes in {len(data)}, expected it to fit")
    try:
        header = json.loads(data[LENGTH.size : begin].decode())
    except (ValueError, RecursionError):
        raise ValueError("frame: found a header that is no JSON, expected an object") from None
    if not isinstance(header, dict) or any(type(header.get(key)) is not kind for key, kind in KEYS.items()):
        raise ValueError(f"frame: found a header with other fields, expected {', '.join(KEYS)}")
    if header["v"] != VERSION or header["columns"] != [list(pair) for pair in COLUMNS]:
        raise ValueError(f"frame: found version {header['v']} or other columns, expected version {VERSION}")
    if not 0 <= header["first"] <= header["first"] + header["count"] <= header["total"]:
        raise ValueError(f"frame: found records {header['first']} + {header['count']} of {header['total']}")
    needed = len(COLUMNS) * (4 * header["count"] + -4 * header["count"] % ALIGN)
    if len(data) - begin != needed:
        raise ValueError(f"frame: found {len(data) - begin} bytes of columns, expected {needed}")
    return header, begin
