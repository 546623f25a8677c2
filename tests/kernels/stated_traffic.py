"""What a kernel says it moves: the formulas of its docstring, evaluated for a launch of any size without running it.

    stated(k_layernorm_fwd, N, 32, *args)["inp"].reads      # 3 N C

The sentence after "Reads + writes:" lists arrays of global memory and the number of elements read, written and changed
by atomics, summed over all threads of a launch:

    reads inp 3 N C, gamma and beta N C each; writes out N C + hits, mean N; where hits = count(targets >= 0).

Side by side means times; ceil, min and count (of elements) are the functions; where names a part of a formula. A name
is, in this order, a scalar parameter, a size of the Shapes line, gridDim (all blocks), blockDim (all threads of a
block), gridDim.x and so on, or a constant that the kernel uses. Counts are of the kernel as written: no caches, nothing
that a compiler keeps in a register.
"""

from __future__ import annotations

import inspect
import math
import re
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from kernels.registry import block3
from kernels.target import KernelError

KINDS = ("reads", "writes", "atomics")
FUNCTIONS = {"ceil": math.ceil, "min": min, "count": np.count_nonzero}
TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z][\w.]*)|(>=|==|!=|[-+*/(),<>]))")


@dataclass
class Counts:
    """Elements of one array of global memory that a launch reads, writes and changes by atomics."""

    reads: int = 0
    writes: int = 0
    atomics: int = 0


def stated(k, grid, block, *args) -> dict[str, Counts]:
    """Counts by array, as the docstring of kernel `k` states them for k[grid, block](*args).

    Only the shapes of the arrays matter, and the values of those in a count(...). Raises KernelError when the docstring
    states nothing, when a formula cannot be evaluated, and when an array does not have the shape that it names.
    """
    sentence = statement(k)
    return evaluate(sentence, names(k, grid, block, args), inspect.signature(k.fn).parameters, k.fn.__name__)


def part(k, name) -> str:
    """The text of one part of a kernel's docstring ("Shapes", "Reads + writes"), on one line; "" if it has none."""
    found = re.search(rf"^{re.escape(name)}:(.*?)(?=^[A-Z][\w +]*:|\Z)", inspect.getdoc(k.fn) or "", re.M | re.S)
    return " ".join(found[1].split()) if found else ""


def statement(k) -> str:
    """The sentence of formulas that opens the part "Reads + writes". Raises KernelError when there is none."""
    sentence = re.split(r"\.(?:\s|$)", part(k, "Reads + writes"))[0]
    if not sentence.startswith(KINDS):
        raise KernelError(f'{k.fn.__name__}: "Reads + writes:" starts with "{sentence[:40]}", expected "reads ..."')
    return sentence


def names(k, grid, block, args) -> dict:
    """Values of the names that a formula may use, in a launch k[grid, block](*args)."""
    given = dict(zip(inspect.signature(k.fn).parameters, args, strict=True))
    closure = inspect.getclosurevars(k.fn)
    found = {name: v for space in (closure.globals, closure.nonlocals) for name, v in space.items() if type(v) is int}
    for name, sizes in (("gridDim", block3(grid)), ("blockDim", block3(block))):
        found |= {name: math.prod(sizes), **{f"{name}.{axis}": n for axis, n in zip("xyz", sizes, strict=True)}}
    shapes = shapes_of(k, given)
    scalars = {name: int(v) for name, v in given.items() if isinstance(v, int | np.integer)}
    for array, dims in shapes.items():
        for dim, size in zip(dims, given[array].shape, strict=True):
            if dim.isidentifier():
                found[dim] = size
    found |= scalars
    known = {name: Fraction(v) for name, v in found.items()}
    for array, dims in shapes.items():
        for dim, size in zip(dims, given[array].shape, strict=True):
            said = number(dim, known, k.fn.__name__)
            if size < said or (size > said and not dim.isdigit()):  # a plain number is the least size
                raise KernelError(f"{k.fn.__name__}: {array} has shape {given[array].shape}, expected {dim} = {said}")
    return {name: v for name, v in given.items() if name not in scalars} | known


def shapes_of(k, given) -> dict[str, list[str]]:
    """The sizes that the Shapes line gives each array, as written: "inp, out (N, C)" -> inp: ["N", "C"], out: ..."""
    found = {}
    for arrays, dims in re.findall(r"((?:\w+, )*\w+) \(([^()]*)\)", part(k, "Shapes")):
        sizes = [dim.strip() for dim in dims.split(",") if dim.strip()]
        for array in arrays.split(", "):
            if hasattr(given.get(array), "shape"):
                shape = given[array].shape
                if len(shape) != len(sizes):
                    raise KernelError(f"{k.fn.__name__}: {array} has shape {shape}, expected ({dims})")
                found.setdefault(array, sizes)
    return found


def evaluate(sentence, known, arrays, kernel) -> dict[str, Counts]:
    """Counts by array from a sentence of formulas, with the values of names in `known`."""
    sentence, _, where = sentence.partition("where ")
    for item in filter(None, _split(where, ", ")):
        name, _, formula = item.partition(" = ")
        known = known | {name: number(formula, known, kernel)}
    counts: dict[str, Counts] = {}
    for clause in filter(None, _split(sentence, "; ")):
        kind, _, items = clause.strip("; ").partition(" ")
        if kind not in KINDS:
            raise KernelError(f'{kernel}: "Reads + writes:" has "{clause}", expected one of {", ".join(KINDS)}')
        for group, formula in listed(items):
            for array in group:
                if array not in arrays:
                    raise KernelError(f'{kernel}: "{kind} {array} {formula}" names no parameter')
                setattr(counts.setdefault(array, Counts()), kind, whole(formula, known, kernel))
    return counts


def listed(items):
    """(arrays, formula) of each item of "inp 3 N C, gamma and beta N C each"."""
    arrays: list[str] = []
    for item in _split(items, ", "):
        array, _, rest = item.partition(" ")
        arrays.append(array)
        if rest.startswith("and "):
            array, _, rest = rest.removeprefix("and ").partition(" ")
            arrays.append(array)
        if rest:
            yield arrays, rest.removesuffix(" each")
            arrays = []


def whole(formula, known, kernel) -> int:
    """The value of a formula, which must be a whole number."""
    value = number(formula, known, kernel)
    if value != int(value):
        raise KernelError(f'{kernel}: "{formula}" is {value}, expected a whole number')
    return int(value)


def number(formula, known, kernel) -> Fraction:
    """The value of a formula: its tokens become an expression of Python, in which numbers are exact."""
    code, before = [], None
    for token in tokens(formula, kernel):
        ended = before is not None and (before == ")" or before[0].isalnum()) and before not in FUNCTIONS
        if ended and (token == "(" or token[0].isalnum()):
            code.append("*")
        if token == "/":
            code.append("* one /")
        elif token in FUNCTIONS or not token[0].isalpha():
            code.append(token)
        elif token in known:
            code.append(f"known[{token!r}]")
        else:
            sizes = ", ".join(name for name, value in known.items() if isinstance(value, Fraction))
            raise KernelError(f'{kernel}: "{formula}" has the name {token}, expected one of {sizes}')
        before = token
    scope = {"__builtins__": {}, "known": known, "one": Fraction(1), **FUNCTIONS}
    try:
        return Fraction(eval(" ".join(code), scope))
    except (SyntaxError, TypeError, ValueError, ZeroDivisionError) as error:
        raise KernelError(f'{kernel}: "{formula}" is no formula: {error}') from None


def tokens(formula, kernel) -> list[str]:
    """Numbers, names and signs of a formula, in order."""
    found, at = [], 0
    while at < len(formula.rstrip()):
        match = TOKEN.match(formula, at)
        if match is None:
            raise KernelError(
                f'{kernel}: "{formula}" has "{formula[at:].strip()}", expected a number, a name or a sign'
            )
        found.append(match[0].strip())
        at = match.end()
    return found


def _split(text, sign):
    """`text` cut at each `sign` that is outside of brackets."""
    pieces, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and text.startswith(sign, i):
            pieces.append(text[start:i])
            start = i + len(sign)
    return [*pieces, text[start:]]
