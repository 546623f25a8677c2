"""Sources: bodies of text cut into documents, each document either for training or held out.

Which documents are held out hangs on the source's name and the document's index alone, so it is the same in every run,
on every machine and for every seed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from andrea_lab import paths
from andrea_lab.text.documents import SEPARATOR, TextError, split
from andrea_lab.text.tokenizer import BYTES, Tokenizer

HELD_OUT_SHARE = 0.1
PIECE = 1024  # a user's text without separators is cut into documents of about so many bytes
LONGEST_LINE = 4096


@dataclass(frozen=True)
class Source:
    """One body of text; the documents are read when first asked for.

    `path` names a file in the form of `andrea_lab.text.documents`; documents given as `text` need no file.
    """

    name: str
    path: Path
    title: str = ""
    kind: str = ""
    licence: str = ""
    text: tuple[bytes, ...] = field(default=(), repr=False)
    _streams: dict = field(default_factory=dict, init=False, repr=False, compare=False, hash=False)

    @cached_property
    def documents(self) -> tuple[bytes, ...]:
        """Every document, in the order of the file. Raises TextError if the file cannot be read."""
        return self.text or tuple(split(_read(self.path)))

    @cached_property
    def held_out(self) -> frozenset[int]:
        """Indices of the held-out documents: those whose hash falls into the lowest tenth.

        If none does, it is the one with the lowest hash; if all do, all but the one with the highest. Raises TextError
        if there are fewer than two documents.
        """
        count = len(self.documents)
        if count < 2:
            raise TextError(f"source {self.name}: found {count} document, expected two or more to hold one out")
        hashes = [_hash(self.name, index) for index in range(count)]
        order = sorted(range(count), key=hashes.__getitem__)
        below = sum(value < HELD_OUT_SHARE * 2**64 for value in hashes)
        return frozenset(order[: min(max(below, 1), count - 1)])

    @property
    def train_docs(self) -> list[bytes]:
        """The documents to train on, in file order."""
        return [document for index, document in enumerate(self.documents) if index not in self.held_out]

    @property
    def held_out_docs(self) -> list[bytes]:
        """The documents kept for evaluation, in file order."""
        return [document for index, document in enumerate(self.documents) if index in self.held_out]

    def train_stream(self, tokenizer: Tokenizer = BYTES) -> np.ndarray:
        """Return the training documents as ids, int32 (n,): boundary, document, boundary, document, ... Kept."""
        return self._stream("train", tokenizer)

    def held_out_stream(self, tokenizer: Tokenizer = BYTES) -> np.ndarray:
        """Return the held-out documents as ids, int32 (n,): boundary, document, ..., document, boundary. Kept."""
        return self._stream("held out", tokenizer)

    def _stream(self, part: str, tokenizer: Tokenizer) -> np.ndarray:
        key = (part, tokenizer)
        if key not in self._streams:
            boundary = np.array([tokenizer.boundary], dtype=np.int32)
            pieces: list[np.ndarray] = []
            for document in self.train_docs if part == "train" else self.held_out_docs:
                pieces += [boundary, np.asarray(tokenizer.encode(document), dtype=np.int32)]
            stream = np.concatenate(pieces if part == "train" else [*pieces, boundary])
            stream.flags.writeable = False
            self._streams[key] = stream
        return self._streams[key]


def _hash(name: str, index: int) -> int:
    key = f"{len(name)}:{name}:{index}".encode("utf-8", "surrogatepass")  # a file's name may be any bytes
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, person=b"held out").digest(), "big")


_registry: dict[Path, dict[str, Source]] = {}


def sources() -> dict[str, Source]:
    """Return the vendored sources by name, in alphabetical order. Raises PathError or TextError.

    The same Source objects come back each time, so that what they have read is read once.
    """
    folder = paths.sources_dir()
    if folder not in _registry:
        files = sorted(folder.glob("*/provenance.json"))
        if not files:
            raise TextError(f"sources: found none in {folder}, expected folders with a provenance.json")
        _registry[folder] = {file.parent.name: _vendored(file) for file in files}
    return dict(_registry[folder])


def _vendored(file: Path) -> Source:
    try:
        about = json.loads(_read(file))
        return Source(about["name"], file.parent / "text.txt", about["title"], about["kind"], about["licence"])
    except (ValueError, KeyError, TypeError) as error:
        raise TextError(f"{file}: found a damaged record ({error}), expected name, title, kind, licence") from error


def source(name: str) -> Source:
    """Return the vendored source `name`. Raises TextError with the names there are."""
    known = sources()
    if name not in known:
        raise TextError(f"source: found {name!r}, expected one of {', '.join(known)}")
    return known[name]


def load_text_file(path: str | Path, context: int | None = None) -> Source:
    """Return a text file of the user's as a source named after the file.

    Documents are taken at separator lines (see `andrea_lab.text.documents`); without any, the text is cut at empty
    lines into pieces of about 1 KiB. A byte order mark is dropped and line ends become newlines. Raises TextError for a
    file that cannot be read, is empty or is not text; with `context`, also for a text too short to cut windows of that
    many ids from both its training and its held-out part.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a pipe or a device might never end
        raise TextError(f"{path}: found {'a folder' if path.is_dir() else 'a device or pipe'}, expected a text file")
    data = _read(path).removeprefix(b"\xef\xbb\xbf")
    _check_text(path, data)
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").strip(b"\n")
    documents = tuple(split(data)) if SEPARATOR in data else tuple(_pieces(data))
    documents = tuple(document for document in documents if document.strip())
    if len(documents) < 2:
        expected = "a longer text" if context is None else f"more than twice the context of {context}"
        raise TextError(f"{path}: found {len(data)} bytes, too short to hold a part out, expected {expected}")
    found = Source(path.stem, path, title=path.name, kind="user's text", text=documents)
    if context is not None:
        for part, stream in (("training", found.train_stream()), ("held-out", found.held_out_stream())):
            if len(stream) <= context:
                raise TextError(
                    f"{path}: found {len(stream)} ids in the {part} part, expected more than the context of {context}"
                )
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TextError(f"{path}: found {error.strerror or error}, expected a file that can be read") from error


def _check_text(path: Path, data: bytes) -> None:
    if not data.strip():
        raise TextError(f"{path}: found an empty file, expected text")
    if b"\0" in data:
        raise TextError(f"{path}: found a binary file (byte 0 at {data.index(0)}), expected UTF-8 text")
    bad = data.decode("utf-8", errors="replace").count("\ufffd") - data.count("\ufffd".encode())
    bad += sum(data.count(code) for code in range(32) if code not in b"\t\n\f\r\x1b\x1e")
    if bad > 0.02 * len(data):
        raise TextError(f"{path}: found {100 * bad / len(data):.0f} % of bytes that are not UTF-8, expected text")


def _pieces(data: bytes) -> list[bytes]:
    """Cut a text into documents: at the first empty line after PIECE bytes, at the first line end after four times
    that, and inside a line, between two characters, when it alone is longer than LONGEST_LINE bytes."""
    pieces, current, size = [], [], 0
    for line in data.split(b"\n"):
        while len(line) > LONGEST_LINE:
            cut = LONGEST_LINE
            while line[cut] & 0xC0 == 0x80 and cut > LONGEST_LINE - 4:
                cut -= 1
            pieces.append(b"\n".join([*current, line[:cut]]))
            current, size, line = [], 0, line[cut:]
        current.append(line)
        size += len(line) + 1
        if (size >= PIECE and not line.strip()) or size >= 4 * PIECE:
            pieces.append(b"\n".join(current))
            current, size = [], 0
    pieces.append(b"\n".join(current))
    return [piece.strip(b"\n") for piece in pieces if piece.strip()]
