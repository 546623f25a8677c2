"""A kernel as text and constants, so that another process can build it: what a notebook's cell defines does not pickle.

plain(kernel)            the function under @kernel, a registered kernel, a @cuda.jit dispatcher, or the function itself
packed(kernel) -> dict   its text, place and the values of its free names, as plain JSON values
unpacked(dict) -> fn     the function again, in whatever process
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import math
import textwrap
import types as pytypes
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import cuda, types

from kernels.target import Kernel, device, kernel

_FUTURE = __import__("__future__").annotations.compiler_flag
_MODULES = {"math": math, "numpy": np, "numba": numba, "numba.cuda": cuda}
_made = 0


class OriginError(TypeError):
    """Something that is no kernel, or that a kernel may not use. The message is one line."""


def plain(given: Any) -> Callable:
    """The Python function of a kernel in whatever form. Raises OriginError."""
    if isinstance(given, pytypes.FunctionType):
        return given
    for attribute in ("fn", "py_func"):
        try:
            inner = getattr(given, attribute, None)
        except Exception:  # an object that computes its attributes
            break
        if isinstance(inner, pytypes.FunctionType):
            return inner
    raise OriginError(f"expected a kernel, found {_a(given)}")


def text_of(given: Any) -> str:
    """The dedented source text of a kernel, decorators included, as it was when it was defined. Raises OriginError."""
    fn = plain(given)
    held = getattr(given, "kernel", given)  # a registered kernel holds the one that remembers its text
    source = getattr(held, "source", None)
    if isinstance(getattr(source, "text", None), str):
        return source.text
    linecache.checkcache(fn.__code__.co_filename)
    lines = linecache.getlines(fn.__code__.co_filename, fn.__globals__)
    if not lines:
        raise OriginError(f"{fn.__name__}: its text is not to be found; write it in a file or a notebook cell")
    return textwrap.dedent("".join(inspect.getblock(lines[fn.__code__.co_firstlineno - 1 :])))


def tree_of(given: Any) -> ast.FunctionDef:
    """The syntax tree of a kernel, with the line numbers of its file. Raises OriginError."""
    module = ast.parse(text_of(given))
    if len(module.body) != 1 or not isinstance(module.body[0], ast.FunctionDef):
        raise OriginError("expected a kernel written with def, found something else")
    ast.increment_lineno(module, plain(given).__code__.co_firstlineno - 1)
    return module.body[0]


def defined(text: str, name: str, namespace: dict, first: int = 1, file: str | None = None) -> Any:
    """Run a text in `namespace` and return what it calls `name`; its lines count from `first`.

    They are lines of `file`, by default one of its own, from which they can be read again.
    """
    global _made
    padded = "\n" * (first - 1) + text.rstrip("\n") + "\n"
    if file is None:
        _made += 1
        file = f"<{name} {_made}>"
        linecache.cache[file] = (len(padded), None, padded.splitlines(keepends=True), file)
    exec(compile(padded, file, "exec", flags=_FUTURE, dont_inherit=True), namespace)
    return namespace[name]


def variant(
    given: Any, text: str | None = None, constants: dict[str, Any] | None = None, in_place: bool = False
) -> Any:
    """The kernel that `text`, a changed text of `given`, defines in the same surroundings, some constants changed.

    Its decorators are left out, since they may need names that are not in reach: it becomes a @kernel, or stays plain.
    in_place: a @kernel in any case, whose lines are those of the file or cell of `given`.
    """
    fn = plain(given)
    names = {**fn.__globals__, **_closure(fn), **(constants or {})}
    body, skipped = _bare(text_of(given) if text is None else text)
    first, file = fn.__code__.co_firstlineno + skipped, fn.__code__.co_filename if in_place else None
    made = defined(body, fn.__name__, names, first, file)
    made.__qualname__ = f"variant.<locals>.{fn.__name__}"  # it does not take the place of the original
    if in_place:
        return Kernel(made, body)
    return made if given is fn else kernel(made)


def _bare(text: str) -> tuple[str, int]:
    """The text of a function without its decorators, and how many lines they took."""
    skipped = ast.parse(text).body[0].lineno - 1
    return "\n".join(text.split("\n")[skipped:]), skipped


def packed(given: Any) -> dict[str, Any]:
    """A kernel as plain JSON values. Raises OriginError for a value that no kernel may use."""
    fn = plain(given)
    text, skipped = _bare(text_of(given))
    values = {name: _pack(name, value, fn) for name, value in free(given).items()}
    return {"name": fn.__name__, "text": text, "first": fn.__code__.co_firstlineno + skipped, "values": values}


def unpacked(made: dict[str, Any], wrap: Callable = kernel, constants: dict[str, Any] | None = None) -> Any:
    """What `packed` took apart, built again, some of its constants changed, and wrapped."""
    namespace = {name: _unpack(value) for name, value in made["values"].items()} | (constants or {})
    namespace["__name__"] = "andrea_lab.lesson.unpacked"
    return wrap(defined(made["text"], made["name"], namespace, made["first"]))


def preamble(given: Any) -> str:
    """The lines a file needs above the kernel: its imports, its constants, its device functions."""
    imports, numba_names, rest = [], {"cuda"}, []
    for name, value in _reachable(given).items():
        kind, what, *more = _pack(name, value, plain(given))
        if kind == "module":
            if what != "numba.cuda":
                imports.append(f"import {what}" + (f" as {name}" if name != what else ""))
        elif kind == "numba":
            numba_names.add(what)
        elif kind == "device":
            rest.append("@device\n" + what["text"] + "\n")
        elif kind == "function":
            imports.append(f"from {what} import {more[0]}")
        else:
            shown = f"np.{type(value).__name__}({value.item()!r})" if isinstance(value, np.generic) else repr(value)
            rest.append(f"{name} = {shown}")
            imports += ["import numpy as np"] if shown.startswith("np.") else []
    imports.append(f"from numba import {', '.join(sorted(numba_names))}")
    imports.append(
        "from kernels.target import " + ("device, kernel" if any("@device" in r for r in rest) else "kernel")
    )
    return "\n".join(sorted(set(imports), key=lambda line: (line.startswith("from"), line))) + "\n\n" + "\n".join(rest)


def _reachable(given: Any) -> dict[str, Any]:
    """As `free`, with what the device functions use before them."""
    found: dict[str, Any] = {}
    for name, value in free(given).items():
        found |= _reachable(value) if _is_device(value) else {}
        found[name] = value
    return found


def _closure(fn) -> dict[str, Any]:
    found = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def free(given: Any) -> dict[str, Any]:
    """The names from outside that a kernel uses, with their values now; unknown ones and built-ins are left out."""
    fn = plain(given)
    read = {n.id for n in ast.walk(ast.parse(text_of(given))) if isinstance(n, ast.Name)}
    outside = {**fn.__globals__, **_closure(fn)}
    used = (read & set(fn.__code__.co_names)) | set(fn.__code__.co_freevars)
    return {name: outside[name] for name in sorted(used) if name in outside}


def _pack(name: str, value: Any, user) -> list:
    if value is None or isinstance(value, bool | int | str):
        return ["plain", value]
    if isinstance(value, float):
        return ["float", value.hex()]
    if isinstance(value, np.generic):
        return ["numpy", value.dtype.name, value.tobytes().hex()]
    if isinstance(value, tuple):
        return ["tuple", [_pack(name, item, user) for item in value]]
    if isinstance(value, types.Type):
        return ["numba", str(value)]
    if isinstance(value, type) and issubclass(value, np.generic):
        return ["function", "numpy", value.__name__]
    if isinstance(value, pytypes.ModuleType) and value.__name__ in _MODULES:
        return ["module", value.__name__]
    if getattr(value, "__module__", None) in ("math", "builtins") and hasattr(value, "__name__"):
        return ["function", value.__module__, value.__name__]
    if _is_device(value):
        return ["device", packed(value)]
    raise OriginError(
        f"{user.__name__} uses {name!r}, {_a(value)}; a kernel may use numbers, types and device functions"
    )


def _unpack(value: list) -> Any:
    kind, what, *more = value
    if kind == "float":
        return float.fromhex(what)
    if kind == "numpy":
        return np.frombuffer(bytes.fromhex(more[0]), what)[0]
    if kind == "tuple":
        return tuple(_unpack(item) for item in what)
    if kind == "numba":
        return getattr(types, what)
    if kind == "module":
        return _MODULES[what]
    if kind == "function":
        return getattr({"math": math, "numpy": np, "builtins": builtins}[what], more[0])
    if kind == "device":
        return unpacked(what, device)
    return what


def _is_device(value: Any) -> bool:
    """True for a function under @device or @cuda.jit(device=True)."""
    return (
        getattr(value, "is_device", False)
        or hasattr(value, "py_func")
        and bool(getattr(value, "targetoptions", {}).get("device"))
    )


def _a(value: Any) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}" + (f" {value!r:.30}" if isinstance(value, str | int) else "")
