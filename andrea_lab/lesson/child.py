"""The process in which a learner's kernel runs compiled: `python -m andrea_lab.lesson.child`, see `limits`."""

from __future__ import annotations

from typing import Any

from andrea_lab.lesson import arrays, limits, origin
from kernels.target import KernelError, use


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """Run the launches of a kernel: {"results": the arguments of each afterwards}, or {"refused": why not}."""
    results = []
    with use("cpu"):
        try:
            for grid, block, held, form in message["launches"]:
                kernel = origin.unpacked(message["kernel"], constants=form)
                arguments = arrays.unpacked(held)
                kernel[_size(grid), _size(block)](*arguments)
                results.append(arrays.packed(arguments))
        except KernelError as error:
            return {"refused": str(error)}
    return {"results": results}


def _size(given: Any) -> Any:
    """A grid or block, a list after its way through JSON."""
    return tuple(given) if isinstance(given, list) else given


if __name__ == "__main__":
    limits.serve(answer)
