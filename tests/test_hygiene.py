"""What no file of the project may hold: addresses of registries, paths of one machine, skips, unfinished work."""

import ast
import re
import subprocess

import pytest

from tests.imports import ROOT

MOST_LINES = 450
MOST_FUNCTION_LINES = 60
MOST_BYTES = 3_000_000
# Spelled with brackets so that this file does not hold what it looks for.
HOSTS = re.compile("pypi[.]org|python[h]osted|registry[.]npmjs|deb[.]debian|download[.]pytorch")
MACHINE_PATHS = re.compile(r"(?<![\w./~-])/(?:wor[k]|roo[t]|hom[e])/\w")
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E)\b|NotImplemented[E]rror")
# Without a browser there is nothing to drive: the one reason for which tests are left out.
MAY_SKIP = "tests/browser/conftest.py"
EXCUSES = {"skip", "skipif", "xfail", "importorskip", "skipTest", "SkipTest", "expectedFailure"}


def project_files():
    """Every file of the project, whether committed yet or not, as a path."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in sorted(set(filter(None, names.split("\0")))) if (ROOT / name).is_file()]


FILES = project_files()
PYTHON = [path for path in FILES if path.suffix == ".py"]


def read(path):
    """The text of a file, None for one that is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def lines_with(pattern, text):
    """The numbers of the lines on which a pattern is found."""
    return [n for n, line in enumerate((text or "").splitlines(), 1) if pattern.search(line)]


def excused(source):
    """Lines that skip a test or expect it to fail."""
    nodes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Attribute | ast.Name)]
    names = ((n.lineno, getattr(n, "attr", getattr(n, "id", ""))) for n in nodes)
    return sorted(line for line, name in names if name in EXCUSES)


def long_functions(source):
    """(name, lines) of every function longer than allowed; its docstring and functions inside it do not count.

    A kernel may be twice as long: it is one launch, and what its threads share cannot be cut in two.
    """
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [(f.name, size) for f in functions if (size := own_lines(f)) > MOST_FUNCTION_LINES * (1 + is_kernel(f))]


def is_kernel(function):
    """True for a function under @kernel."""
    return any(isinstance(d, ast.Name) and d.id == "kernel" for d in function.decorator_list)


def own_lines(function):
    """The number of lines of a function, without its docstring and without functions inside it."""
    lines = set(range(function.lineno, function.end_lineno + 1))
    inner = [n for n in ast.walk(function) if isinstance(n, ast.FunctionDef) and n is not function]
    if ast.get_docstring(function):
        inner.append(function.body[0])
    for node in inner:
        lines -= set(range(node.lineno, node.end_lineno + 1))
    return len(lines)


@pytest.mark.parametrize("pattern", [HOSTS, MACHINE_PATHS], ids=["registry hosts", "paths of one machine"])
def test_no_file_holds(pattern):
    found = {str(path.relative_to(ROOT)): lines_with(pattern, read(path)) for path in FILES}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_no_unfinished_work():
    ours = [path for path in FILES if path.relative_to(ROOT).parts[0] != "data"]
    found = {str(path.relative_to(ROOT)): lines_with(UNFINISHED, read(path)) for path in ours}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_no_test_is_excused():
    tests = [path for path in PYTHON if path.relative_to(ROOT).parts[0] in ("tests", "conftest.py")]
    found = {path.relative_to(ROOT).as_posix(): lines for path in tests if (lines := excused(read(path)))}
    assert list(found) == [MAY_SKIP]
    assert len(found[MAY_SKIP]) == 1


def test_files_and_functions_stay_short():
    assert {path.name: size for path in PYTHON if (size := len(read(path).splitlines())) > MOST_LINES} == {}
    assert {path.name: found for path in PYTHON if (found := long_functions(read(path)))} == {}


def test_every_module_says_what_it_is():
    sources = {str(path.relative_to(ROOT)): read(path) for path in PYTHON}
    assert [name for name, text in sources.items() if text.strip() and not ast.get_docstring(ast.parse(text))] == []


def test_no_large_file():
    assert {path.name: path.stat().st_size for path in FILES if path.stat().st_size > MOST_BYTES} == {}


def test_licence_is_stated():
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
    assert 'license = "MIT"' in (ROOT / "pyproject.toml").read_text()
    assert "MIT" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "pattern, text",
    [
        (HOSTS, "https://pypi@org/simple".replace("@", ".")),
        (HOSTS, "files.python@osted.org".replace("@", "h")),
        (MACHINE_PATHS, "open('/wor@/main/x')".replace("@", "k")),
        (MACHINE_PATHS, "cd /roo@/x".replace("@", "t")),
        (UNFINISHED, "# TO@O: later".replace("@", "D")),
        (UNFINISHED, "raise NotImplemented@rror".replace("@", "E")),
    ],
)
def test_a_pattern_finds_what_it_is_for(pattern, text):
    assert lines_with(pattern, f"fine\n{text}\n") == [2]


def test_harmless_text_is_let_through():
    text = "/roots/x a/work/x ~/work/x work/x the root of /home\n"
    assert lines_with(MACHINE_PATHS, text) == []


def test_excuses_and_long_functions_are_noticed():
    source = "import pytest\n@pytest.mark.skipif(True)\ndef f():\n    pytest.skip('x')\n    s = 'pytest.skip'"
    assert excused(source) == [2, 4]
    body = "    x = 1\n" * (MOST_FUNCTION_LINES - 1)
    assert long_functions(f"def f():\n    'Docstring.'\n{body}") == []
    assert long_functions(f"def f():\n{body}    return 1\n") == [("f", MOST_FUNCTION_LINES + 1)]
    assert long_functions(f"def f():\n{body}    def g():\n        return 1\n") == []
