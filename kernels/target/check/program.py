"""A kernel or device function read once: its tree, what its names stand for, where it reads, writes and waits."""

import ast
import inspect
import types as pytypes

from ..errors import KernelRefused
from ..source import Source
from ..stubs import cuda_path
from . import places
from .faults import Refused

MISSING = object()
WARP = ("shfl_", "ballot_sync", "any_sync", "all_sync", "syncwarp", "activemask", "match_", "vote_")
BARRIERS = ("syncthreads", "syncthreads_count", "syncthreads_and", "syncthreads_or")


def plain_function(value):
    """The Python function inside a kernel, a dispatcher or a device function, else None."""
    for _ in range(4):
        if inspect.isfunction(value):
            return value
        inner = getattr(value, "py_func", None) or getattr(value, "fn", None) or getattr(value, "kernel", None)
        if inner is None or inner is value:
            return None
        value = inner
    return None


def kept_source(value):
    """The text that a kernel or device function kept when it was defined, None if it kept none."""
    for holder in (value, getattr(value, "kernel", None)):
        for name in ("_source", "source"):
            found = getattr(holder, "__dict__", {}).get(name)
            if isinstance(found, Source):
                return found
    return None


def is_callable_on_device(value):
    """True for what a kernel may call: @device, cuda.jit(device=True), njit."""
    return getattr(value, "is_device", False) or hasattr(value, "py_func")


class Site:
    """One place in the text that touches an array: line, kind ("read", "write", "atomic"), and the statement it is in.

    `twin` numbers the reads and writes of one statement that name the same element (x[i] += v has a read and a write
    of one twin).
    """

    __slots__ = ("array", "kind", "line", "number", "program", "twin")

    def __init__(self, program, node, kind, number, twin, array):
        self.program, self.line, self.kind, self.number = program, node.lineno, kind, number
        self.twin, self.array = twin, array


class Program:
    """The text of one function and all that is known of it before it runs."""

    def __init__(self, value):
        fn = plain_function(value)
        if fn is None:
            raise Refused(self._nowhere(value), 0, f"{value!r:.60} is not a function")
        self.fn, self.name = fn, fn.__name__
        try:
            self.source = kept_source(value) or Source(fn)
            self.tree = self.source.tree
        except KernelRefused as error:
            raise Refused(self._nowhere(value), 0, str(error)) from None
        except SyntaxError as error:
            raise Refused(self._nowhere(value), 0, f"its text cannot be read: {error.msg}") from None
        self.file = self.source.file
        self.lines = dict(enumerate((t.strip() for t in self.source.text.splitlines()), self.source.first))
        a = self.tree.args
        self.params = [x.arg for x in (*a.posonlyargs, *a.args)]
        if a.vararg or a.kwarg or a.kwonlyargs:
            raise Refused(self, self.tree, f"{self.name} may have plain parameters only, no * or **")
        self.locals = set(self.params) | {
            n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        self.slots = {name: k for k, name in enumerate(sorted(self.locals))}
        self.waits, self.code, self._calls = False, None, None

    def _nowhere(self, value):
        fn = plain_function(value)
        code = getattr(fn, "__code__", None)
        self.file = code.co_filename if code else "?"
        self.name = getattr(fn, "__name__", type(value).__name__)
        self.lines = {}
        return self

    def text(self, line):
        return self.lines.get(line, "")

    def where(self, line):
        return places.where(self.file, line)

    def path(self, node):
        """'atomic.add' for `cuda.atomic.add`, None for what is not CUDA's."""
        return cuda_path(node, self.source.lookup, self.locals)

    def resolve(self, node):
        """What a name or a chain of attributes from outside stands for; MISSING where that is known only in a run."""
        if isinstance(node, ast.Name):
            return MISSING if node.id in self.locals else self.source.lookup(node.id, MISSING)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            if isinstance(base, (pytypes.ModuleType, type)):
                return getattr(base, node.attr, MISSING)
        return MISSING

    def calls(self):
        """(call, CUDA path or None, what is called or MISSING) of every call in the text."""
        if self._calls is None:
            nodes = [n for st in self.tree.body for n in ast.walk(st) if isinstance(n, ast.Call)]
            paths = [self.path(n.func) for n in nodes]
            self._calls = [
                (n, path, MISSING if path else self.resolve(n.func)) for n, path in zip(nodes, paths, strict=True)
            ]
        return self._calls

    def callees(self):
        return [v for _, _, v in self.calls() if v is not MISSING and is_callable_on_device(v)]


def waits(program, node, family):
    """True if a barrier of the block can be met below a node."""
    for n in ast.walk(node):
        if isinstance(n, ast.Call):
            if program.path(n.func) in BARRIERS:
                return True
            value = program.resolve(n.func)
            if value is not MISSING and is_callable_on_device(value) and family.get(value).waits:
                return True
    return False


class Family:
    """A kernel with the device functions it calls, each read once."""

    def __init__(self, kernel):
        self.known, self.stack, self.sites, self.local_bytes = {}, [], [], 0
        self.kernel = self.get(kernel)

    def finish(self):
        """Compile the kernel and all it calls."""
        self.compile(self.kernel)
        self.fences = self.uses(lambda path: path.startswith("threadfence"))
        self._warps = self.uses(lambda path: path.startswith(WARP))
        self.spins, self.written = self._may_spin(), self._written()

    def compile(self, program):
        from .statements import Code

        if program.code is None:
            program.code = Code(program, self)

    def get(self, value):
        """The Program of a function; Refused for one that calls itself."""
        key = id(plain_function(value))
        found = self.known.get(key)
        if found is None:
            found = Program(value)
            if key in self.stack:
                raise Refused(found, found.tree, f"{found.name} calls itself; recursion is not possible in a kernel")
            self.stack.append(key)
            found.waits = waits(found, ast.Module(found.tree.body, []), self)
            for callee in found.callees():
                self.get(callee)
            self.stack.pop()
            self.known[key] = found
        return found

    def uses(self, test):
        """True if a call's CUDA path anywhere in the family passes the test."""
        return any(path and test(path) for p in self.known.values() for _, path, _ in p.calls())

    def has_warp_operations(self):
        return self._warps

    def _may_spin(self):
        """True if a block may wait for another one in a loop; such blocks cannot run in step."""
        if self.uses(lambda path: path in ("atomic.cas", "atomic.compare_and_swap", "atomic.exch")):
            return True
        loops = (n for p in self.known.values() for n in ast.walk(p.tree) if isinstance(n, ast.While))
        return any(isinstance(x, ast.Subscript) for loop in loops for x in ast.walk(loop.test))

    def stores(self, program):
        """True if a device function may write into one of its arguments."""
        for n in ast.walk(program.tree):
            if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store):
                return True
        if any(path and path.startswith("atomic.") for _, path, _ in program.calls()):
            return True
        return any(self.stores(self.get(c)) for c in program.callees())

    def _written(self):
        """Names of the kernel's parameters that may be written into."""
        program, out = self.kernel, set()
        harmless = set()
        for n in ast.walk(program.tree):
            element = isinstance(n, (ast.Subscript, ast.Attribute)) and isinstance(n.ctx, ast.Load)
            if element and isinstance(n.value, ast.Name):
                harmless.add(id(n.value))
        for call, path, value in program.calls():
            ours = path is None and value is not MISSING and is_callable_on_device(value)
            if ours and not self.stores(self.get(value)):
                harmless.update(id(a) for a in call.args)
        for n in ast.walk(program.tree):
            if isinstance(n, ast.Name) and n.id in program.params and id(n) not in harmless:
                out.add(n.id)
        return out


def constant(program, node):
    """The value of an expression of constants: a size, a shape, a type."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    env = {name: program.source.lookup(name, MISSING) for name in names if name not in program.locals}
    try:
        return eval(compile(ast.Expression(node), "<constant>", "eval"), {"__builtins__": {}}, env)
    except Exception:
        raise Refused(
            program,
            node,
            f"the shape and type of an array must be constants, {ast.unparse(node)} is none",
            "use a number, or a global or closure variable that holds one",
        ) from None
