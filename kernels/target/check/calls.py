"""Calls in expressions: casts, Python's and math's functions, array declarations, device functions."""

import ast
import math
import operator

import numpy as np
from numba.core import types

from . import arith, memory, warps
from .arith import BOOL, F64, I64, array
from .faults import MAX_LOCAL, Refused
from .memory import Array
from .program import MISSING, is_callable_on_device

MOST_LOCAL = 1 << 28  # bytes of local arrays that are held at once
CASTS = {int: I64, float: F64, bool: BOOL}
OPERATORS = {operator.add: ast.Add, operator.sub: ast.Sub, operator.mul: ast.Mult, operator.mod: ast.Mod}
OPERATORS |= {operator.truediv: ast.Div, operator.floordiv: ast.FloorDiv, operator.pow: ast.Pow, pow: ast.Pow}


class Calls(warps.WarpCalls):
    """The calls of a compiler of one function."""

    def x_Call(self, node):
        path = self.program.path(node.func)
        if path is not None:
            return self.cuda_call(node, path)
        value = self.program.resolve(node.func)
        if value is MISSING:
            self._unknown(node)
        if any(isinstance(a, ast.Starred) for a in node.args):
            self.refuse(node, "a starred argument is not possible in a kernel")
        if is_callable_on_device(value):
            return self.device_call(node, value)
        if node.keywords:
            self.refuse(node, f"{ast.unparse(node.func)}() takes no keywords in a kernel")
        dtype = cast_type(value)
        if dtype is not None:
            return self._cast(node, value, dtype)
        return self._function(node, value)

    def _unknown(self, node):
        f = node.func
        if isinstance(f, ast.Attribute):
            self.refuse(node, f"{ast.unparse(f)}() is not possible in a kernel: no methods, no unknown modules")
        name = ast.unparse(f)
        self.refuse(
            node,
            f"{name} is a variable, not a function"
            if name in self.program.locals
            else f"the name {name} is not defined",
        )

    def _cast(self, node, value, dtype):
        args = [self.value(a) for a in node.args]
        if len(args) > 1:
            self.refuse(node, f"{ast.unparse(node.func)}() takes one number")
        if not args:
            zero = dtype.type(0)
            return lambda f, m: zero
        a = args[0]
        if value is float:
            return lambda f, m: keep_float(a(f, m))
        return lambda f, m: a(f, m).astype(dtype)

    def _function(self, node, value):
        name = ast.unparse(node.func)
        if value is len:
            return self._len(node)
        if value is print:
            for a in node.args:
                if not isinstance(a, ast.Constant):
                    self.expr(a)
            return lambda f, m: None
        args = [self.value(a) for a in node.args]
        special = self._special(node, value, args)
        if special is not None:
            return special
        try:
            known = value in arith.MATH
        except TypeError:
            known = False
        if known:
            count = 2 if value in TWO else 1
            if len(args) != count:
                self.refuse(node, f"{name}() takes {count} number{'s' * (count > 1)}, got {len(args)}")
            ufunc = arith.MATH[value]
            if count == 1:
                return lambda f, m: one_math(ufunc, args[0](f, m))
            return lambda f, m: arith.math_call(value, [a(f, m) for a in args])
        module = getattr(value, "__module__", None) or type(value).__module__
        if module.split(".")[0] == "numpy" or isinstance(value, np.ufunc):
            self.refuse(
                node, f"{name}() is NumPy's and works on whole arrays", "use the math module, one element a thread"
            )
        if getattr(value, "__code__", None) is not None:
            self.refuse(node, f"{name} is a plain Python function", "put @device above it")
        self.refuse(node, f"{name}() is not possible in a kernel")

    def _len(self, node):
        a, program = self.expr(node.args[0]), self.program

        def run(f, m):
            v = a(f, m)
            if isinstance(v, tuple):
                return np.int64(len(v))
            if not isinstance(v, Array):
                raise Refused(program, node, f"len() of {ast.unparse(node.args[0])}, which is no array")
            n = v.shape[0]
            return n if isinstance(n, array) else np.int64(n)

        return run

    def _special(self, node, value, args):
        """Python's own functions of numbers."""
        if value in (min, max):
            op = np.fmin if value is min else np.fmax
            if len(args) < 2:
                self.refuse(node, f"{value.__name__}() takes two numbers or more in a kernel")

            def extreme(f, m):
                out = args[0](f, m)
                for a in args[1:]:
                    out = arith.least(out, a(f, m), op)
                return out

            return extreme
        if len(args) == 1:
            a = args[0]
            if value is abs:
                return lambda f, m: arith.absolute(a(f, m))
            if value is round:
                return lambda f, m: np.rint(a(f, m)).astype(I64)
        if value is divmod and len(args) == 2:
            ops = arith.BINARY[ast.FloorDiv], arith.BINARY[ast.Mod]
            return lambda f, m: tuple(op(args[0](f, m), args[1](f, m)) for op in ops)
        if value in OPERATORS and len(args) == 2:
            op = arith.BINARY[OPERATORS[value]]
            return lambda f, m: op(args[0](f, m), args[1](f, m))
        return None

    # ---- CUDA's --------------------------------------------------------------------------------------------------
    def cuda_call(self, node, path):
        if path in ("grid", "gridsize"):
            return self._grid(node, path)
        if path in ("shared.array", "local.array"):
            return self.declaration(node, path.split(".")[0])
        if path == "const.array_like":
            return self.expr(node.args[0])
        if path.startswith("atomic."):
            return self.atomic(node, path[7:])
        if path.startswith("threadfence"):
            return lambda f, m: f.mc.fence(f, m)
        if path.startswith("syncthreads"):
            self.refuse(node, f"cuda.{path}() must not stand inside and, or, a conditional expression or an index")
        return self.warp_call(node, path)

    def _grid(self, node, path):
        if len(node.args) != 1 or not isinstance(n := self.constant(node.args[0]), int) or n not in (1, 2, 3):
            self.refuse(node, f"cuda.{path}() takes 1, 2 or 3")
        if path == "gridsize":
            return lambda f, m: f.mc.grid_size[0] if n == 1 else f.mc.grid_size[:n]
        return lambda f, m: f.g.at[0] if n == 1 else f.g.at[:n]

    def declaration(self, node, space):
        """cuda.shared.array, cuda.local.array: a constant shape and a type."""
        given = dict(zip(("shape", "dtype"), node.args, strict=False)) | {k.arg: k.value for k in node.keywords}
        if set(given) - {"shape", "dtype", "alignment"} or not {"shape", "dtype"} <= set(given):
            self.refuse(node, f"cuda.{space}.array takes a shape and a dtype")
        shape, dtype = self.constant(given["shape"]), self.constant(given["dtype"])
        shape = shape if isinstance(shape, tuple) else (shape,)
        if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0 for n in shape):
            self.refuse(node, f"cuda.{space}.array has shape {shape}, expected whole numbers")
        shape = tuple(int(n) for n in shape)
        try:
            dtype = cast_type(dtype) or np.dtype(dtype)
        except TypeError:
            self.refuse(node, f"cuda.{space}.array has type {dtype!r:.30}, expected float32, int32, ...")
        if dtype.kind not in "biuf":
            self.refuse(node, f"cuda.{space}.array has type {dtype}, expected float32, int32, ...")
        bytes_ = math.prod(shape) * dtype.itemsize
        key, line, program = id(node), node.lineno, self.program
        if space == "shared":
            return lambda f, m: f.mc.shared_array(f, key, line, shape, dtype)
        if bytes_ > MAX_LOCAL:
            return lambda f, m: f.mc.local_limit(program, line, bytes_)

        self.family.local_bytes += bytes_

        def local(f, m):
            found = f.local.get(key)
            if found is None:
                if bytes_ * f.g.size > MOST_LOCAL:
                    size = f"{bytes_ * f.g.size:,} bytes of local arrays for one block"
                    raise Refused(program, line, size, "use a smaller array, or fewer threads a block")
                found = f.local[key] = memory.local_array("?", shape, dtype, f.g.size)
            return found

        return local

    def atomic(self, node, op):
        from . import atomics

        if op not in atomics.OPERANDS:
            self.refuse(node, f"cuda.atomic.{op} is unknown here")
        index_free = op == "cas_flat"
        op = "cas" if index_free else op
        count = atomics.OPERANDS[op]
        if len(node.args) != count + (1 if op == "compare_and_swap" else 2):
            self.refuse(node, f"cuda.atomic.{op} takes an array, an index and {count} number{'s' * (count != 1)}")
        first = node.args[0]
        of = first
        if op != "compare_and_swap":
            of = ast.copy_location(ast.Subscript(first, node.args[1], ast.Load()), node)
        site = self.site(node, "atomic", of)
        site.line = node.lineno
        base = self.expr(first)
        index = None if op == "compare_and_swap" else self.expr(node.args[1])
        operands = [self.value(a) for a in node.args[-count:]]
        program, used = self.program, not self.discarded

        def run(f, m):
            a = base(f, m)
            if type(a) is not Array:
                raise Refused(program, node, f"{ast.unparse(first)} is no array")
            ix = np.int64(0) if index is None else index(f, m)
            ix = list(ix) if isinstance(ix, tuple) else [ix]
            values = [v(f, m) for v in operands]
            off, mm = memory.locate(f.mc, f, site, a, ix, m)
            return atomics.apply(f.mc, f, site, a, off, mm, "cas" if index is None else op, values, used)

        return run

    # ---- device functions ----------------------------------------------------------------------------------------
    def device_call(self, node, value):
        callee, args = self._callee(node, value)

        def run(f, m):
            if m.n == 0:
                return np.int64(0)
            d = f.mc.enter(f, callee, [a(f, m) for a in args], m)
            callee.code.run(d, m)
            return f.mc.leave(d, f)

        return run

    def waiting_call(self, node, value):
        """A device function with a barrier inside, as a generator."""
        callee, args = self._callee(node, value)

        def run(f, m):
            d = f.mc.enter(f, callee, [a(f, m) for a in args], m)
            yield from callee.code.steps(d, m)
            return f.mc.leave(d, f)

        return run

    def _callee(self, node, value):
        callee = self.family.get(value)
        if node.keywords or len(node.args) != len(callee.params):
            self.refuse(node, f"{callee.name}() takes {len(callee.params)} arguments, got {len(node.args)}")
        self.family.compile(callee)
        return callee, [self.expr(a) for a in node.args]


TWO = {math.pow, math.atan2, math.hypot, math.fmod, math.copysign}


def keep_float(v):
    return v if v.dtype.kind == "f" else v.astype(F64)


def one_math(ufunc, x):
    return ufunc(x.astype(F64)) if x.dtype.kind in "biu" else ufunc(x)


def cast_type(value):
    """The dtype that a call of `value` converts to, None if it converts nothing."""
    if isinstance(value, (types.Integer, types.Float, types.Boolean)):
        return np.dtype("bool" if isinstance(value, types.Boolean) else value.name)
    if isinstance(value, type) and issubclass(value, (np.number, np.bool_)):
        return np.dtype(value)
    return CASTS.get(value) if isinstance(value, type) else None
