"""One case, the table of them, and the random data they are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from andrea_lab.rng import rng

TOLERANCE = 1e-5  # of float32 kernels against float64
FLOOR = 0.1  # a result that is nearly nothing is a difference of numbers about 1, and judged as such


@dataclass(frozen=True)
class Wrong:
    """The first place where a result is not what it should be; `what` says in a line what was found there."""

    array: str
    index: tuple[int, ...]
    found: float
    expected: float
    count: int
    what: str


@dataclass(frozen=True)
class Case:
    """One launch and what it must leave behind.

    arguments: in the order of the kernel's parameters; arrays float32 or int32, scalars int or float32.
    outputs: the arguments a kernel writes; every other array must come back as it was.
    expected: float64, what an output holds afterwards: for one that is added to, what it held plus the sum.
    tol: a found value may be off by tol times (its size + the root mean square of the array, or 0.1).
    strong: larger, and made to catch what small sizes let through.
    sizes: the sizes it was made with, N=5, C=33 ..., to be named in a message.
    form: for kernels that a factory makes: the constants of this form; empty for the registered kernel. A kernel made
    for one form can only run the cases of that form.
    traffic: at most so many accesses: {"global reads": n, "shared reads": n}, stated where sharing is the point.
    """

    kernel: str
    label: str
    grid: Any
    block: Any
    arguments: dict[str, Any]
    outputs: tuple[str, ...]
    expected: dict[str, np.ndarray]
    tol: float
    strong: bool
    sizes: dict[str, Any] = field(default_factory=dict)
    form: dict[str, int] = field(default_factory=dict)
    traffic: dict[str, int] = field(default_factory=dict)

    def fresh(self) -> list[Any]:
        """The arguments in order, arrays copied; two arguments that are one array stay one."""
        made: dict[int, np.ndarray] = {}
        return [made.setdefault(id(a), a.copy()) if isinstance(a, np.ndarray) else a for a in self.arguments.values()]

    def excess(self, traffic: Any) -> tuple[str, int, int] | None:
        """The first count above what `traffic` of the case allows, ("global reads", found, allowed); None if none is.

        traffic: of a report of the check target.
        """
        for what, most in self.traffic.items():
            space, kind = what.split()
            if (count := getattr(traffic, kind)(space)) > most:
                return what, count, most
        return None

    def wrong(self, found: list[Any]) -> Wrong | None:
        """The first wrong value among the arguments after a launch, None if all is right."""
        for (name, before), after in zip(self.arguments.items(), found, strict=True):
            if not isinstance(before, np.ndarray):
                continue
            if name in self.expected:
                wrong = compare(name, np.asarray(after, np.float64), self.expected[name], self.tol)
            elif any(before is self.arguments[other] for other in self.outputs):
                wrong = None
            else:
                wrong = _changed(name, before, np.asarray(after))
            if wrong is not None:
                return wrong
        return None


def compare(name: str, found: np.ndarray, expected: np.ndarray, tol: float) -> Wrong | None:
    """The first element of `found` that is too far from `expected`; what is not finite must be the same."""
    if found.shape != expected.shape:
        what = f"{name} has shape {found.shape}, expected {expected.shape}"
        return Wrong(name, (), np.nan, np.nan, expected.size, what)
    finite = np.isfinite(expected)
    size = max(FLOOR, np.sqrt(np.mean(expected[finite] ** 2)) if finite.any() else 0.0)
    with np.errstate(invalid="ignore"):
        near = np.abs(found - expected) <= tol * (np.abs(expected) + size)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    return _first(name, ~np.where(finite, near, same), found, expected)


def _changed(name: str, before: np.ndarray, after: np.ndarray) -> Wrong | None:
    """The first element of an input that a launch changed."""
    bad = (before != after) & ~(np.isnan(before) & np.isnan(after))
    return _first(name, bad, after, before, ", which is an input and must stay")


def _first(name, bad, found, expected, tail="") -> Wrong | None:
    count = int(np.count_nonzero(bad))
    if not count:
        return None
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    f, e = float(found[index]), float(expected[index])
    place = f"{name}[{', '.join(map(str, index))}]"
    return Wrong(name, index, f, e, count, f"{place} is {f:.6g}, expected {e:.6g}{tail} ({count} of {bad.size} wrong)")


# ---------------------------------------------------------------- data


class Draw:
    """Random data of one case: the n-th array drawn is a function of (seed, kernel, label, n) alone."""

    def __init__(self, seed: int, kernel: str, label: str):
        self.name, self.count = (seed, "lesson.cases", kernel, label), 0

    def stream(self):
        """The stream of the next array."""
        self.count += 1
        return rng(*self.name, self.count)

    def normal(self, *shape: int, scale: float = 1.0, mean: float = 0.0) -> np.ndarray:
        """Normal float32 values, a deviation of `scale` about `mean`."""
        values = self.stream().normal(int(np.prod(shape)))
        return (values * scale + mean).astype(np.float32).reshape(shape)

    def whole(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        """As normal, rounded to whole numbers: their products are the same in float32 and float64."""
        return np.round(self.normal(*shape, scale=scale))

    def ids(self, *shape: int, below: int) -> np.ndarray:
        """int32 ids below `below`."""
        return self.stream().integers(int(np.prod(shape)), below).astype(np.int32).reshape(shape)

    def targets(self, B: int, T: int, V: int, ignore: bool = False) -> np.ndarray:
        """(B, T) int32 targets, the first and the last token and -1 among them; all -1 with `ignore`."""
        targets = self.ids(B, T, below=V)
        flat = targets.reshape(-1)
        flat[::4], flat[1::4], flat[2::4] = V - 1, -1, 0
        if ignore:
            flat[:] = -1
        return targets


def poison(*shape: int) -> np.ndarray:
    """Not a number throughout: what an output holds that must be overwritten."""
    return np.full(shape, np.nan, np.float32)


def wide(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The same numbers in float64."""
    return tuple(a.astype(np.float64) for a in arrays)


def narrow(a: np.ndarray) -> np.ndarray:
    """Rounded to float32, contiguous: what a forward kernel would have saved."""
    return np.ascontiguousarray(a, np.float32)


# ---------------------------------------------------------------- the table


@dataclass
class Setup:
    """What a recipe gives for one set of sizes; the rest of a Case is known by its place in the table."""

    grid: Any
    block: Any
    arguments: dict[str, Any]
    expected: dict[str, np.ndarray]
    tol: float = TOLERANCE
    form: dict[str, int] = field(default_factory=dict)
    traffic: dict[str, int] = field(default_factory=dict)


RECIPES: dict[str, list[tuple[Callable[..., Setup], str, dict, bool]]] = {}


def recipe(kernel: str, plain: dict[str, dict], strong: dict[str, dict]):
    """Decorator: enter cases of `kernel`, one for each label -> sizes, made by the function from (draw, **sizes)."""

    def enter(build: Callable[..., Setup]) -> Callable[..., Setup]:
        rows = RECIPES.setdefault(kernel, [])
        rows += [(build, label, sizes, False) for label, sizes in plain.items()]
        rows += [(build, label, sizes, True) for label, sizes in strong.items()]
        return build

    return enter


def case_names() -> list[str]:
    """Every shipped kernel, in the order of the registry."""
    from kernels.pairs import KERNELS

    return list(KERNELS)


def case_list(name: str, seed: int = 0) -> list[Case]:
    """The cases of a shipped kernel, small ones first, with data drawn from `seed`. Raises KeyError for another name.

    Every call makes its arrays anew.
    """
    made = []
    for build, label, sizes, strong in sorted(RECIPES[name], key=lambda row: row[3]):
        s = build(Draw(seed, name, label), **sizes)
        expected = {n: np.asarray(e, np.float64) for n, e in s.expected.items()}
        shown = {n: v for n, v in sizes.items() if n.isupper()}
        rest = (tuple(expected), expected, s.tol, strong, shown, s.form, s.traffic)
        made.append(Case(name, label, s.grid, s.block, s.arguments, *rest))
    return made
