"""Which source a step learns from."""

import hashlib
import json
from collections.abc import Sequence

from andrea_lab.rng import rng


class Uniform:
    """Every source with equal chance at every step.

    A choice is a function of (seed, step); the draws of each source are numbered 0, 1, 2, ... as they come, so that
    nothing of a text is read twice before all of it was read once. There is no state to save: it can be counted again.
    """

    def __init__(self, sources: Sequence[str], seed: int):
        if not sources:
            raise ValueError("sources: found none, expected at least one name")
        self.sources, self.seed = list(sources), seed
        self._counted_to, self._draws = 0, dict.fromkeys(self.sources, 0)

    @property
    def policy(self) -> str:
        """The id of this way of choosing: twelve hex digits of the hash of what defines it."""
        text = json.dumps({"chooser": "uniform", "sources": self.sources}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def choose(self, step: int) -> tuple[str, int]:
        """(source, draw) of step 1, 2, ..."""
        if step <= self._counted_to:
            self._counted_to, self._draws = 0, dict.fromkeys(self.sources, 0)
        while True:
            self._counted_to += 1
            source = self._source(self._counted_to)
            draw = self._draws[source]
            self._draws[source] += 1
            if self._counted_to == step:
                return source, draw

    def learn(self, entry: dict) -> None:
        """Take note of a step's entry; nothing to learn here."""

    def _source(self, step: int) -> str:
        return self.sources[int(rng(self.seed, "chooser", step).integers(1, len(self.sources))[0])]
