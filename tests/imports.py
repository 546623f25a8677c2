"""Reads what Python source imports, without running it."""

import ast
from dataclasses import dataclass
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Import:
    """One imported module, with the names taken from it (empty for a plain `import`)."""

    module: str
    names: tuple[str, ...]
    line: int
    lazy: bool

    def targets(self):
        """The module itself and, as each name may be a submodule, module.name."""
        return (self.module, *(f"{self.module}.{name}" for name in self.names))


def imports(source, package=""):
    """Every import in a source text, those inside functions included. `package` resolves relative ones."""
    tree = ast.parse(source)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    found = []
    for node in ast.walk(tree):
        lazy = id(node) in inside
        if isinstance(node, ast.Import):
            found += [Import(alias.name, (), node.lineno, lazy) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                module = ".".join([*parents, module] if module else parents)
            found.append(Import(module, tuple(alias.name for alias in node.names), node.lineno, lazy))
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__") and node.args:
            name = node.args[0]
            text = name.value if isinstance(name, ast.Constant) else "<computed>"
            found.append(Import(text, (), node.lineno, lazy))
    return sorted(found, key=lambda i: (i.line, i.module))


def called(node):
    """The last name of what a call calls."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def random_uses(source):
    """Lines on which NumPy's or Python's own random numbers are used."""
    lines = [i.line for i in imports(source) if any(t.split(".")[:2] == ["numpy", "random"] for t in i.targets())]
    lines += [i.line for i in imports(source) if i.module.split(".")[0] == "random"]
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "random"
            and getattr(node.value, "id", "") in ("np", "numpy")
        ):
            lines.append(node.lineno)
    return sorted(lines)


def modules(folder):
    """(path, dotted name, package) of every Python file under a top-level package."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        package = ".".join(parts[:-1])
        yield path, package if parts[-1] == "__init__" else ".".join(parts), package


def notebook_source(path):
    """The code of a notebook as one text."""
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "code")
