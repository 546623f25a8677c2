"""Types and values of expressions: those of Numba on a GPU.

The type of every expression is the one Numba gives it when it compiles for a card of compute capability 8.0, which
needs no card; the value is the one of compiled code on the processor.
"""

import math
import warnings

import numba
import numpy as np
import pytest
from expressions_list import CONSTANTS, VARIABLES, expressions
from numba import cuda, float32, float64, int8, int16, int32, int64, njit, uint8, uint32

import kernels
from kernels.target.check import memory

TYPES = dict(
    float32=float32, float64=float64, int8=int8, int16=int16, int32=int32, int64=int64, uint8=uint8, uint32=uint32
)
NAMES = {"math": math, "cuda": cuda, **TYPES, **CONSTANTS}
EXPRESSIONS = expressions()
# Not on the processor, and on a GPU the library's own: valued by Python instead.
BY_PYTHON = {"math.fmod(f, g)"}


def function(text: str, names=NAMES):
    """The function `h` of a piece of text, whose lines a reader of sources can find."""
    import linecache

    file = f"<semantics {abs(hash(text))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space = dict(names)
    exec(compile(text, file, "exec"), space)
    return space["h"]


def tuple_of(chosen):
    return function(f"def h({', '.join(VARIABLES)}):\n    return ({', '.join(chosen)},)\n")


@pytest.fixture(scope="module")
def typed():
    """What Numba's CUDA typing says of every expression."""
    types = tuple(numba.typeof(v) for v in VARIABLES.values())

    def ask(chosen):
        found = [
            numba.types.unliteral(t) for t in cuda.compile(tuple_of(chosen), types, device=True, cc=(8, 0))[1].types
        ]
        return dict(
            zip(chosen, (np.dtype("bool" if t.name.startswith("bool") else t.name) for t in found), strict=True)
        )

    # Two kinds of floating remainder in one module break Numba, so these are compiled one by one.
    alone = [e for e in EXPRESSIONS if "//" in e or "%" in e]
    rest = [e for e in EXPRESSIONS if e not in alone]
    answers = {}
    for chosen in [[e] for e in alone] + [rest[k : k + 24] for k in range(0, len(rest), 24)]:
        answers |= ask(chosen)
    return answers


@pytest.fixture(scope="module")
def valued():
    """What compiled code makes of every expression."""
    answers = {e: eval(e, {**NAMES, **VARIABLES}) for e in BY_PYTHON}
    chosen = [e for e in EXPRESSIONS if e not in BY_PYTHON]
    for k in range(0, len(chosen), 24):
        part = chosen[k : k + 24]
        answers |= zip(part, njit(error_model="numpy")(tuple_of(part))(*VARIABLES.values()), strict=True)
    return answers


@pytest.fixture(scope="module")
def checked():
    """What the check target stores for every expression, before the array's own type is put on it."""
    stored = []
    real = memory.write

    def write(mc, f, site, arr, off, m, value):
        stored.append(value)
        return real(mc, f, site, arr, off, m, value)

    patch = pytest.MonkeyPatch()
    patch.setattr(memory, "write", write)
    answers = {}
    for e in EXPRESSIONS:
        kernel = function(f"def h(out, {', '.join(VARIABLES)}):\n    out[0] = {e}\n")
        stored.clear()
        try:
            report = kernels.check(kernel, orders=0)[1, 1](np.zeros(1), *VARIABLES.values())
            answers[e] = stored[-1] if stored else report
        except Exception as error:  # a failure of this expression alone
            answers[e] = error
    patch.undo()
    return answers


def test_there_are_enough_expressions():
    assert len(set(EXPRESSIONS)) == len(EXPRESSIONS) >= 150


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_type_is_numbas(expression, typed, checked):
    found = checked[expression]
    assert hasattr(found, "dtype"), f"{expression}: refused\n{found!r}"
    assert found.dtype == typed[expression]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_value_is_numbas(expression, valued, checked):
    assert hasattr(checked[expression], "dtype"), f"{expression}: refused\n{checked[expression]!r}"
    found = np.float64(np.ravel(checked[expression])[0])
    tolerance = 2e-6 if checked[expression].dtype == np.float32 else 1e-13
    np.testing.assert_allclose(found, np.float64(valued[expression]), rtol=tolerance, atol=tolerance)


def test_float64_that_creeps_in_is_named():
    kernel = function(
        "def h(x, o):\n    total = 0.0\n    for i in range(x.size):\n        total += x[i] * 0.5\n    o[0] = total\n"
    )
    x = np.full(2000, 0.1, np.float32)
    report = kernels.check(kernel, orders=0)[1, 1](x, np.zeros(1, np.float32))
    assert report.ok
    assert min(line for line, _ in report.float64) in (2, 4)
    assert "total" in {name for _, name in report.float64}
    o = np.zeros(1)
    kernels.check(kernel, orders=0)[1, 1](x, o)
    assert o[0] == pytest.approx(2000 * float(np.float32(0.1)) * 0.5, rel=1e-12)


def test_an_accumulator_of_float32_rounds_at_every_step():
    kernel = function(
        "def h(x, o):\n    a = float32(0)\n    for i in range(x.size):\n        a += x[i]\n    o[0] = a\n"
    )
    x = np.full(3000, 0.1, np.float32)
    o = np.zeros(1, np.float32)
    report = kernels.check(kernel, orders=0)[1, 1](x, o)
    assert report.ok and not report.float64
    assert o[0] == np.cumsum(x, dtype=np.float32)[-1]


STORES = [
    ("300", np.uint8, 44),
    ("-1", np.uint32, 4294967295),
    ("2.9", np.int32, 2),
    ("-2.9", np.int32, -2),
    ("float32(1) / float32(3)", np.float64, np.float64(np.float32(1) / np.float32(3))),
    ("1.0 / 3", np.float32, np.float32(1 / 3)),
    ("3000000000", np.int32, -1294967296),
    ("7 > 3", np.int32, 1),
    ("70000", np.int16, 4464),
]
STATEMENTS = [
    ("a = 7\n    a /= 2\n    o[0] = a", 3.5),
    ("a = 7\n    a //= -2\n    o[0] = a", -4),
    ("a = 7\n    a %= -3\n    o[0] = a", -2),
    ("a, b = 1, 2\n    a, b = b, a + b\n    o[0] = a * 10 + b", 23),
    ("a = b = 4\n    o[0] = a + b", 8),
    ("a = 3\n    a **= 2\n    o[0] = a", 9),
    ("a = 6\n    a <<= 2\n    a |= 1\n    a ^= 3\n    o[0] = a", 26),
    ("o[0] = o.size * 100 + o.shape[0] * 10 + o.ndim", 111),
    ("o[0] = min(3, 1, 2) + max(4, 9.5)", 10.5),
    ("for k in range(10, 0, -3):\n        o[0] = o[0] * 10 + k", 10741),
    ("o[0] = len(o)", 1),
    ("k = 5\n    while k:\n        k -= 1\n        o[0] += 1", 5),
    ("o[0] = 1 if 2 < 1 else 3 if 2 > 1 else 4", 3),
    ("for k in range(3):\n        pass\n    o[0] = k", 2),
    ("o[0] = 10 ** 18 // 3 % 1000", 333),
    ("o[0] = (1 << 40) % 1000003", (1 << 40) % 1000003),
    ("o[0] = cuda.popc(255) + cuda.clz(1)", 8 + 63),
]


@pytest.mark.parametrize("value, dtype, stored", STORES)
def test_a_store_takes_the_type_of_its_array(value, dtype, stored):
    out = np.zeros(1, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernels.check(function(f"def h(out):\n    out[0] = {value}\n"), orders=0)[1, 1](out)
    assert out[0] == stored


@pytest.mark.parametrize("text, result", STATEMENTS)
def test_statements_mean_what_they_mean_in_python(text, result):
    out = np.zeros(1)
    report = kernels.check(function(f"def h(o):\n    {text}\n"), orders=0)[1, 1](out)
    assert report.ok, repr(report)
    assert out[0] == result


def test_the_numbers_of_threads_and_blocks():
    kernel = function(
        "def h(o):\n    x, y, z = cuda.grid(3)\n    sx, sy, sz = cuda.gridsize(3)\n"
        "    n = ((cuda.blockIdx.z * cuda.gridDim.y + cuda.blockIdx.y) * cuda.gridDim.x + cuda.blockIdx.x)\n"
        "    o[z, y, x] = n * 1000 + sx + sy + sz + cuda.threadIdx.x + cuda.blockDim.y * 100 + cuda.laneid * 0\n"
    )
    out = np.zeros((4, 3, 6))
    assert kernels.check(kernel)[(3, 3, 1), (2, 1, 4)](out).ok
    z, y, x = np.indices(out.shape)
    np.testing.assert_array_equal(out, (y * 3 + x // 2) * 1000 + 6 + 3 + 4 + x % 2 + 100)
