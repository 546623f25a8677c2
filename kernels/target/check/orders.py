"""The same launch with its threads in other orders: does the result depend on who comes first?"""

from dataclasses import dataclass

import numpy as np

ROUNDING = 1e-4  # a difference below this part of the largest value may come from the order of additions alone


@dataclass(frozen=True)
class Orders:
    """What other orders of threads and blocks gave.

    ran: how many were tried. differs: whether a result differs from that of the threads in step. array, index, values:
    where most, and the two values. rounding_only: the difference is as small as float additions in another order make.
    note: why fewer ran than were asked for, or "".
    """

    ran: int
    differs: bool = False
    array: str | None = None
    index: tuple = ()
    values: tuple = ()
    rounding_only: bool = False
    count: int = 0
    size: int = 0
    note: str = ""


def compare(first, others, note=""):
    """Orders from the results of the recording run and of the others: dictionaries of arrays."""
    worst = None
    for other in others:
        for name, x in first.items():
            found = _difference(name, x, other[name])
            if found is not None and (worst is None or found[0] > worst[0]):
                worst = found
    if worst is None:
        return Orders(len(others), note=note)
    size, name, index, values, count, total = worst
    return Orders(len(others), True, name, index, values, size < ROUNDING, count, total, note)


def _difference(name, x, y):
    """(relative size, array, index, values, how many, of how many) of the largest difference, None if there is none."""
    if x.tobytes() == y.tobytes():
        return None
    if x.dtype.kind != "f":
        apart = x != y
        if not apart.any():
            return None
        at = int(np.flatnonzero(apart)[0])
        size = np.inf
    else:
        with np.errstate(all="ignore"):
            apart = (x != y) & ~(np.isnan(x) & np.isnan(y))
            if not apart.any():
                return None
            gap = np.abs(x.astype(np.float64) - y)
            gap[np.isnan(gap) & apart] = np.inf
            gap[~apart] = 0
            at = int(np.argmax(gap))
            finite = np.abs(x[np.isfinite(x)])
            top = float(finite.max()) if finite.size else 0.0
            size = float(gap.flat[at]) / top if top else np.inf
    index = tuple(int(k) for k in np.unravel_index(at, x.shape))
    values = (x[index].item(), y[index].item())
    return size, name, index, values, int(apart.sum()), x.size
