"""JSON as its definition has it: UTF-8, no key twice, no infinity and no not-a-number, nested within reason."""

import json
from collections.abc import Callable
from typing import Any


def _refuse(word: str) -> Any:
    raise ValueError(f"{word}, which is not JSON")


def parse(
    text: bytes,
    object_hook: Callable[[dict[str, Any]], Any] = lambda found: found,
    constant: Callable[[str], Any] = _refuse,
) -> Any:
    """The value of a text. Raises ValueError, one line.

    object_hook may replace each object. constant: what becomes of NaN, Infinity and -Infinity; `float` for a caller
    that says better than this which field held them.
    """
    try:
        return json.loads(
            text.decode(), object_pairs_hook=lambda pairs: object_hook(_unique(pairs)), parse_constant=constant
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r:.60} twice")
        found[key] = value
    return found
