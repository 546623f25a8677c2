"""One door to the file system: no module of the laboratory writes a file but through `checkpoint.files`."""

import ast

import pytest

from tests.imports import modules

SEAM = "andrea_lab.checkpoint.files"
TEMP = "TemporaryDirectory"
# Modules that may go past the seam: why, and with which acts.
ALLOWED = {
    "andrea_lab.text.build": (
        "downloads texts into the data folder, by hand",
        {TEMP, "mkdir", "write_bytes", ".replace"},
    ),
    "andrea_lab.cli": ("sends to nowhere what nobody reads", {"os.open"}),
    "andrea_lab.engine.process": ("writes to a pipe", {"os.write"}),
    "andrea_lab.lesson.limits": ("a child's pipes, and a folder for it to be lost in", {TEMP, "os.open", "os.write"}),
    "andrea_lab.lesson.crashes": ("lays out the states of a crash to be judged", {TEMP}),
    "andrea_lab.bench.checkpoint": ("measures in a folder that goes away", {TEMP, "mkdir"}),
    "andrea_lab.bench.step": ("measures in a folder that goes away", {TEMP}),
    "andrea_lab.bench.view": ("measures in a folder that goes away", {TEMP}),
    "andrea_lab.bench.server": ("keeps a child's last words", {"TemporaryFile"}),
    "andrea_lab.bench.children.nano_server": ("measures in a folder that goes away", {TEMP}),
    "andrea_lab.bench.children.engine_server": ("hands arrays to its parent", {"savez"}),
    "andrea_lab.bench.children.serve": ("answers on a pipe", {"os.fdopen"}),
    "andrea_lab.bench.children.torch_saver": (
        "is the other side, a program without our seam",
        {"open", "os.fsync", "os.replace", "os.open", "os.remove"},
    ),
}

OS = {"open", "write", "pwrite", "writev", "fsync", "fdatasync", "truncate", "ftruncate", "link", "symlink", "replace"}
OS |= {"rename", "renames", "unlink", "remove", "rmdir", "removedirs", "mkdir", "makedirs", "mkfifo", "fdopen"}
PATHS = {"write_text", "write_bytes", "touch", "mkdir", "unlink", "rename", "rmdir", "symlink_to", "hardlink_to"}
SHUTIL = {"copy", "copy2", "copyfile", "copyfileobj", "copytree", "move", "rmtree"}
OTHERS = {"tofile", "savefig", "savez", "savetxt", "memmap"}
TEMPORARY = {"TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile", "mkdtemp", "mkstemp"}


def writes(source):
    """(line, what) of every act that writes, makes, renames or removes a file without the seam."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and (what := _act(node)):
            yield node.lineno, what


def _act(call):
    """The name of the act that a call is, or None."""
    function = call.func
    if isinstance(function, ast.Name):
        if function.id in ("open", "FileIO"):
            return "open" if _may_write(call, 1) else None
        return function.id if function.id in TEMPORARY | {"memmap"} else None
    if not isinstance(function, ast.Attribute):
        return None
    name, owner = function.attr, ast.unparse(function.value)
    if owner.split(".")[-1] in ("files", "_files", "REAL") or owner == "super()":
        return None
    if owner == "os":
        return f"os.{name}" if name in OS else None
    if owner == "shutil":
        return f"shutil.{name}" if name in SHUTIL else None
    if owner == "io" and name in ("open", "FileIO"):
        return f"io.{name}" if _may_write(call, 1) else None
    if name == "open" and not owner.split(".")[-1][:1].isupper():  # a class's `open` is no path's
        return ".open" if _may_write(call, 0) else None
    if name == "replace" and len(call.args) == 1 and not call.keywords:
        return ".replace"  # a path's; a text's has two arguments
    return name if name in PATHS | OTHERS | TEMPORARY else None


def _may_write(call, place):
    """Whether an open may write: its mode, the argument at this place, says so or is not told in plain text."""
    mode = call.args[place] if len(call.args) > place else None
    mode = next((k.value for k in call.keywords if k.arg == "mode"), mode)
    if mode is None:
        return False
    return not (isinstance(mode, ast.Constant) and isinstance(mode.value, str) and not set(mode.value) & set("wax+"))


def test_files_are_written_through_the_seam_alone():
    found = {name: writes(path.read_text(encoding="utf-8")) for path, name, _ in modules("andrea_lab") if name != SEAM}
    allowed = {name: acts for name, (_, acts) in ALLOWED.items()}
    left = [(name, line, what) for name in found for line, what in found[name] if what not in allowed.get(name, ())]
    assert left == []


def test_nothing_is_allowed_that_is_not_done():
    sources = {name: path.read_text(encoding="utf-8") for path, name, _ in modules("andrea_lab")}
    for name, (why, acts) in ALLOWED.items():
        assert why and acts == {what for _, what in writes(sources[name])}, name


@pytest.mark.parametrize(
    "source",
    [
        *("open(p, 'w')", "open(p, 'ab')", "open(p, mode='r+b')", "open(p, mode)", "p.open('x')", "p.open(mode='w')"),
        *("os.open(p, flags)", "os.replace(a, b)", "os.unlink(p)", "os.makedirs(p)", "p.replace(q)", "p.rename(q)"),
        *("p.write_text(t)", "a.b.write_bytes(t)", "p.mkdir()", "p.unlink(missing_ok=True)", "shutil.copyfile(a, b)"),
        *("figure.savefig(p)", "array.tofile(p)", "tempfile.mkdtemp()", "io.FileIO(p, 'w')", "io.open(p, 'w')"),
    ],
)
def test_an_act_past_the_seam_is_seen(source):
    assert [line for line, _ in writes(source)] == [1]


def test_reading_and_the_seam_are_let_through():
    source = "open(p)\nopen(p, 'rb')\np.open()\np.open(encoding='utf-8')\nfiles.rename(a, b)\nself._files.remove(p)\n"
    source += (
        "new.files.create(p)\nREAL.make_folder(p)\nt.replace('a', 'b')\nreplace(s, a=1)\ns.replace(a=1)\nos.stat(p)"
    )
    assert list(writes(source)) == []
