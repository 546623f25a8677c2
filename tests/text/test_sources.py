"""The six vendored texts: bytes, licences, documents, and the split into training and held-out."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab import paths
from andrea_lab.text import Source, TextError, source, sources
from andrea_lab.text.build import build, verify
from andrea_lab.text.recipes import RECIPES

NAMES = ["devils", "docstrings", "kjv", "quiz", "shakespeare", "wordnet"]
HELD_OUT = {
    "devils": (105, "89a6a2fba712424a"),
    "docstrings": (595, "d9d2139bfa43a3cc"),
    "kjv": (40, "dc47cf1a4083dd36"),
    "quiz": (17, "c29990aa9641a19e"),
    "shakespeare": (17, "0c8be626f40fc1b2"),
    "wordnet": (1139, "62db64cbe28fb85d"),
}


def test_six_sources_of_the_promised_sizes():
    assert list(sources()) == NAMES == sorted(RECIPES)
    sizes = {name: found.path.stat().st_size for name, found in sources().items()}
    assert all(300_000 <= sizes[name] <= 2_000_000 for name in NAMES if name != "quiz")
    assert 10_000 <= sizes["quiz"] < 100_000
    assert sum(file.stat().st_size for file in paths.sources_dir().rglob("*") if file.is_file()) < 8_000_000


def test_checksums_licences_and_counts_hold():
    assert verify() == []


@pytest.mark.parametrize("name", NAMES)
def test_the_licence_lies_beside_the_text(name):
    licence = (paths.sources_dir() / name / "LICENSE").read_text(encoding="utf-8")
    recipe = RECIPES[name]
    assert recipe.licence in licence and recipe.changes in licence and recipe.title in licence
    sure = {
        "kjv": "is expired",
        "shakespeare": "Permission is hereby granted, free of charge",
        "wordnet": "WordNet 3.0 Copyright 2006 by Princeton University",
        "devils": "A Public Domain Text, Copyright Expired",
        "docstrings": "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2",
        "quiz": "Redistribution and use in source and binary forms",
    }
    assert sure[name] in licence


@pytest.mark.parametrize("name", NAMES)
def test_the_texts_are_clean(name):
    found = source(name)
    text = found.path.read_bytes()
    text.decode("utf-8")
    assert not set(range(32)) - {10, 30} & set(text) and 127 not in text
    assert text.endswith(b"\n") and not text.endswith(b"\n\n") and b"\r" not in text
    assert all(document.strip(b"\n") == document and document.strip() for document in found.documents)
    assert len(set(found.documents)) == len(found.documents)
    record = json.loads((found.path.parent / "provenance.json").read_text())
    assert record["documents"] == len(found.documents)
    assert all(package["version"] for package in record["packages"])


def test_known_passages():
    def begins(name, start):
        return any(document.startswith(start) for document in source(name).documents)

    assert begins("kjv", b"Genesis 1\nIn the beginning God created the heaven and the earth.\n")
    assert begins(
        "shakespeare", b"HAMLET. ACT I. SCENE I. Elsinore. A platform before the castle.\n\n[FRANCISCO at his post."
    )
    assert begins("wordnet", b"additive (noun): something added to enhance food")
    assert begins("devils", b"ABSURDITY, n.  A statement or belief manifestly inconsistent with\none's own opinion.")
    assert begins("docstrings", b"json.dumps(obj, *, skipkeys, ensure_ascii,")
    assert begins("quiz", b"africa: Africa{n}:cap{ital}\nAlgeria:Algiers\n")


@pytest.mark.parametrize("name", NAMES)
def test_a_tenth_is_held_out_for_good(name):
    found = source(name)
    share = len(found.held_out) / len(found.documents)
    assert 0.05 < share < 0.16
    part = sum(map(len, found.held_out_docs)) / sum(map(len, found.documents))
    assert 0.03 < part < 0.2
    digest = hashlib.sha256(repr(sorted(found.held_out)).encode()).hexdigest()[:16]
    assert (len(found.held_out), digest) == HELD_OUT[name]


@given(st.text(max_size=8), st.integers(2, 80), st.integers(0, 80))
def test_the_split_depends_on_name_and_index_alone(name, count, more):
    first = Source(name, Path("a"), text=tuple(b"%d" % i for i in range(count)))
    second = Source(name, Path("b"), text=tuple(b"other" for _ in range(count)))
    assert first.held_out == second.held_out
    assert 1 <= len(first.held_out) < count
    assert first.train_docs == [b"%d" % i for i in range(count) if i not in first.held_out]
    assert sorted(first.train_docs + first.held_out_docs, key=int) == list(first.documents)
    longer = Source(name, Path("a"), text=(b"x",) * (count + more))
    if len(first.held_out) > 1:  # documents added at the end move none of the others
        assert first.held_out == {index for index in longer.held_out if index < count}


def test_one_document_cannot_be_split():
    with pytest.raises(TextError, match="source one: found 1 document, expected two or more"):
        _ = Source("one", Path("a"), text=(b"x",)).train_docs


def test_an_unknown_source_is_named():
    with pytest.raises(TextError, match="source: found 'bible', expected one of devils, docstrings, kjv"):
        source("bible")
    with pytest.raises(TextError, match="source: found 'bible', expected one of kjv"):
        build(["bible"])


def test_verify_sees_every_kind_of_damage(tmp_path):
    root = tmp_path / "sources"
    shutil.copytree(paths.sources_dir() / "quiz", root / "quiz")
    shutil.copytree(paths.sources_dir() / "devils", root / "devils")
    assert verify(["quiz", "devils"], root) == []
    text = root / "quiz" / "text.txt"
    text.write_bytes(text.read_bytes().replace(b"Algiers", b"algiers"))
    (root / "devils" / "LICENSE").unlink()
    problems = verify(["quiz", "devils", "kjv"], root)
    assert len(problems) == 3
    assert "quiz/text.txt: found sha256" in problems[0]
    assert "devils/LICENSE: found No such file" in problems[1]
    assert "kjv/provenance.json: found" in problems[2]
    text.write_bytes(text.read_bytes() + b"\x1e\nmore\n")
    assert any("found 216 documents, expected 215" in problem for problem in verify(["quiz"], root))


def test_a_folder_without_sources_is_named(monkeypatch, tmp_path):
    (tmp_path / "sources").mkdir()
    monkeypatch.setenv("ANDREA_DATA", str(tmp_path))
    with pytest.raises(TextError, match="sources: found none in"):
        sources()
    (tmp_path / "sources" / "bad").mkdir()
    (tmp_path / "sources" / "bad" / "provenance.json").write_text("{}")
    with pytest.raises(TextError, match="found a damaged record .*, expected name, title, kind, licence"):
        sources()


def test_the_table_of_the_texts_is_true():
    table = (paths.data_dir() / "README.md").read_text()
    for name, found in sources().items():
        row = next(line for line in table.splitlines() if line.startswith(f"| `{name}` "))
        cells = [cell.strip().replace(",", "") for cell in row.strip("|").split("|")]
        assert [int(cell) for cell in cells[3:6]] == [
            found.path.stat().st_size,
            len(found.documents),
            len(found.held_out),
        ]
