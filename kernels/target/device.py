"""@device: functions that kernels call, on every target."""

import ast
import copy
import functools

import numba

from .normal import Normaliser
from .rewrite import Rewriter
from .source import Source
from .syntax import call, indices


class Device:
    """A function for use inside kernels: plain Python on the host, inlined into the kernels that call it.

    It computes from its arguments (numbers and arrays) and may return a value; ids, barriers and atomics stay in the
    kernel.
    """

    is_device = True

    def __init__(self, fn):
        self.fn, self.name = fn, fn.__name__
        self.source = Source(fn)
        functools.update_wrapper(self, fn)
        self._made = {}

    def __call__(self, *args):
        return self.fn(*args)

    def __repr__(self):
        return f"<device function {self.name}>"

    def digest_parts(self):
        """What the compiled form depends on: text and outside values, those of called device functions included."""
        return "device", self.source.text, self.source.values()

    def callees(self):
        """The device functions that this one calls."""
        found = [self.source.lookup(chain[0]) for chain in self.source.chains()]
        return [d for d in found if getattr(d, "is_device", False) and d is not self]

    def is_pure(self):
        """True if calling it once or once a thread is the same: it writes into no array."""
        writes = any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for n in ast.walk(self.source.tree))
        return not writes and all(d.is_pure() for d in self.callees())

    def compiled(self):
        """The function for Numba's CPU pipeline, to be inlined."""
        values = self.source.values()
        if values not in self._made:
            self._made[values] = self._compile()
        return self._made[values]

    def _compile(self):
        from .infer import build
        from .intrinsics import OPERATIONS

        normal = Normaliser(self.source, (1, 1, 1), what="device function")
        tree = copy.deepcopy(self.source.tree)
        tree.decorator_list, tree.returns = [], None
        for arg in tree.args.args:
            arg.annotation = None
        tree.body = [_Body(normal).visit(st) for st in tree.body]
        program = normal.program
        namespace = {"__name__": "kernels.target.generated", **OPERATIONS, **program.constants}
        namespace.update({name: d.compiled() for name, d in program.devices.items()})
        return numba.njit(inline="always", error_model="numpy")(build(tree, program, namespace))


class _Body(Rewriter):
    """A device function's body: the same expressions as a kernel's, without anything of CUDA's."""

    def __init__(self, normal):
        super().__init__(normal, None)

    def _cuda_value(self, node, path):
        self.refuse(node, f"cuda.{path} belongs in the kernel; pass its value to the device function")

    def visit_Call(self, node):
        path = self.normal.path(node.func)
        if path is not None and path != "fma":
            self._cuda_value(node, path)
        if path is None and self.normal.resolve(node.func) is range:
            node.args = [self.visit(a) for a in node.args]
            return node
        return super().visit_Call(node)

    def visit_Expr(self, node):
        return ast.copy_location(ast.Pass(), node) if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Subscript(self, node):
        super().visit_Subscript(node)
        if isinstance(node.value, ast.Attribute):
            return node
        ix = [i if isinstance(i, (ast.Slice, ast.Constant, ast.UnaryOp)) else call("_u", i) for i in indices(node)]
        node.slice = ix[0] if len(ix) == 1 else ast.Tuple(ix, ast.Load())
        return node


def device(fn):
    """Decorator: a function that kernels may call.

    >>> @device
    ... def square(x):
    ...     return x * x
    """
    return Device(fn)
