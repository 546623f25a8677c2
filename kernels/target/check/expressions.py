"""Expressions compiled to functions of (frame, mask): one value a lane, or one for all lanes."""

import ast
import types as pytypes

import numpy as np

from ..syntax import indices
from . import arith, memory
from .arith import F64, array, is_number, lift
from .faults import Refused
from .masks import split
from .memory import Array
from .program import MISSING, Site, constant

ATTRIBUTES = ("shape", "size", "ndim", "dtype", "itemsize", "nbytes", "strides")
AXES = {"x": 0, "y": 1, "z": 2}


class Expressions:
    """The expression half of a compiler of one function; `sure` holds the names that every path has set so far."""

    def __init__(self, program, family):
        self.program, self.family = program, family
        self.sure = set(program.params)
        self.twins, self.statement = {}, 0

    def refuse(self, node, message, hint=""):
        raise Refused(self.program, node, message, hint)

    def site(self, node, kind, of=None):
        """A new Site for an access; `of` is the element it names, for its twin."""
        of = node if of is None else of
        text = ast.unparse(of)
        twin = self.twins.setdefault((self.statement, text), len(self.family.sites))
        site = Site(self.program, node, kind, len(self.family.sites), (self.program.name, twin), text)
        self.family.sites.append(site)
        return site

    def expr(self, node):
        """A function (frame, mask) -> value."""
        method = getattr(self, "x_" + type(node).__name__, None)
        if method is None:
            what = type(node).__name__
            words = {"List": "a list", "Dict": "a dict", "Set": "a set", "JoinedStr": "a string", "Lambda": "a lambda"}
            words |= {"ListComp": "a list comprehension", "GeneratorExp": "a generator", "DictComp": "a dict"}
            words |= {"Starred": "a starred argument", "NamedExpr": ":=", "Yield": "yield", "Await": "await"}
            self.refuse(node, f"{words.get(what, what)} is not possible in a kernel", "use numbers and arrays")
        return method(node)

    def value(self, node):
        """As expr, but the result must be a number."""
        run, program, text = self.expr(node), self.program, ast.unparse(node)

        def number(f, m):
            v = run(f, m)
            if not is_number(v):
                raise Refused(program, node, f"{text:.40} is {kind_of(v)}, a number is needed here")
            return v

        return run if isinstance(node, (ast.BinOp, ast.Compare, ast.BoolOp)) else number

    def x_Constant(self, node):
        v = node.value
        if isinstance(v, str):
            self.refuse(node, "a string is not possible in a kernel", "use numbers and arrays")
        if not isinstance(v, (bool, int, float)):
            self.refuse(node, f"{v!r:.20} is not possible in a kernel", "use numbers and arrays")
        if isinstance(v, int) and v >= 2**64:
            self.refuse(node, f"{v} does not fit into 64 bits")
        v = lift(v)
        return lambda f, m: v

    def outside(self, node, v):
        """A value from outside the kernel, as a constant of it."""
        text = ast.unparse(node)
        if v is MISSING:
            self.refuse(node, f"the name {text} is not defined")
        if isinstance(v, np.ndarray):
            return lambda f, m: f.mc.outside(text, v)
        if isinstance(v, (list, dict, set, str)):
            self.refuse(
                node, f"{text} is a {type(v).__name__}; a kernel can use numbers, tuples and arrays from outside"
            )
        v = lift(v)
        return lambda f, m: v

    def x_Name(self, node):
        name = node.id
        if name not in self.program.locals:
            return self.outside(node, self.program.resolve(node))
        slot = self.program.slots[name]
        if name in self.sure:
            return lambda f, m: f.v[slot]
        line = node.lineno

        def checked(f, m):
            held = f.set[slot]
            if held is not m and (held is None or not held.full) and m.n:
                missing = m if held is None else m.where(~held.b)
                if missing.n and (held is None or f.mc.recording):
                    f.mc.unset_name(f, name, line, missing, held is None)
            return f.v[slot] if held is not None else np.int64(0)

        return checked

    def x_Attribute(self, node):
        path = self.program.path(node)
        if path is not None:
            return self.cuda_value(node, path)
        v = self.program.resolve(node)
        if v is not MISSING:
            return self.outside(node, v)
        base_value = self.program.resolve(node.value)
        if isinstance(base_value, pytypes.ModuleType):
            self.refuse(node, f"{base_value.__name__} has no {node.attr}")
        if node.attr not in ATTRIBUTES:
            self.refuse(node, f".{node.attr} is not possible in a kernel", "an array has .shape, .size and .ndim")
        base, attribute, program = self.expr(node.value), node.attr, self.program

        def run(f, m):
            a = base(f, m)
            if not isinstance(a, Array):
                raise Refused(program, node, f"{ast.unparse(node.value)} is no array and has no .{attribute}")
            return attribute_of(a, attribute)

        return run

    def cuda_value(self, node, path):
        head, _, axis = path.partition(".")
        k = AXES.get(axis)
        if head == "threadIdx" and k is not None:
            return lambda f, m: f.g.thread[k]
        if head == "blockIdx" and k is not None:
            return lambda f, m: f.g.block[k]
        if head == "blockDim" and k is not None:
            return lambda f, m: f.mc.block_dim[k]
        if head == "gridDim" and k is not None:
            return lambda f, m: f.mc.grid_dim[k]
        if path == "laneid":
            return lambda f, m: f.g.lane
        if path == "warpsize":
            return lambda f, m: np.int64(32)
        if path in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
            self.refuse(node, f"cuda.{path} is three numbers", f"write cuda.{path}.x, .y or .z")
        self.refuse(node, f"cuda.{path} is unknown here", "is it spelled right?")

    def x_Tuple(self, node):
        parts = [self.expr(e) for e in node.elts]
        return lambda f, m: tuple(p(f, m) for p in parts)

    def x_BinOp(self, node):
        a, b, op = self.value(node.left), self.value(node.right), arith.BINARY.get(type(node.op))
        if op is None:
            self.refuse(node, f"{ast.unparse(node)} is not possible in a kernel")
        if isinstance(node.op, arith.WHOLE_ONLY):
            op = self._whole(node, op)
        return lambda f, m: op(a(f, m), b(f, m))

    def _whole(self, node, op):
        program = self.program

        def run(a, b):
            if a.dtype.kind == "f" or b.dtype.kind == "f":
                raise Refused(program, node, f"{ast.unparse(node)}: bits belong to whole numbers, not to floats")
            return op(a, b)

        return run

    def x_UnaryOp(self, node):
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            v = node.operand.value
            if isinstance(v, (int, float)) and not isinstance(v, bool):
                v = lift(-v)
                return lambda f, m: v
        a = self.value(node.operand)
        if isinstance(node.op, ast.Not):

            def no(f, m):
                t = arith.truth(a(f, m))
                return ~t if type(t) is array else np.bool_(not t)

            return no
        if isinstance(node.op, ast.UAdd):
            return lambda f, m: arith.wide(a(f, m))
        op = arith.negate if isinstance(node.op, ast.USub) else self._invert(node)
        return lambda f, m: op(a(f, m))

    def _invert(self, node):
        program = self.program

        def run(v):
            if v.dtype.kind == "f":
                raise Refused(program, node, f"{ast.unparse(node)}: bits belong to whole numbers, not to floats")
            return arith.invert(v)

        return run

    def x_BoolOp(self, node):
        """and, or: an operand runs in the lanes that need it, so `i > 0 and x[i - 1]` guards its access."""
        parts, wanted = [self.value(v) for v in node.values], isinstance(node.op, ast.And)

        def run(f, m):
            out, rest = arith.truth(parts[0](f, m)), m
            for p in parts[1:]:
                if type(out) is array:
                    rest = m.where(out if wanted else ~out)
                    if rest.n == 0:
                        break
                elif out is not wanted:
                    break
                t = arith.truth(p(f, rest))
                if type(out) is not array and type(t) is not array:
                    out = t
                    continue
                out = out & t if wanted else out | t
            return out if type(out) is array else np.bool_(out)

        return run

    def x_Compare(self, node):
        parts = [self.value(node.left), *(self.value(c) for c in node.comparators)]
        ops = []
        for op in node.ops:
            if type(op) not in arith.COMPARE:
                words = {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}
                self.refuse(node, f"`{words[type(op)]}` is not possible in a kernel", "compare with == or !=")
            ops.append(arith.COMPARE[type(op)])
        line, text = node.lineno, ast.unparse(node)

        def one(f, left, right, op):
            if left.dtype is not right.dtype and (left.dtype is F64 or right.dtype is F64):
                f.mc.wide(f, line, text)
            return op(left, right)

        def run(f, m):
            return one(f, parts[0](f, m), parts[1](f, m), ops[0])

        def chain(f, m):
            """a < b < c: each is read once, c only in the lanes where a < b."""
            left, out, rest = parts[0](f, m), np.True_, m
            for op, p in zip(ops, parts[1:], strict=True):
                right = p(f, rest)
                out = out & one(f, left, right, op)
                rest, left = m.where(arith.truth(out)), right
                if rest.n == 0:
                    break
            return out

        return run if len(ops) == 1 else chain

    def x_IfExp(self, node):
        test, yes, no = self.value(node.test), self.expr(node.body), self.expr(node.orelse)
        program = self.program

        def run(f, m):
            t, e = split(m, arith.truth(test(f, m)))
            a, b = yes(f, t), no(f, e)
            if not (is_number(a) and is_number(b)):
                if t.n == 0 or e.n == 0:
                    return b if t.n == 0 else a
                raise Refused(program, node, "both sides of a conditional expression must be numbers")
            ty = np.result_type(a.dtype, b.dtype)
            if e.n == 0 or t.n == 0:
                return (b if t.n == 0 else a).astype(ty)
            return np.where(t.b, a.astype(ty), b.astype(ty))

        return run

    # ---- elements of arrays ------------------------------------------------------------------------------------
    def address(self, node, site):
        """A function (frame, mask) -> (array, offset, mask) for x[i, j]."""
        base, items = self.expr(node.value), indices(node)
        ix = [self.expr(i) for i in items]
        literal = [k for k, i in enumerate(items) if isinstance(i, ast.UnaryOp) and isinstance(i.operand, ast.Constant)]
        text, program = ast.unparse(node.value), self.program
        one, two = (ix[0], None) if len(ix) == 1 else (None, None)

        def run(f, m):
            a = base(f, m)
            if type(a) is not Array:
                raise Refused(program, node, f"{text} is {kind_of(a)}, no array")
            at = [i(f, m) for i in ix] if one is None else [one(f, m)]
            if type(at[0]) is tuple:
                at = list(at[0])
            off, mm = memory.locate(f.mc, f, site, a, at, m, literal)
            return a, off, mm

        return run

    def x_Subscript(self, node):
        items = indices(node)
        if any(isinstance(i, ast.Slice) for i in items):
            return self._part(node, items)
        site = self.site(node, "read")
        base, ix, program = self.expr(node.value), [self.expr(i) for i in items], self.program
        literal = [k for k, i in enumerate(items) if isinstance(i, ast.UnaryOp) and isinstance(i.operand, ast.Constant)]
        text = ast.unparse(node.value)

        def run(f, m):
            a = base(f, m)
            at = [i(f, m) for i in ix]
            if type(a) is Array:
                if type(at[0]) is tuple:
                    at = list(at[0])
                if len(at) < len(a.shape):
                    return memory.part(f.mc, f, site, a, at, m)
                off, mm = memory.locate(f.mc, f, site, a, at, m, literal)
                return memory.read(f.mc, f, site, a, off, mm)
            if type(a) is tuple and len(at) == 1:
                k = at[0]
                if type(k) is array and k.size and (k == k[0]).all():
                    k = k[0]
                if type(k) is not array and -len(a) <= k < len(a):
                    return a[int(k)]
                raise Refused(program, node, f"{text} has {len(a)} items, the index does not choose one of them")
            raise Refused(program, node, f"{text} is {kind_of(a)}, no array")

        return run

    def _part(self, node, items):
        base, program, site, ix = self.expr(node.value), self.program, self.site(node, "read"), []
        for i in items:
            if isinstance(i, ast.Slice):
                if i.step is not None:
                    self.refuse(node, "a slice with a step is not possible in a kernel here", "index the elements")
                ix.append([self.expr(e) if e is not None else None for e in (i.lower, i.upper)])
            else:
                ix.append(self.expr(i))

        def run(f, m):
            a = base(f, m)
            if type(a) is not Array or len(ix) > len(a.shape):
                raise Refused(program, node, f"{ast.unparse(node)} does not fit {kind_of(a)}")
            at = [tuple(e(f, m) if e is not None else None for e in i) if isinstance(i, list) else i(f, m) for i in ix]
            return memory.part(f.mc, f, site, a, at, m)

        return run

    def constant(self, node):
        return constant(self.program, node)


def attribute_of(a, name):
    sizes = [n if isinstance(n, array) else np.int64(n) for n in a.shape]
    if name == "shape":
        return tuple(sizes)
    if name == "strides":
        return tuple(np.int64(s * a.dtype.itemsize) for s in a.strides)
    if name == "ndim":
        return np.int64(len(sizes))
    if name == "dtype":
        return a.dtype.type
    if name == "itemsize":
        return np.int64(a.dtype.itemsize)
    count = np.int64(1)
    for n in sizes:
        count = count * n
    return count if name == "size" else count * np.int64(a.dtype.itemsize)


def kind_of(v):
    """What a value is, for a message."""
    if isinstance(v, Array):
        return f"an array of {len(v.shape)} dimension{'s' * (len(v.shape) != 1)}"
    if isinstance(v, tuple):
        return f"a tuple of {len(v)}"
    if v is None:
        return "nothing"
    return f"a {v.dtype}" if is_number(v) else f"a {type(v).__name__}"
