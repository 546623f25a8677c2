"""Expressions of a kernel, rewritten: CUDA's names become plain integers, calls and temporaries."""

import ast
import copy
from collections.abc import Hashable

from .source import MATH, is_constant
from .syntax import BLOCK, GRID, THREAD, assign, call, expr, load, place, stmt, store

_AXES = {"threadIdx": THREAD, "blockIdx": BLOCK, "gridDim": GRID}
_REFUSED = {
    ast.Lambda: "a lambda",
    ast.ListComp: "a list comprehension",
    ast.SetComp: "a set comprehension",
    ast.DictComp: "a dict comprehension",
    ast.GeneratorExp: "a generator expression",
    ast.List: "a list",
    ast.Dict: "a dict",
    ast.Set: "a set",
    ast.JoinedStr: "a formatted string",
    ast.NamedExpr: "an assignment inside an expression",
    ast.Starred: "a starred expression",
}
_SHUFFLES = {
    "shfl_down_sync": "{me} + {d} if {me} % 32 + {d} < 32 and {me} + {d} < {n} else {me}",
    "shfl_up_sync": "{me} - {d} if {me} % 32 >= {d} else {me}",
    "shfl_xor_sync": "{me} // 32 * 32 + (({me} ^ {d}) & 31) if {me} // 32 * 32 + (({me} ^ {d}) & 31) < {n} else {me}",
    "shfl_sync": "{me} // 32 * 32 + ({d} & 31) if {me} // 32 * 32 + ({d} & 31) < {n} else {me}",
}
_ATOMICS = {
    "add": "{old} + {v}",
    "sub": "{old} - {v}",
    "and_": "{old} & {v}",
    "or_": "{old} | {v}",
    "xor": "{old} ^ {v}",
    "exch": "{v}",
    "max": "_max({old}, {v})",
    "min": "_min({old}, {v})",
    "inc": "0 if {old} >= {v} else {old} + 1",
    "dec": "{v} if {old} == 0 or {old} > {v} else {old} - 1",
}


class Rewriter(ast.NodeTransformer):
    """Rewrites one expression; statements that must run just before it are appended to `pre`.

    `pre` is None where there is no place for such statements (conditions of loops).
    """

    def __init__(self, normal, pre):
        self.normal, self.program, self.source = normal, normal.program, normal.program.source
        self.pre = pre
        self.conditional = 0

    def refuse(self, node, message):
        self.program.refuse(node, message)

    def generic_visit(self, node):
        if type(node) in _REFUSED:
            self.refuse(node, f"{_REFUSED[type(node)]} is not supported in a kernel; write it out in plain statements")
        return super().generic_visit(node)

    def visit_Constant(self, node):
        if node.value is not None and not isinstance(node.value, (bool, int, float)):
            self.refuse(node, f"a constant of type {type(node.value).__name__} is not supported in a kernel")
        return node

    def visit_Name(self, node):
        if node.id in self.normal.locals:
            return node
        path = self.normal.path(node)
        if path == "":
            self.refuse(node, "the cuda module itself is not a value; name one of its members")
        if path is not None:
            return self._cuda_value(node, path)
        value = self.source.lookup(node.id, self)
        if value is self:
            self.refuse(node, f"name '{node.id}' is not defined")
        if not (is_constant(value) or callable(value) or type(value).__name__ == "module"):
            kind = type(value).__name__
            self.refuse(node, f"'{node.id}' is a {kind} from outside the kernel; pass it as an argument")
        self.program.constants[node.id] = value
        return node

    def visit_Attribute(self, node):
        path = self.normal.path(node)
        return self.generic_visit(node) if path is None else self._cuda_value(node, path)

    def _cuda_value(self, node, path):
        head, _, axis = path.partition(".")
        if path == "laneid":
            return expr(f"({self.program.lane_text()}) % 32")
        if path == "warpsize":
            return ast.Constant(32)
        k = "xyz".find(axis) if len(axis) == 1 else -1
        if k >= 0 and head == "blockDim":
            return ast.Constant(self.program.block[k])
        if k >= 0 and head == "threadIdx" and self.program.block[k] == 1:
            return ast.Constant(0)
        if k >= 0 and head in _AXES:
            return load(_AXES[head][k])
        value = getattr(self.normal.cuda(), path, None)
        if is_constant(value):
            self.program.constants[path] = value
            return load(path)
        self.unsupported(node, path)

    def unsupported(self, node, path):
        hint = {
            "ballot_sync": "use shared memory and a barrier",
            "const.array_like": "pass the array as an argument",
            "threadfence": "a kernel's blocks are independent here; use two launches",
            "cg.this_grid": "use two launches",
        }.get(path, "see the list of what a kernel may use in kernels.target")
        self.refuse(node, f"cuda.{path} is not supported by the cpu target; {hint}")

    def visit_IfExp(self, node):
        self.conditional += 1
        node = self.generic_visit(node)
        self.conditional -= 1
        return node

    visit_BoolOp = visit_IfExp

    def visit_Subscript(self, node):
        self.generic_visit(node)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for k, part in enumerate(parts):
            if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub):
                value = self.normal.constant(part)
                if not isinstance(value, int):
                    self.refuse(node, "a computed negative index is not supported; add the length to it")
                parts[k] = ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)
            elif isinstance(part, ast.Name) and part.id not in self.normal.locals:
                value = self.normal.constant(part)
                if isinstance(value, int) and value < 0:
                    parts[k] = ast.UnaryOp(ast.USub(), ast.Constant(-value))
        if not isinstance(node.slice, ast.Tuple):
            node.slice = parts[0]
        return node

    def visit_Call(self, node):
        if node.keywords:
            self.refuse(node, "keyword arguments are not supported in a kernel's calls; pass them by position")
        path = self.normal.path(node.func)
        if path is None:
            return self._plain_call(node)
        if path in ("grid", "gridsize"):
            return self._grid(node, path)
        if path.startswith("atomic."):
            return self._atomic(node, path[7:])
        if path in _SHUFFLES:
            return self._shuffle(node, path)
        if path == "fma":
            return call("_fma", *[self.visit(a) for a in node.args])
        if is_constant(getattr(self.normal.cuda(), path, None)):
            return self.generic_visit(node)
        if path in ("syncthreads", "syncwarp", "shared.array", "local.array"):
            self.refuse(node, f"cuda.{path} must stand alone, as a statement of its own")
        self.unsupported(node, path)

    def _plain_call(self, node):
        value = self.normal.resolve(node.func)
        if getattr(value, "is_device", False):
            node.func = load(self.normal.use_device(value, node))
            node.args = [self.visit(a) for a in node.args]
            return node
        if isinstance(value, Hashable) and value in MATH:
            return call(MATH[value], *[self.visit(a) for a in node.args])
        if value in (min, max) and len(node.args) >= 2:
            first, *rest = [self.visit(a) for a in node.args]
            for other in rest:
                first = call("_min" if value is min else "_max", first, other)
            return first
        if value is print:
            self.refuse(node, "print is not supported by the cpu target; store the value in an array instead")
        self.normal.check_callable(node, value)
        return self.generic_visit(node)

    def _grid(self, node, path):
        ndim = self.normal.constant(node.args[0]) if len(node.args) == 1 else None
        if ndim not in (1, 2, 3):
            self.refuse(node, f"cuda.{path} takes 1, 2 or 3")
        block = self.program.block
        text = "{b} * {n} + {t}" if path == "grid" else "{g} * {n}"
        threads = [t if n > 1 else 0 for t, n in zip(THREAD, block, strict=True)]
        values = [expr(text.format(b=BLOCK[k], g=GRID[k], t=threads[k], n=block[k])) for k in range(ndim)]
        return values[0] if ndim == 1 else ast.Tuple(values, ast.Load())

    def _prepare(self, node, what):
        if self.pre is None or self.conditional:
            self.refuse(node, f"{what} may stand only in a plain assignment or alone, not in a condition")

    def _emit(self, node, *statements):
        for st in statements:
            place(st, node)
            self.pre.append(st)

    def _atomic(self, node, op):
        self._prepare(node, f"cuda.atomic.{op}")
        args = [self.visit(a) for a in node.args]
        if op == "compare_and_swap" and len(args) == 3:
            op, args = "cas", [args[0], ast.Constant(0), *args[1:]]
        if op not in _ATOMICS and op != "cas" or len(args) != (4 if op == "cas" else 3):
            self.refuse(node, f"cuda.atomic.{op} with {len(args)} arguments is not supported by the cpu target")
        if not isinstance(args[0], ast.Name):
            self.refuse(node, "an atomic works on an array's name and an index, as cuda.atomic.add(a, i, v)")
        if args[0].id not in self.program.shared and args[0].id not in self.program.local:
            self.program.serial = True
        old, new = self.normal.fresh("_old"), self.normal.fresh("_val")
        cell = ast.Subscript(args[0], args[1], ast.Load())
        first = assign(old, cell)
        first.varying = True
        if op == "cas":
            value = ast.IfExp(ast.Compare(load(old), [ast.Eq()], [args[2]]), args[3], load(old))
            extra = []
        else:
            value = expr(_ATOMICS[op].format(old=old, v=new))
            extra = [assign(new, args[2])]
        target = ast.Subscript(copy.deepcopy(args[0]), copy.deepcopy(args[1]), ast.Store())
        self._emit(node, *extra, first, ast.Assign([target], value))
        return load(old)

    def _shuffle(self, node, path):
        self._prepare(node, f"cuda.{path}")
        if len(node.args) != 3:
            self.refuse(node, f"cuda.{path} takes a mask, a value and a lane")
        value, lane = self.visit(node.args[1]), self.visit(node.args[2])
        temp = self.normal.fresh("_sh")
        self.program.lane_temps.add(temp)
        given = assign(temp, value)
        given.varying = True
        self._emit(node, given, stmt("_warp()"))
        d = self.normal.fresh("_d")
        self._emit(node, assign(d, lane))
        text = _SHUFFLES[path].format(me=f"({self.program.lane_text()})", d=d, n=self.program.threads)
        return call("_lane", load(temp), expr(text))


def store_copy(node):
    """The same target, ready to be assigned."""
    node = copy.deepcopy(node)
    if isinstance(node, ast.Name):
        return store(node.id)
    node.ctx = ast.Store()
    return node
