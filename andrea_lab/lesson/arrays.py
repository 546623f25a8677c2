"""The arguments of a launch as plain JSON values; two that are one array stay one."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np


def packed(arguments: list[Any]) -> list[Any]:
    """Each argument as ["int" | "bool" | dtype, number], ["array", dtype, shape, base64], or ["same", place]."""
    made, seen = [], {}
    for place, value in enumerate(arguments):
        if isinstance(value, np.ndarray):
            if id(value) in seen:
                made.append(["same", seen[id(value)]])
                continue
            seen[id(value)] = place
            held = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
            made.append(["array", value.dtype.name, list(value.shape), held])
        elif isinstance(value, np.generic):
            made.append([value.dtype.name, value.item()])
        else:
            made.append([type(value).__name__, value])
    return made


def unpacked(made: list[Any]) -> list[Any]:
    """The arguments again."""
    found: list[Any] = []
    for kind, value, *more in made:
        if kind == "same":
            found.append(found[value])
        elif kind == "array":
            shape, held = more
            found.append(np.frombuffer(bytearray(base64.b64decode(held)), value).reshape(shape))
        else:
            found.append(value if kind in ("int", "bool") else np.dtype(kind).type(value))
    return found
