"""Checks and exercises of the notebooks: one line of fixed width each, the same on every machine.

A line names the tolerance, never the error that was measured: the error's last digits belong to one processor.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

NAME = 56


class CheckFailed(AssertionError):
    """What was computed is not what it should be. The message is one line."""


def relative_error(found: Any, expected: Any) -> float:
    """||found - expected|| / ||expected|| over all elements, in float64; the plain norm where expected is all zero."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    scale = np.linalg.norm(expected.ravel())
    return float(np.linalg.norm((found - expected).ravel()) / (scale if scale > 0 else 1.0))


def agree(name: str, found: Any, expected: Any, tol: float = 0.0) -> None:
    """Print that `found` is `expected`, within the relative error `tol` (0: equal). Raises CheckFailed if it is not.

    Both are arrays of one shape, numbers, or anything that can be compared when tol is 0.
    """
    complaint = _complaint(found, expected, tol)
    if complaint:
        raise CheckFailed(f"{name}: {complaint}")
    print(_line(name, "equal" if tol == 0 else f"within {tol:.0e}", "ok"))


def exercise(name: str, attempt: Any, expected: Any, *, tol: float = 0.0, blank: Any = None, hint: str = "") -> None:
    """Judge a learner's answer and say so in one line; nothing is raised, whatever the answer does.

    attempt: the answer, or a function of no arguments that gives it. None, an ellipsis, or something equal to `blank`
    (the output of a kernel whose body is still empty) is "not attempted".
    """
    try:
        found = attempt() if isinstance(attempt, Callable) else attempt
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else "no message"
        print(_line(name, "not yet", f"{type(error).__name__}: {first}"))
        return
    if found is None or found is ... or (blank is not None and not _complaint(found, blank, 0.0)):
        print(_line(name, "not attempted", ""))
        return
    complaint = _complaint(found, expected, tol, tell=False)
    print(_line(name, "not yet" if complaint else "right", f"{complaint}. {hint}".strip(". ") if complaint else ""))


def _line(name: str, verdict: str, tail: str) -> str:
    return f"{name:<{NAME}}  {verdict:<14}{tail}".rstrip()


def _complaint(found: Any, expected: Any, tol: float, tell: bool = True) -> str:
    """What is wrong with `found`, or nothing; `tell` gives the expected value away."""
    if not isinstance(expected, np.ndarray | np.number | int | float) or isinstance(expected, bool):
        found = found.item() if isinstance(found, np.bool_) else found
        same = type(found) is type(expected) and found == expected
        return "" if same else f"found {found!r}" + (f", expected {expected!r}" if tell else "")
    try:
        found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    except (TypeError, ValueError):
        return f"found {found!r:.60}, expected numbers"
    if found.shape != expected.shape:
        return f"found shape {found.shape}, expected {expected.shape}"
    error = relative_error(found, expected)
    if (tol == 0 and np.array_equal(found, expected, equal_nan=True)) or (tol > 0 and error <= tol):
        return ""
    with np.errstate(invalid="ignore"):
        off = np.abs(found - expected)
    worst = np.unravel_index(int(np.argmax(np.where(np.isnan(off), np.inf, off))), found.shape) if found.ndim else ()
    place = f" at [{', '.join(str(int(i)) for i in worst)}]" if worst else ""
    wanted = f", expected {expected[worst]:.6g}" if tell else ", which is not it"
    return f"found {found[worst]:.6g}{place}{wanted} (relative error {error:.1e})"
