"""Where the engine's token ids come from: the texts of the laboratory, and text files of the user's."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from andrea_lab import text
from andrea_lab.model.config import Config, ConfigError


class Batches:
    """The sources a configuration names, with the tokeniser it names.

    A name with a slash, or one that ends in .txt, is a file; it becomes a source named after the file. Raises TextError
    for a file that is no text or too short and for a tokeniser with more ids than the model's vocabulary, ConfigError
    for a source that does not exist.
    """

    def __init__(self, config: Config):
        self.tokenizer = text.ByteTokenizer()
        text.check_vocab(self.tokenizer, config.model.vocab)
        self.sources: dict[str, text.Source] = {}
        known = text.sources()
        for name in known if config.train.sources is None else config.train.sources:
            if "/" in name or name.endswith(".txt"):
                source = text.load_text_file(Path(name).expanduser(), config.train.context)
            elif name in known:
                source = known[name]
            else:
                names = ", ".join(known)
                raise ConfigError(f"train.sources: found {name!r}, expected a file or one of {names}")
            if source.name in self.sources:
                raise ConfigError(f"train.sources: found {source.name!r} twice, expected different names")
            text.windows_per_epoch(source, config.train.context, self.tokenizer)  # refuses one that is too short
            self.sources[source.name] = source

    def fill(self, source: str, seed: int, draw: int, tokens: np.ndarray, targets: np.ndarray) -> None:
        """Write draw number `draw` of a source into (rows, T) int32 arrays; the same bits for the same arguments."""
        rows, length = tokens.shape
        text.batch(self._named(source), seed, draw, rows, length, tokens, targets, self.tokenizer)

    def held_out(self, source: str, count: int, rows: int, length: int) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """Up to `count` held-out batches of a source, (rows, length) each; targets of -1 do not count."""
        return text.held_out_batches(self._named(source), count, rows, length, self.tokenizer)

    def _named(self, source: str) -> text.Source:
        if source not in self.sources:
            raise ConfigError(f"source: found {source!r}, expected one of {', '.join(self.sources)}")
        return self.sources[source]
