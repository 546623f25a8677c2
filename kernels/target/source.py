"""What a kernel is made of: its text as it was when it was defined, and the values its free names stand for.

The text is taken at the moment of decoration, so a file edited later cannot disagree with the function in memory. Two
kernels of one name, cells run twice and edited modules are told apart by text and values, never by name.
"""

import ast
import builtins
import dis
import inspect
import linecache
import math
import operator
import sys
import textwrap
import types as pytypes

import numpy as np
from numba.core import types

from .errors import KernelRefused

_PLAIN = (bool, int, float, str, type(None))
_KNOWN_MODULES = ("numba", "numpy", "math", "operator", "builtins")


class Source:
    """A function's text, syntax tree and surroundings.

    `text` is dedented; `tree` carries the line numbers of the file. `lookup(name)` finds a global, closure or
    built-in value.
    """

    def __init__(self, fn, text=None):
        self.fn = fn
        self.name = fn.__name__
        code = fn.__code__
        self.file, self.first = code.co_filename, code.co_firstlineno
        self.text = self._read() if text is None else text
        self._tree = None
        self._chains = None
        self._seen = self._values = None

    @classmethod
    def bare(cls, fn):
        """A Source for its outside values alone."""
        return cls(fn, "")

    def _read(self):
        linecache.checkcache(self.file)
        lines = linecache.getlines(self.file, self.fn.__globals__)
        if not lines:
            raise KernelRefused(
                f"kernel {self.name}: its source text is not to be found; write it in a file or a notebook cell"
            )
        return textwrap.dedent("".join(inspect.getblock(lines[self.first - 1 :])))

    @property
    def tree(self):
        if self._tree is None:
            module = ast.parse(self.text)
            ast.increment_lineno(module, self.first - 1)
            self._tree = module.body[0]
            if not isinstance(self._tree, ast.FunctionDef):
                raise KernelRefused(f"{self.where(self._tree)}: kernel {self.name}: a kernel is a def, not a lambda")
        return self._tree

    @property
    def params(self):
        return list(self.fn.__code__.co_varnames[: self.fn.__code__.co_argcount])

    def where(self, node_or_line):
        """File and line of a node, as an error message shows them."""
        line = node_or_line if isinstance(node_or_line, int) else getattr(node_or_line, "lineno", self.first)
        cell = cell_of(self.file)
        return f"{self.file}:{line}" if cell is None else f"{cell}, line {line}"

    def refuse(self, node, message, what="kernel"):
        raise KernelRefused(f"{self.where(node)}: {what} {self.name}: {message}")

    def lookup(self, name, default=None):
        """The value a free name has now."""
        code = self.fn.__code__
        if name in code.co_freevars:
            try:
                return self.fn.__closure__[code.co_freevars.index(name)].cell_contents
            except ValueError:
                return default
        if name in self.fn.__globals__:
            return self.fn.__globals__[name]
        return getattr(builtins, name, default)

    def env(self):
        """Every value visible to the kernel, as a dictionary for eval."""
        found = dict(self.fn.__globals__)
        for name in self.fn.__code__.co_freevars:
            found[name] = self.lookup(name)
        return found

    def chains(self):
        """The free names the code reads, each with the attributes read from it: (('cuda', 'threadIdx', 'x'), ...)."""
        if self._chains is None:
            found, current = [], None
            for ins in dis.get_instructions(self.fn.__code__):
                if ins.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
                    current = [ins.argval]
                    found.append(current)
                elif ins.opname in ("LOAD_ATTR", "LOAD_METHOD") and current is not None:
                    current.append(ins.argval)
                elif ins.opname not in ("CACHE", "PUSH_NULL", "PRECALL", "EXTENDED_ARG"):
                    current = None
            self._chains = tuple(sorted({tuple(c) for c in found}))
        return self._chains

    def values(self):
        """The values that the free names stand for now, in a hashable, printable form."""
        chains = self.chains()
        found = [self.lookup(chain[0], _MISSING) for chain in chains]
        if self._seen is not None and all(map(operator.is_, found, self._seen)):
            return self._values
        values = tuple(self._value(chain, value) for chain, value in zip(chains, found, strict=True))
        lasting = not any(_may_change(chain, value) for chain, value in zip(chains, found, strict=True))
        self._seen, self._values = (found, values) if lasting else (None, None)
        return values

    def _value(self, chain, value):
        for attribute in chain[1:]:
            if not isinstance(value, pytypes.ModuleType) or value.__name__.split(".")[0] in _KNOWN_MODULES:
                break
            value = getattr(value, attribute, _MISSING)
        return ".".join(chain), stable(value)


def cell_of(file):
    """ "cell 7" for the file name of a notebook's seventh execution, "notebook cell" without a number, else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(file)
    if number is not None:
        return f"cell {number}"
    return "notebook cell" if "ipykernel_" in file or file.startswith("<ipython-input") else None


_MISSING = object()


def _may_change(chain, value):
    """True for a value that may mean something else later although it is the same object."""
    if isinstance(value, pytypes.ModuleType):
        return len(chain) > 1 and value.__name__.split(".")[0] not in _KNOWN_MODULES
    return hasattr(value, "digest_parts")


def stable(value):
    """A hashable stand-in for a value used in a kernel, the same in every process."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, _PLAIN):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, np.generic):
        return f"{value.dtype} {value.item()!r}"
    if isinstance(value, tuple):
        return tuple(stable(v) for v in value)
    if isinstance(value, types.Type):
        return f"type {value}"
    if hasattr(value, "digest_parts"):
        return value.digest_parts()
    if isinstance(value, pytypes.ModuleType):
        return f"module {value.__name__}"
    name = getattr(value, "__qualname__", None)
    if name is not None:
        return f"{getattr(value, '__module__', '')}.{name}"
    return "undefined" if value is _MISSING else f"a {type(value).__name__}"


def is_constant(value):
    """True for the values a kernel may use as a constant."""
    if isinstance(value, tuple):
        return all(is_constant(v) for v in value)
    return isinstance(value, (bool, int, float, np.generic, types.Type)) or (
        isinstance(value, type) and issubclass(value, np.generic)
    )


MATH = {math.exp: "_exp", math.tanh: "_tanh", math.log: "_log", math.sqrt: "_sqrt"}
MATH.update({math.floor: "_floor", math.ceil: "_ceil", math.trunc: "_trunc"})
