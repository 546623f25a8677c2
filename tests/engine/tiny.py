"""A tiny model and batches of random ids for the tests of the engine and of what stands on it."""

from pathlib import Path

import numpy as np

from andrea_lab.engine.engine import Engine
from andrea_lab.model.config import Config, parse
from andrea_lab.text import ByteTokenizer


def config(tied: bool = False, **train) -> Config:
    """Two layers of width 32, two heads, 257 ids; other training fields by keyword."""
    model = {"vocab": 257, "context": 16, "width": 32, "heads": 2, "layers": 2, "tie_embeddings": tied}
    fields = {"batch": 2, "context": 16, "steps": 20, "lr": 1e-3, "warmup": 4, "save_every": 0} | train
    return parse({"name": "tiny", "model": model, "train": fields}, "tiny")


def sums(folder: Path, **train) -> Config:
    """The same model with a text file to learn from, the source "sums", for an engine that makes its own batches."""
    path = folder / "sums.txt"
    path.write_text("\n".join(f"{i} and {k} are {i + k}." for i in range(40) for k in range(20)))
    return config(gemm="kernels", sources=[str(path)], **train)


class RandomBatches:
    """Ids by (source, seed, draw); with `ignore`, row r of a draw has its last r * ignore targets ignored."""

    def __init__(self, vocab: int = 257, ignore: int = 0, sources: tuple[str, ...] = ("noise",)):
        self.vocab, self.ignore = vocab, ignore
        self.sources = dict.fromkeys(sources)
        self.tokenizer = ByteTokenizer()

    def fill(self, source, seed, draw, tokens, targets):
        rng = np.random.default_rng([seed, draw, *source.encode()])
        ids = rng.integers(0, self.vocab, (len(tokens), tokens.shape[1] + 1))
        tokens[...], targets[...] = ids[:, :-1], ids[:, 1:]
        for row in range(len(targets)):
            cut = min(row * self.ignore, targets.shape[1])
            targets[row, targets.shape[1] - cut :] = -1

    def held_out(self, source, count, rows, length):
        for draw in range(count):
            tokens, targets = (np.zeros((rows, length), np.int32) for _ in range(2))
            self.fill(source, 999, draw, tokens, targets)
            yield tokens, targets


def engine(cfg: Config | None = None, **options) -> Engine:
    options.setdefault("batches", RandomBatches())
    return Engine(config() if cfg is None else cfg, **options)


def one(made: Engine, step: int | None = None, source: str = "noise") -> dict:
    """Run the next step."""
    step = made.done + 1 if step is None else step
    return made.step({"step": step, "source": source, "draw": step})


def vectors(made: Engine) -> dict[str, np.ndarray]:
    """Copies of the four flat vectors."""
    return {name: np.array(made.arena.view(name)) for name in ("weights", "gradients", "m", "v")}
