"""A step's entry, the line of the loss log: what was asked for and what came of it."""

from typing import Any

ASKED = ("step", "segment", "policy", "source", "draw")
MEASURED = ("tokens", "loss", "grad_norm", "clip", "lr", "ms")


def entry_of(request: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """The entry of a step, its fields in the log's order. request: what `step` was given; result: what it returned."""
    return {key: request[key] for key in ASKED} | {key: result[key] for key in MEASURED}
