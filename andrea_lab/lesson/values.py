"""Wrong values and what they look like: from the numbers a kernel left to the likely cause.

Each test below asks whether the found array is the expected one after some well-known slip: overwritten where it should
be added, transposed, off by a factor, right for the first threads only. The first that fits names the cause.
"""

from __future__ import annotations

import ast
import itertools
import math
from typing import Any

import numpy as np

MARK = 0x7FC0ABCD  # a NaN of our own: an output that still holds it was never written
LOOSE = 10.0  # an explanation fits if it is off by at most so many tolerances
NEAR = 1e-2
VAGUE = (
    "wrong values",
    "lost digits",
    "wrong row factor",
    "wrong row term",
    "wrong column factor",
    "wrong column term",
)


def arguments(case: Any) -> list[Any]:
    """Fresh arguments; where an output starts as NaN, it is the marked one."""
    fresh = case.fresh()
    for name, value in zip(case.arguments, fresh, strict=True):
        if name in case.outputs and isinstance(value, np.ndarray) and value.dtype == np.float32:
            value.view(np.uint32)[np.isnan(value)] = MARK
    return fresh


def fits(found: np.ndarray, wanted: np.ndarray, tol: float) -> np.ndarray:
    """Element by element, whether `found` is `wanted` as far as an explanation must be exact."""
    finite = np.isfinite(wanted)
    size = np.sqrt(np.mean(wanted[finite] ** 2)) if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        return np.where(finite, np.abs(found - wanted) <= LOOSE * tol * (np.abs(wanted) + size), found == wanted)


class Scene:
    """One output of one case after a launch: what is known about it, for the tests below."""

    def __init__(self, case, block, name: str, found: np.ndarray, tree: ast.FunctionDef, traffic=None):
        self.case, self.block, self.name, self.tree, self.tol = case, block, name, tree, case.tol
        self.expected = case.expected[name]
        self.found = np.asarray(found, np.float64)
        before = np.asarray(case.arguments[name])
        self.adds = bool(np.isfinite(before).all()) and before.dtype.kind == "f"
        self.before = before.astype(np.float64) if self.adds else np.zeros(self.expected.shape)
        self.wrong = ~fits(self.found, self.expected, self.tol / LOOSE)
        start = arguments(case)[list(case.arguments).index(name)]
        self.untouched = np.ascontiguousarray(found).view(np.uint32) == start.view(np.uint32)
        self.traffic = traffic
        self.got, self.want = self.found - self.before, self.expected - self.before

    def all_fit(self, wanted: np.ndarray) -> bool:
        """Whether the found change is `wanted` throughout."""
        return bool(np.isfinite(wanted).all()) and bool(fits(self.got, wanted, self.tol).all())

    def calls(self, name: str) -> bool:
        """Whether the kernel calls something of that name."""
        nodes = (n.func for n in ast.walk(self.tree) if isinstance(n, ast.Call))
        return any(name in (getattr(f, "attr", ""), getattr(f, "id", "")) for f in nodes)


def tells(scene: Scene) -> tuple:
    """How much a failing case can tell: finite, more than a row and a column, plain rather than strong, large."""
    shape = scene.expected.shape
    wide = min(shape, default=0) > 2
    return wide, not scene.case.strong, scene.expected.size


def cause(scene: Scene) -> tuple[str, str]:
    """(reason, more): the likely cause of wrong values; `more` adds a figure to what is said of the reason."""
    for test in (_unwritten, _first_items, _not_finite, _overwritten, _axes, _scaled, _along_axes, _near):
        found = test(scene)
        if found:
            return found if isinstance(found, tuple) else (found, "")
    return "wrong values", ""


def _unwritten(s: Scene):
    if not s.untouched[s.wrong].all():
        return None
    reads = _reads(s)
    if not s.adds and reads:
        return "added, not written"
    return _first_items(s) or "never written"


def _reads(s: Scene) -> int:
    arrays = getattr(s.traffic, "arrays", {}) or {}
    return getattr(arrays.get(_parameter(s)), "reads", 0)


def _parameter(s: Scene) -> str:
    """What the learner's kernel calls this argument."""
    place = list(s.case.arguments).index(s.name)
    return [a.arg for a in s.tree.args.args][place]


def _first_items(s: Scene):
    """Right up to a multiple of the block, wrong from there on."""
    block = s.block if isinstance(s.block, tuple) else (s.block,)
    steps = {int(b) for b in block if b > 1} | {math.prod(int(b) for b in block)}
    shapes = [s.wrong.reshape(-1)] + [s.wrong.any(axis=_others(s.wrong, axis)) for axis in range(s.wrong.ndim)]
    for wrong in shapes:
        first = int(np.argmax(wrong))
        if first > 0 and wrong[first:].all() and any(first % step == 0 for step in steps if step > 1):
            return "only the first items", f"; here the first {first} of {wrong.size} are right"
    return None


def _others(array: np.ndarray, axis: int) -> tuple[int, ...]:
    return tuple(a for a in range(array.ndim) if a != axis)


def _not_finite(s: Scene):
    if np.isfinite(s.found[np.isfinite(s.expected)]).all():
        return None
    if not s.adds and s.untouched[s.wrong].any() and _reads(s):
        return "added, not written"
    return "missing maximum" if s.calls("exp") else "not a number"


def _overwritten(s: Scene):
    if not s.adds:
        return None
    if fits(s.found, s.want, s.tol)[s.wrong].all() and (s.before[s.wrong] != 0).any():
        return "forgot +="
    for times in (2, 3, 4, 8, 16, 32):
        if s.all_fit(times * s.want):
            return "added twice" if times == 2 else ("added twice", f"; here {times} times")
    return None


def _axes(s: Scene):
    """The right numbers in the order of other axes."""
    for order in itertools.permutations(range(s.want.ndim)):
        turned = s.want.transpose(order).reshape(s.want.shape)
        if not np.array_equal(turned, s.want) and s.all_fit(turned):
            return "wrong axis"
    return None


def _scaled(s: Scene):
    if s.want.size < 2 or not (np.isfinite(s.got).all() and np.isfinite(s.want).all()):
        return None
    if s.all_fit(-s.want):
        return "sign"
    square = float((s.want * s.want).sum())
    factor = float((s.got * s.want).sum()) / square if square else 0.0
    if factor and s.all_fit(factor * s.want):
        return "wrong constant", f"; here the factor is {factor:.3g}"
    addend = float(np.mean(s.got - s.want))
    if s.all_fit(s.want + addend):
        return "missing term", f"; here the addend is {addend:.3g}"
    return None


def _along_axes(s: Scene):
    """Off by a factor or an addend that belongs to the row, or to the column."""
    if s.want.ndim < 2 or min(s.want.shape[-2:]) < 3 or not np.isfinite(s.got).all() or not np.isfinite(s.want).all():
        return None
    got, want = (a.reshape(-1, a.shape[-1]) for a in (s.got, s.want))
    for axis, word in ((1, "row"), (0, "column")):
        squares = (want * want).sum(axis=axis, keepdims=True)
        factor = (got * want).sum(axis=axis, keepdims=True) / np.where(squares > 0, squares, 1.0)
        if s.all_fit((factor * want).reshape(s.want.shape)):
            return f"wrong {word} factor"
        addend = (got - want).mean(axis=axis, keepdims=True)
        if s.all_fit((want + addend).reshape(s.want.shape)):
            return f"wrong {word} term"
    return None


def _near(s: Scene):
    finite = np.isfinite(s.expected)
    scale = np.linalg.norm(s.expected[finite])
    off = np.linalg.norm((s.found - s.expected)[finite])
    return "lost digits" if off <= NEAR * scale else None
