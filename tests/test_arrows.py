"""The arrows between packages, held by reading the source: notebooks -> andrea_lab -> kernels, and those inside."""

import sys

import pytest

from tests.imports import ROOT, Import, imports, modules, notebook_source, random_uses

STDLIB = sys.stdlib_module_names
# What each part of andrea_lab may use of the others; all may use BASE, nothing may use cli.
BASE = {"paths", "progress", "rng", "strict_json"}
PARTS = {
    "labkernel": set(),
    "paths": set(),
    "progress": set(),
    "rng": set(),
    "strict_json": set(),
    "text": set(),
    "model": {"kernels"},
    "checkpoint": set(),
    "engine": {"text", "model", "checkpoint", "kernels"},
    "run": {"checkpoint"},
    "proxy": {"run", "engine", "text"},
    "view": {"run", "checkpoint"},  # of checkpoint, how a file is written
}
EVERYTHING = {*PARTS, "lesson", "bench", "kernels"}
PARTS |= {"lesson": EVERYTHING, "bench": EVERYTHING, "commands": EVERYTHING, "cli": {*EVERYTHING, "commands"}}

KERNELS_THIRD_PARTY = {"numba", "numpy", "threadpoolctl", "nvmath"}
# What a notebook may import, by number; each may import what those before it may.
NOTEBOOK_IMPORTS = {
    0: {"andrea_lab.lesson", "andrea_lab.proxy", "andrea_lab.view", "andrea_lab.model", "andrea_lab.text"}
    | {"andrea_lab.engine", "andrea_lab.run", "andrea_lab.commands", "andrea_lab.paths", "andrea_lab.rng"}
    | {"kernels.target", "numba", "numpy", "matplotlib", "IPython"},
    1: {"kernels", "kernels.pairs", "kernels.reference"},
    11: {"andrea_lab.checkpoint", "kernels.matmul"},
}


def kernel_problems(name, found):
    """Breaches by one module of kernels."""
    for imp in found:
        top = imp.module.split(".")[0]
        if top in STDLIB:
            continue
        if top != "kernels" and top not in KERNELS_THIRD_PARTY and not inside_target(name, imp):
            yield f"{name}:{imp.line} imports {imp.module}"
        if top == "nvmath" and not imp.lazy:
            yield f"{name}:{imp.line} imports nvmath on import; do it where it is used"
        if is_compiler(imp) and not inside_target(name, imp):
            yield f"{name}:{imp.line} imports {imp.module}: only kernels.target knows the compiler"


def is_compiler(imp):
    """True for the insides of numba and for llvmlite."""
    return any(t.split(".")[0] == "llvmlite" or t.split(".")[:2] == ["numba", "core"] for t in imp.targets())


def inside_target(name, imp):
    """True where kernels.target reaches for the compiler, as it alone may."""
    return name.startswith("kernels.target") and is_compiler(imp)


def part_of(module):
    """The part of the house a module belongs to: 'kernels', a part of andrea_lab, or None."""
    top, _, rest = module.partition(".")
    if top == "kernels":
        return "kernels"
    return rest.partition(".")[0] if top == "andrea_lab" else None


def lab_problems(name, found):
    """Breaches by one module of andrea_lab."""
    part = part_of(name)
    allowed = {part, *BASE, *PARTS.get(part, set())}
    if part == "":
        allowed = {""}
    for imp in found:
        used = {part_of(target) for target in imp.targets()} - {None}
        if imp.module == "andrea_lab":
            used = {target for target in used if target in PARTS or target == "cli"}
        elif used:
            used = {part_of(imp.module)}
        for target in sorted(used - allowed):
            yield f"{name}:{imp.line} ({part}) imports {target}"
        if is_compiler(imp):
            yield f"{name}:{imp.line} imports {imp.module}: only kernels.target knows the compiler"
        if imp.module == "<computed>":
            yield f"{name}:{imp.line} imports a module by a computed name"


def notebook_problems(number, found):
    """Imports of a notebook that its number does not allow."""
    allowed = set().union(*(names for n, names in NOTEBOOK_IMPORTS.items() if n <= number))
    for imp in found:
        parts = imp.module == "andrea_lab" and imp.names  # from andrea_lab import lesson
        for module in [f"andrea_lab.{name}" for name in imp.names] if parts else [imp.module]:
            near = [t for t in (module, *parents(module)) if t in allowed]
            if module.split(".")[0] not in STDLIB and not near:
                yield f"line {imp.line}: {module} is not on the list of notebook {number:02d}"


def parents(module):
    """The packages a module lies in, nearest first, the top-level ones of ours left out."""
    parts = module.split(".")
    return [p for n in range(len(parts) - 1, 0, -1) if (p := ".".join(parts[:n])) not in ("andrea_lab", "kernels")]


def found_in(path, package):
    return imports(path.read_text(encoding="utf-8"), package)


@pytest.mark.parametrize("folder, rule", [("kernels", kernel_problems), ("andrea_lab", lab_problems)])
def test_packages_keep_the_arrows(folder, rule):
    checked = list(modules(folder))
    assert len(checked) > 5
    assert [p for path, name, package in checked for p in rule(name, found_in(path, package))] == []


def test_every_part_of_the_lab_is_on_the_list():
    parts = {part_of(name) for _, name, _ in modules("andrea_lab")} - {""}
    assert parts <= set(PARTS)


def test_no_other_random_numbers():
    sources = [
        (path, path.read_text(encoding="utf-8")) for top in ("kernels", "andrea_lab") for path, *_ in modules(top)
    ]
    sources += [(path, notebook_source(path)) for path in (ROOT / "notebooks").glob("*.ipynb")]
    assert [f"{path.relative_to(ROOT)}:{line}" for path, source in sources for line in random_uses(source)] == []


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_stand_on_those_before(path):
    assert list(notebook_problems(int(path.name[:2]), imports(notebook_source(path)))) == []


def test_imports_are_all_found():
    source = "import a.b, c\ndef f():\n    from . import d\n    from ..e import g\nimportlib.import_module('h')\n"
    assert imports(source, "top.pack") == [
        Import("a.b", (), 1, False),
        Import("c", (), 1, False),
        Import("top.pack", ("d",), 3, True),
        Import("top.e", ("g",), 4, True),
        Import("h", (), 5, False),
    ]


@pytest.mark.parametrize(
    "name, source",
    [
        ("kernels.mlp", "import scipy"),
        ("kernels.mlp", "from andrea_lab import paths"),
        ("kernels.mlp", "from numba.core import types"),
        ("kernels.mlp", "from numba import core"),
        ("kernels.mlp", "import nvmath"),
        ("kernels.target.cuda", "import scipy"),
        ("andrea_lab.text.sources", "def f():\n    from andrea_lab import engine"),
        ("andrea_lab.text.sources", "import kernels"),
        ("andrea_lab.model.graph", "from andrea_lab.text import sources"),
        ("andrea_lab.checkpoint.single", "from ..model import layout"),
        ("andrea_lab.proxy.loop", "import andrea_lab.model.layout"),
        ("andrea_lab.engine.engine", "import andrea_lab.proxy"),
        ("andrea_lab.view.lossview", "from andrea_lab.engine import Engine"),
        ("andrea_lab.bench.step", "from andrea_lab.cli import main"),
        ("andrea_lab.bench.step", "from andrea_lab import cli"),
        ("andrea_lab.engine.engine", "import llvmlite.binding"),
        ("andrea_lab.engine.engine", "importlib.import_module(name)"),
        ("andrea_lab", "from andrea_lab import engine"),
    ],
)
def test_a_wrong_arrow_is_noticed(name, source):
    rule = kernel_problems if name.startswith("kernels") else lab_problems
    package = name.rpartition(".")[0] or name
    assert len(list(rule(name, imports(source, package)))) >= 1


@pytest.mark.parametrize(
    "name, source",
    [
        ("kernels.mlp", "import math\nfrom numba import cuda, float32\nfrom kernels.target import kernel"),
        ("kernels.gemm", "def f():\n    import nvmath"),
        ("kernels.target.cpu", "from numba.core import types\nimport llvmlite.binding"),
        ("andrea_lab.engine.engine", "from andrea_lab.model.layout import Layout\nfrom kernels import pairs"),
        ("andrea_lab.text.batches", "from andrea_lab import paths, rng\nfrom .sources import sources"),
        ("andrea_lab.cli", "from andrea_lab import commands\nfrom andrea_lab.bench import step"),
    ],
)
def test_a_right_arrow_is_allowed(name, source):
    rule = kernel_problems if name.startswith("kernels") else lab_problems
    assert list(rule(name, imports(source, name.rpartition(".")[0]))) == []


@pytest.mark.parametrize(
    "source", ["import random", "from random import choice", "np.random.rand()", "from numpy import random"]
)
def test_other_random_numbers_are_noticed(source):
    assert random_uses(source) == [1]


def test_a_notebook_ahead_of_its_number_is_noticed():
    found = imports("import math\nimport kernels.pairs\nimport torch")
    assert len(list(notebook_problems(0, found))) == 2
    assert len(list(notebook_problems(1, found))) == 1
    found = imports("from andrea_lab import lesson, cli")
    assert list(notebook_problems(1, found)) == ["line 1: andrea_lab.cli is not on the list of notebook 01"]
