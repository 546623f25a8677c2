"""From a kernel's source to its normal form (`Program`), refusing what the CPU target cannot run."""

import ast
import copy
import math
import types as pytypes

import numpy as np
from numba.core import types

from .program import Array, Program
from .rewrite import Rewriter, store_copy
from .stubs import cuda_path
from .syntax import UNSUPPORTED, assign, assigned, has, load, names, place, stmt, store, walk
from .trees import write_out
from .webs import split_webs

_BUILTINS = (abs, min, max, int, float, bool, round, len)


def normalise(source, block):
    """The Program of a kernel for one block shape; raises KernelRefused."""
    return Normaliser(source, block).run()


class Normaliser:
    """One walk over a kernel's statements."""

    def __init__(self, source, block, what="kernel"):
        tree = source.tree
        a = tree.args
        if a.vararg or a.kwarg or a.kwonlyargs or a.defaults or a.posonlyargs:
            source.refuse(tree, f"a {what} takes plain positional parameters, without defaults or stars")
        self.source, self.tree = source, tree
        self.program = Program(source, tuple(block), [x.arg for x in a.args], what)
        self.locals = assigned(tree.body) | set(self.program.params)
        self.counter = 0
        self.array_lines = {}
        for name in self.locals:
            if name.startswith("_"):
                source.refuse(tree, f"the name '{name}' starts with an underscore, which is kept for generated code")

    def run(self):
        p = self.program
        body = self.statements(self.tree.body)
        p.body = write_out(self.without_returns(body), self.constant)
        p.check_shared()
        split_webs(p)
        return p

    # ---- services for the expression rewriter
    def path(self, node):
        """The dotted name of one of CUDA's intrinsics, else None."""
        return cuda_path(node, self.source.lookup, self.locals)

    def fresh(self, prefix):
        self.counter += 1
        name = f"{prefix}{self.counter}"
        self.locals.add(name)
        return name

    def cuda(self):
        """Numba's CUDA module."""
        from numba import cuda

        return cuda

    def resolve(self, node):
        """The value of a name or dotted name that is not local to the kernel, else None."""
        if isinstance(node, ast.Name):
            return None if node.id in self.locals else self.source.lookup(node.id)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            return getattr(base, node.attr, None) if isinstance(base, pytypes.ModuleType) else None
        return None

    def constant(self, node):
        """The value of an expression made of constants, else None."""
        if names(node) & self.locals:
            return None
        text = ast.Expression(ast.fix_missing_locations(copy.deepcopy(node)))
        try:
            return eval(compile(text, "<constant>", "eval"), self.source.env())
        except Exception:
            return None

    def use_device(self, device, node):
        """The name under which generated code calls a device function."""
        for name, known in self.program.devices.items():
            if known is device:
                return name
        name = f"{device.name}__d{len(self.program.devices)}"
        self.program.devices[name] = device
        return name

    def check_callable(self, node, value):
        text = ast.unparse(node.func)
        if isinstance(value, types.Type) or (isinstance(value, type) and issubclass(value, np.generic)):
            return
        if value in _BUILTINS or (value is not None and getattr(math, getattr(value, "__name__", ""), None) is value):
            return
        if value is None:
            known = isinstance(node.func, ast.Name) and node.func.id not in self.locals
            self.program.refuse(
                node, f"name '{text}' is not defined" if known else f"{text}(...) is not supported here"
            )
        if isinstance(value, pytypes.FunctionType):
            self.program.refuse(
                node, f"{text} is a plain Python function; decorate it with @device to call it in a kernel"
            )
        self.program.refuse(
            node, f"{text}(...) is not supported by the cpu target; kernels use math, abs, min, max, casts"
        )

    # ---- statements
    def statements(self, body):
        out = []
        for st in body:
            pre = []
            new = self.statement(st, pre)
            for node in pre + new:
                place_head(node, st)
            out += pre + new
        return out

    def statement(self, st, pre):
        kind = type(st).__name__
        if kind in UNSUPPORTED:
            self.program.refuse(st, f"{UNSUPPORTED[kind]} is not supported in a kernel")
        handler = getattr(self, f"on_{kind.lower()}", None)
        if handler is None:
            self.program.refuse(st, f"{kind} is not supported in a kernel")
        return handler(st, pre)

    def on_pass(self, st, pre):
        return [st]

    def on_return(self, st, pre):
        if st.value is not None and not (isinstance(st.value, ast.Constant) and st.value.value is None):
            self.program.refuse(st, "a kernel returns nothing; store the result in an array")
        return [st]

    def on_break(self, st, pre):
        return [st]

    on_continue = on_break

    def on_expr(self, st, pre):
        if isinstance(st.value, ast.Constant):
            return []
        path = self.path(st.value.func) if isinstance(st.value, ast.Call) else None
        if path in ("syncthreads", "syncwarp"):
            return [stmt("_sync()" if path == "syncthreads" else "_warp()")]
        value = self.rewrite(st.value, pre)
        return [ast.Expr(value)] if isinstance(value, ast.Call) and value.func.id in self.program.devices else []

    def rewrite(self, node, pre):
        return Rewriter(self, pre).visit(copy.deepcopy(node))

    def on_assign(self, st, pre):
        path = self.path(st.value.func) if isinstance(st.value, ast.Call) else None
        if path in ("shared.array", "local.array"):
            return self.declare(st, path)
        value = self.rewrite(st.value, pre)
        if len(st.targets) > 1:
            temp = self.fresh("_t")
            return [assign(temp, value)] + [self.one(t, load(temp), pre) for t in st.targets]
        target = st.targets[0]
        if not isinstance(target, (ast.Tuple, ast.List)):
            return [self.one(target, value, pre)]
        temps = [self.fresh("_t") for _ in target.elts]
        if isinstance(value, ast.Tuple):
            if len(value.elts) != len(temps):
                self.program.refuse(st, f"{len(value.elts)} values for {len(temps)} names")
            if not names(value) & names(target) and not has(target, ast.Subscript):
                return [self.one(t, v, pre) for t, v in zip(target.elts, value.elts, strict=True)]
            parts = value.elts
        else:
            whole = self.fresh("_t")
            pre.append(place(assign(whole, value), st))
            parts = [ast.Subscript(load(whole), ast.Constant(k), ast.Load()) for k in range(len(temps))]
        first = [assign(t, v) for t, v in zip(temps, parts, strict=True)]
        return first + [self.one(t, load(v), pre) for t, v in zip(target.elts, temps, strict=True)]

    def one(self, target, value, pre):
        if isinstance(target, ast.Name):
            if target.id in self.program.shared or target.id in self.program.local:
                self.program.refuse(
                    target, f"'{target.id}' is an array; index it instead of giving the name another meaning"
                )
            return ast.Assign([store(target.id)], value)
        if isinstance(target, ast.Subscript):
            return ast.Assign([self.rewrite(target, pre)], value)
        self.program.refuse(target, f"cannot assign to {ast.unparse(target)} in a kernel")

    def on_annassign(self, st, pre):
        if st.value is None:
            return []
        return self.on_assign(ast.copy_location(ast.Assign([st.target], st.value), st), pre)

    def on_augassign(self, st, pre):
        value = self.rewrite(st.value, pre)
        read = copy.deepcopy(st.target)
        read.ctx = ast.Load()
        read = self.rewrite(read, pre)
        if isinstance(st.target, ast.Name):
            return [self.one(st.target, ast.BinOp(read, st.op, value), pre)]
        if not isinstance(st.target, ast.Subscript):
            self.program.refuse(st, f"cannot assign to {ast.unparse(st.target)} in a kernel")
        return [ast.Assign([store_copy(read)], ast.BinOp(read, st.op, value))]

    def on_if(self, st, pre):
        test = self.rewrite(st.test, pre)
        return [ast.copy_location(ast.If(test, self.statements(st.body), self.statements(st.orelse)), st)]

    def on_while(self, st, pre):
        if st.orelse:
            self.program.refuse(st, "a loop's else is not supported in a kernel")
        return [ast.copy_location(ast.While(self.rewrite(st.test, None), self.statements(st.body), []), st)]

    def on_for(self, st, pre):
        it = st.iter
        plain = isinstance(it, ast.Call) and isinstance(it.func, ast.Name) and self.resolve(it.func) is range
        if not plain or it.keywords or not isinstance(st.target, ast.Name):
            self.program.refuse(st, "only `for name in range(...)` loops are supported in a kernel")
        if st.orelse:
            self.program.refuse(st, "a loop's else is not supported in a kernel")
        args = [self.rewrite(a, pre) for a in it.args]
        if not 1 <= len(args) <= 3:
            self.program.refuse(st, "range takes one to three integers")
        head = ast.Call(load("range"), args, [])
        return [ast.copy_location(ast.For(store(st.target.id), head, self.statements(st.body), []), st)]

    # ---- arrays
    def declare(self, st, path):
        p, call = self.program, st.value
        space = path.split(".")[0]
        if len(st.targets) != 1 or not isinstance(st.targets[0], ast.Name):
            p.refuse(st, f"cuda.{path} must be assigned to one plain name")
        name = st.targets[0].id
        if name in p.shared or name in p.local or name in p.params:
            p.refuse(st, f"'{name}' is declared twice; give every array a name of its own")
        if space == "shared" and self.array_lines.setdefault(st.lineno, name) != name:
            p.refuse(st, "two shared arrays on one line; Numba's simulator would make them one: use a line each")
        given = dict(zip(("shape", "dtype"), call.args, strict=False)) | {k.arg: k.value for k in call.keywords}
        if "shape" not in given or "dtype" not in given:
            p.refuse(st, f"cuda.{path} needs a shape and a dtype")
        shape, dtype = self.constant(given["shape"]), self.constant(given["dtype"])
        whole = shape if isinstance(shape, tuple) else (shape,)
        if not all(isinstance(n, (int, np.integer)) for n in whole):
            p.refuse(st, f"the shape of cuda.{path} must be a constant, not {ast.unparse(given['shape'])}")
        if space == "shared" and 0 in whole:
            p.refuse(st, "dynamic shared memory is not supported by the cpu target; give the array a constant size")
        if any(n < 1 for n in whole):
            p.refuse(st, f"the shape of cuda.{path} must be positive, not {tuple(int(n) for n in whole)}")
        try:
            dtype = np.dtype(dtype.name if isinstance(dtype, types.Type) else dtype)
        except (TypeError, AttributeError):
            p.refuse(st, f"the dtype of cuda.{path} must be a Numba or NumPy type")
        arrays = p.shared if space == "shared" else p.local
        arrays[name] = Array(tuple(int(n) for n in whole), dtype, st)
        return []

    # ---- early return: `if c: return` followed by the rest becomes `if not c: rest`
    def without_returns(self, body):
        out = []
        for k, st in enumerate(body):
            if isinstance(st, ast.Return):
                return out
            if not has(st, ast.Return):
                out.append(st)
                continue
            found = [n for n in walk(st) if isinstance(n, ast.Return)]
            if not isinstance(st, ast.If):
                self.program.refuse(found[0], "return inside a loop is not supported; use break, or a condition")
            return out + [self.guarded(st, body[k + 1 :], found)]
        return out

    def guarded(self, st, rest, found):
        ends = [b for b in (st.body, st.orelse) if b and isinstance(b[-1], ast.Return)]
        if len(found) != len(ends):
            self.program.refuse(found[0], "return is supported only at the end of a top-level if")
        rest = self.without_returns(rest)
        arms = [b[:-1] if b and isinstance(b[-1], ast.Return) else b + rest for b in (st.body, st.orelse)]
        if not arms[0]:
            new = ast.If(ast.UnaryOp(ast.Not(), st.test), arms[1] or [ast.Pass()], [])
        else:
            new = ast.If(st.test, arms[0], arms[1])
        new.early = found[0].lineno
        return place_head(new, st)


def place_head(node, origin):
    """Give a new statement the line of `origin`, the statements inside it left alone."""
    if isinstance(node, (ast.If, ast.While, ast.For)):
        ast.copy_location(node, origin)
        place(node.iter if isinstance(node, ast.For) else node.test, origin)
        return node
    return place(node, origin)
