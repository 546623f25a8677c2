"""Numbers as Numba types them on a GPU.

A value is a NumPy array with one element a lane, or a NumPy scalar where all lanes agree. Python's literals are int64
and float64; integers are computed in 64 bits, unsigned only if both are; float32 stays float32 until it meets something
wider. NumPy's own promotion does the rest.
"""

import ast
import math
import operator

import numpy as np

I64, U64, F32, F64, BOOL = (np.dtype(n) for n in ("int64", "uint64", "float32", "float64", "bool"))
array = np.ndarray


def is_number(v):
    return isinstance(v, (np.ndarray, np.generic))


def truth(v):
    """A boolean a lane, or one Python bool."""
    if type(v) is array:
        return v if v.dtype is BOOL else v != 0
    return bool(v)


def lift(v):
    """A Python number as the NumPy scalar of the type Numba gives it; other things as they are."""
    if isinstance(v, bool):
        return np.bool_(v)
    if isinstance(v, int):
        return np.int64(v) if -(2**63) <= v < 2**63 else np.uint64(v & (2**64 - 1))
    if isinstance(v, float):
        return np.float64(v)
    return tuple(lift(x) for x in v) if isinstance(v, tuple) else v


def wide(v):
    """An integer in 64 bits."""
    kind = v.dtype.kind
    if kind == "u":
        return v.astype(U64)
    return v.astype(I64) if kind in "bi" else v


def pair(a, b):
    """Two integers in the 64-bit type of their sum."""
    if a.dtype.kind == b.dtype.kind == "u":
        return wide(a), wide(b)
    if U64 in (a.dtype, b.dtype):
        return (a.astype(I64) if a.dtype.kind == "b" else a), (b.astype(I64) if b.dtype.kind == "b" else b)
    return a.astype(I64), b.astype(I64)


_ALIKE = (F32, F64, I64)
_INT = "biu"


def _binary(op, bits=False):
    def run(a, b):
        da, db = a.dtype, b.dtype
        if not (da is db and da in _ALIKE):
            ka, kb = da.kind, db.kind
            if ka in _INT and kb in _INT and not (bits and ka == kb == "b"):
                a, b = pair(a, b)
        return op(a, b)

    return run


def power(a, b):
    ka, kb = a.dtype.kind, b.dtype.kind
    if ka == "f" and kb in _INT:
        return np.power(a, b.astype(a.dtype))
    if ka in _INT and kb in _INT:
        a, b = pair(a, b)
        if np.any(b < 0):
            ones = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b % 2), 0))
            return np.where(b < 0, ones, np.power(a, np.maximum(b, 0))).astype(I64)[()]
    return np.power(a, b)


def divide(a, b):
    if a.dtype.kind in _INT and b.dtype.kind in _INT:
        a, b = a.astype(F64), b.astype(F64)
    return np.true_divide(a, b)


def _shift(op):
    def run(a, b):
        return op(wide(a), b.astype(U64 if a.dtype.kind == "u" else I64))

    return run


BINARY = {
    ast.Add: _binary(operator.add),
    ast.Sub: _binary(operator.sub),
    ast.Mult: _binary(operator.mul),
    ast.Div: divide,
    ast.FloorDiv: _binary(np.floor_divide),
    ast.Mod: _binary(np.remainder),
    ast.BitAnd: _binary(operator.and_, True),
    ast.BitOr: _binary(operator.or_, True),
    ast.BitXor: _binary(operator.xor, True),
    ast.LShift: _shift(np.left_shift),
    ast.RShift: _shift(np.right_shift),
    ast.Pow: power,
}
COMPARE = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
WHOLE_ONLY = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)


def negate(v):
    if v.dtype.kind == "u":
        return np.negative(v).astype(U64)
    return np.negative(wide(v) if v.dtype.kind in _INT else v)


def invert(v):
    return np.invert(wide(v))


def least(a, b, op):
    """min or max of two numbers; of a NaN and a number the number, as on the device."""
    if a.dtype is not b.dtype and a.dtype.kind in _INT and b.dtype.kind in _INT:
        a, b = pair(a, b)
    return op(a, b)


def absolute(v):
    return np.abs(v if v.dtype.kind != "b" else v.astype(I64))


def merge(b, new, old):
    """`new` in the lanes of the boolean vector b, `old` in the others."""
    return np.where(b, new, old)


def _each(function):
    def run(x):
        if type(x) is array:
            return np.array([function(v) for v in x.tolist()], x.dtype)
        return x.dtype.type(function(float(x)))

    return run


_SAME = "exp expm1 log log2 log10 log1p sqrt sin cos tan tanh sinh cosh hypot fabs fmod copysign isnan isinf isfinite"
_OTHER = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power"}
_OTHER |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
_MORE = {"exp2": "exp2", "radians": "radians", "degrees": "degrees", "floor": "floor", "ceil": "ceil", "trunc": "trunc"}
_NAMES = {n: n for n in _SAME.split()} | _OTHER | _MORE
MATH = {getattr(math, n): getattr(np, m) for n, m in _NAMES.items() if hasattr(math, n)}


def _safe(function):
    def one(x):
        try:
            return function(x)
        except (ValueError, OverflowError):
            return math.nan if x != math.inf else math.inf

    return _each(one)


MATH |= {getattr(math, n): _safe(getattr(math, n)) for n in ("erf", "erfc", "gamma", "lgamma")}


def math_call(function, args):
    """A function of the math module: float32 in, float32 out; whole numbers count as float64."""
    args = [x.astype(F64) if x.dtype.kind in _INT else x for x in args]
    return MATH[function](*args)


def cast(v, dtype):
    """A number as another type, the way C converts: towards zero."""
    return v.astype(dtype)
