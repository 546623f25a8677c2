"""The moving average of a loss."""

import math
from collections.abc import Iterable, Iterator


def keep_of(span: int) -> float:
    """The share that an exponential moving average over `span` steps keeps of itself at each."""
    return 1.0 - 2.0 / (span + 1.0)


def averaged(
    losses: Iterable[float], keep: float, total: float = 0.0, weight: float = 0.0
) -> Iterator[tuple[float, float]]:
    """(total, weight) after each loss, from those given on; the debiased average is total / weight, none at weight 0.

    Losses that are not finite are passed over.
    """
    for loss in losses:
        if math.isfinite(loss):
            total = keep * total + (1.0 - keep) * loss
            weight = keep * weight + (1.0 - keep)
        yield total, weight
