"""Which float32 numbers may stand in a weight file: finite ones, and in v none below zero."""

import numpy as np


def first_bad(region: str, values: np.ndarray) -> int | None:
    """Index of the first number that may not stand in region "w", "m" or "v"; None when all may. values: (n,) float32.

    A sum of finite numbers is finite unless it overflows, and a single inf or NaN never leaves it finite: one pass
    without a temporary array says that all is well, and only a doubt is looked into.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        well = np.isfinite(np.add.reduce(values)) and (region != "v" or values.min() >= 0)
    if well:
        return None
    bad = ~np.isfinite(values)
    if region == "v":
        bad |= values < 0
    return int(bad.argmax()) if bad.any() else None
