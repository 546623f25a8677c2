"""Kernels and their launches: `k[grid, block](*args)` now, `k[grid, block].bind(*args)` for later."""

import ctypes
import functools
import math
import sys
import weakref

from . import arguments, select, team
from .errors import KernelError, KernelRefused, LaunchError
from .source import Source

_TASKS = 32
_WORTH = 100_000  # operations that are worth a task of their own

_definitions = weakref.WeakValueDictionary()


class Launch:
    """A launch whose arguments are checked and whose call is prepared; it runs nothing by itself.

    `tasks` is a list of (callable, arguments) that any threads may run in any order; `run()` runs them. The arguments
    keep alive whatever they point to. `blas`: the tasks call the BLAS library, whose own threads must rest meanwhile.
    `shared`, if not empty, is a list of (callable, arguments) that does the same work: every thread calls them all, and
    they share the tasks out among themselves in compiled code. The last number of each last argument counts tasks
    taken. `seconds` is how long the last run took, `table`, made when it is first needed, what compiled code must know
    of `shared`.
    """

    __slots__ = ("blas", "name", "seconds", "shared", "table", "tasks")

    def __init__(self, name, tasks, blas=False, shared=()):
        self.name, self.tasks, self.blas, self.shared = name, tasks, blas, list(shared)
        self.seconds, self.table = math.inf, None

    def run(self):
        """Run it now, and wait for it."""
        if len(self.tasks) == 1 and not self.blas:
            function, args = self.tasks[0]
            function(*args)
        else:
            team.run([self])

    def __repr__(self):
        return f"<launch of {self.name}, {len(self.tasks)} task{'s' * (len(self.tasks) != 1)}>"


def cut(blocks, work, serial):
    """Where a grid is cut into tasks: a function of the grid and the work in it, never of the number of threads."""
    count = 1 if serial else max(1, min(blocks, _TASKS, work // _WORTH))
    return [blocks * i // count for i in range(count + 1)]


class Configured:
    """A kernel with its grid and block: call it to launch, or `bind` arguments for a launch later."""

    __slots__ = ("block", "grid", "kernel")

    def __init__(self, kernel, grid, block):
        self.kernel, self.grid, self.block = kernel, grid, block

    def __call__(self, *args):
        self.bind(*args).run()

    def bind(self, *args):
        """Check and prepare a Launch. Raises LaunchError, or KernelRefused for what the CPU target cannot run."""
        kernel = self.kernel.latest()
        if select.current() == "cuda":
            from . import gpu

            return gpu.bind(kernel, self.grid, self.block, args)
        if select.current() == "check":
            from .check import bind

            return Launch(kernel.name, [(bind(kernel, self.grid, self.block), args)])
        source = kernel.source
        key, slots, distinct = arguments.describe(kernel.name, kernel.params, args)
        variant = kernel.variant(source, self.block, key, distinct)
        memory = (ctypes.c_int64 * (4 + len(slots)))(*self.grid, *slots)
        memory.keep = args
        blocks = self.grid[0] * self.grid[1] * self.grid[2]
        threads = self.block[0] * self.block[1] * self.block[2]
        edges = cut(blocks, blocks * threads * variant.weight, variant.serial)
        tasks = [(variant.entry, (lo, hi, memory)) for lo, hi in zip(edges, edges[1:], strict=False)]
        return Launch(kernel.name, tasks, shared=[(variant.share, (len(tasks), blocks, memory))])

    def __repr__(self):
        return f"<kernel {self.kernel.name}[{self.grid}, {self.block}]>"


class Kernel:
    """A CUDA kernel that runs on the chosen target.

    `fn` is the plain function, `name` its name. `k[grid, block](*args)` launches; `k.code(block, *args)` shows what
    the CPU target makes of it. `text`: its source, where that is not to be read from its file.
    """

    def __init__(self, fn, text=None):
        self.fn, self.name = fn, fn.__name__
        functools.update_wrapper(self, fn)
        self.params = list(fn.__code__.co_varnames[: fn.__code__.co_argcount])
        self._variants = {}
        self._on_cuda = None
        self._missing = None
        try:
            self._source = Source(fn, text)
        except KernelRefused as error:
            self._source, self._missing = None, error
        self._birth = _birth(fn)
        if self._birth is not None:
            _definitions[self._birth[:2]] = self

    @property
    def source(self):
        """Text and surroundings of the function; raises KernelRefused if there is no text."""
        if self._source is None:
            raise self._missing
        return self._source

    def latest(self):
        """This kernel, or the one that took its place when its module was loaded again."""
        if self._birth is None:
            return self
        newer = _definitions.get(self._birth[:2], self)
        return self if newer is self or newer._birth[2] is self._birth[2] else newer

    def __getitem__(self, config):
        if not isinstance(config, tuple) or len(config) < 2:
            raise LaunchError(f"kernel {self.name}: launch it as {self.name}[grid, block](...), got [{config!r}]")
        grid, block, *more = config
        if len(more) > 2 or any(more):
            raise LaunchError(
                f"kernel {self.name}: only a grid and a block are supported, no stream or dynamic shared memory"
            )
        return Configured(self, arguments.shape(self.name, "grid", grid), arguments.shape(self.name, "block", block))

    def __call__(self, *args):
        raise LaunchError(f"kernel {self.name}: launch it with a grid and a block, {self.name}[grid, block](...)")

    def __repr__(self):
        return f"<kernel {self.name}({', '.join(self.params)})>"

    def variant(self, source, block, key, distinct):
        """The compiled form for a block shape and a key of `arguments.describe`."""
        full = (block, key, distinct, source.values())
        found = self._variants.get(full)
        if found is None:
            from . import variant

            argtypes, readonly = arguments.types_of(key)
            found = self._variants[full] = variant.get(source, block, argtypes, readonly, distinct)
        return found

    def code(self, block, *args):
        """The Python function that the CPU target generates for a block shape and arguments, as text."""
        from . import variant

        key, _, _ = arguments.describe(self.name, self.params, args)
        types, _ = arguments.types_of(key)
        return variant.generated(self.source, arguments.shape(self.name, "block", block), types)


def _birth(fn):
    """(module, name, spec of the module at definition), None for kernels made by calls or cells."""
    module = sys.modules.get(fn.__module__)
    spec = getattr(module, "__spec__", None)
    if spec is None or "<locals>" in fn.__qualname__:
        return None
    return fn.__module__, fn.__qualname__, spec


def kernel(fn):
    """Decorator: a kernel written as plain Numba CUDA, for whichever target is in use.

    >>> @kernel
    ... def k_double(x, n):
    ...     i = cuda.grid(1)
    ...     if i < n:
    ...         x[i] = float32(2.0) * x[i]
    >>> k_double[(n + 255) // 256, 256](x, n)
    """
    if isinstance(fn, Kernel):
        raise KernelError(f"{fn.name} is a kernel already")
    if not hasattr(fn, "__code__"):
        raise KernelError(f"@kernel decorates a function, got a {type(fn).__name__}")
    return Kernel(fn)
