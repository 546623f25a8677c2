"""What a learner hands in: a kernel, a function, a text, a file, or nothing yet."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from andrea_lab.lesson import origin

_IMPORTS = ("math", "numpy", "numba", "numba.cuda", "kernels.target")
_DECORATORS = ("kernel", "device", "cuda.jit", "cuda.jit(device=True)", "cuda.jit()")
_CONSTANT = (ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.Attribute, ast.Call)
_SUMS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.USub, ast.UAdd)


class TurnedDown(Exception):
    """An attempt that goes no further: the reason, and the lines that tell of it."""

    def __init__(self, reason: str, *lines: str):
        super().__init__(reason)
        self.reason, self.lines = reason, lines


class Attempt:
    """A learner's kernel, read: `given` to be run, `fn` the plain function, `tree` its syntax tree."""

    def __init__(self, given: Any):
        if isinstance(given, Path):
            given = _read(given)
        if isinstance(given, str):
            given = from_text(given)
        try:
            self.fn = origin.plain(given)
            self.tree = origin.tree_of(given)
        except (origin.OriginError, SyntaxError) as error:
            raise TurnedDown("not a kernel", str(error)) from None
        self.given = given
        self.parameters = [a.arg for a in self.tree.args.args]

    def constants(self) -> dict[str, Any]:
        """The numbers from outside that the kernel uses."""
        return {
            n: v for n, v in origin.free(self.given).items() if isinstance(v, int | float) and not isinstance(v, bool)
        }

    def formed(self, form: dict[str, int]) -> Any:
        """The kernel with other values for those of its constants that are in `form`."""
        changed = {name: form[name] for name in form if name in origin.free(self.given)}
        return origin.variant(self.given, constants=changed) if changed else self.given

    def packed(self) -> dict[str, Any]:
        """As `origin.packed`. Raises TurnedDown for an outside value that a kernel cannot use."""
        try:
            return origin.packed(self.given)
        except origin.OriginError as error:
            raise TurnedDown("outside value", str(error)) from None


def blank(given: Any, skeleton: str | None) -> bool:
    """True for what is not attempted yet: nothing, an empty body, or the skeleton as it was."""
    if given is None or given is ...:
        return True
    if isinstance(given, str) and not given.strip():
        return True
    try:
        tree = Attempt(given).tree
    except TurnedDown:
        return False
    if all(_is_nothing(st) for st in tree.body):
        return True
    return skeleton is not None and _same(tree, ast.parse(skeleton).body[0])


def unfinished(tree: ast.FunctionDef) -> int | None:
    """The line of a `...` that still stands where a statement should be."""
    lines = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Expr) and _is_dots(n.value)]
    return min(lines, default=None)


def _is_dots(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _is_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _same(a: ast.FunctionDef, b: ast.FunctionDef) -> bool:
    """Whether two functions have one body, whatever they are called and say of themselves."""

    def dump(tree: ast.FunctionDef) -> Sequence[str]:
        body = tree.body[1:] if ast.get_docstring(tree) is not None else tree.body
        return [ast.dump(st) for st in body]

    return dump(a) == dump(b)


# ---------------------------------------------------------------- text


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TurnedDown("not a kernel", f"{path.name}: {getattr(error, 'strerror', None) or 'not text'}") from None


def from_text(text: str) -> Any:
    """The last kernel a text defines. Beside functions it may hold only imports and constants. Raises TurnedDown."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        shown = (error.text or "").strip()[:60]
        raise TurnedDown(
            "syntax error", f"line {error.lineno}: {error.msg}" + (f": {shown}" if shown else "")
        ) from None
    except ValueError as error:
        raise TurnedDown("syntax error", str(error)) from None
    except (MemoryError, RecursionError):
        raise TurnedDown("syntax error", "an expression is nested too deeply to be read") from None
    functions = [st for st in tree.body if isinstance(st, ast.FunctionDef)]
    if not functions:
        raise TurnedDown("not a kernel", "the text defines no function")
    for statement in tree.body:
        _allow(statement)
    kernels = [f for f in functions if not any("device" in ast.unparse(d) for d in f.decorator_list)]
    name = (kernels or functions)[-1].name
    prelude = "import math\nimport numpy as np\nfrom numba import cuda, float32, int32\n"
    namespace: dict[str, Any] = {"__name__": "andrea_lab.lesson.text"}
    exec(compile(prelude + "from kernels.target import device, kernel\n", "<names>", "exec"), namespace)
    try:
        return origin.defined(text, name, namespace)
    except Exception as error:  # a constant that cannot be computed, a decorator that refuses
        raise TurnedDown("not a kernel", f"{type(error).__name__}: {str(error).splitlines()[0][:90]}") from None


def _allow(statement: ast.stmt) -> None:
    """Refuse what would run code of its own. Raises TurnedDown."""
    if isinstance(statement, ast.FunctionDef):
        other = [d for d in statement.decorator_list if ast.unparse(d) not in _DECORATORS]
        if other or statement.args.defaults or statement.args.kw_defaults:
            what = f"@{ast.unparse(other[0])}" if other else "a default value"
            raise TurnedDown("unsupported", f"line {statement.lineno}: {what} on {statement.name}")
        return
    if isinstance(statement, ast.Import) and all(n.name in _IMPORTS for n in statement.names):
        return
    if isinstance(statement, ast.ImportFrom) and statement.module in _IMPORTS and not statement.level:
        return
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return
    if isinstance(statement, ast.Assign) and _is_constant(statement.value):
        return
    first = ast.unparse(statement).splitlines()[0][:60]
    message = f"line {statement.lineno}: only imports and constants may stand beside the kernel: {first}"
    raise TurnedDown("unsupported", message)


def _is_constant(value: ast.expr) -> bool:
    """Numbers, sums and products of them, and casts such as float32(0.5)."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] not in ("float32", "int32"):
            return False
        if not isinstance(node, (*_CONSTANT, *_SUMS)):
            return False
        if isinstance(node, ast.Constant) and not isinstance(node.value, int | float):
            return False
    return True
