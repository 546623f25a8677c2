"""Which source a step learns from."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from andrea_lab.rng import rng


class Uniform:
    """Every source with equal chance at every step.

    A choice is a function of (seed, step); the draws of each source are numbered 0, 1, 2, ... as they come, so that
    nothing of a text is read twice before all of it was read once. The state is these counts as of one step: it saves
    counting again from step 1, and a count that is missing or does not fit is made again.
    """

    def __init__(self, sources: Sequence[str], seed: int):
        if not sources:
            raise ValueError("sources: found none, expected at least one name")
        self.sources, self.seed = list(sources), seed
        self.reset()

    @property
    def policy(self) -> str:
        """The id of this way of choosing: twelve hex digits of the hash of what defines it."""
        text = json.dumps({"chooser": "uniform", "sources": self.sources}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def choose(self, step: int) -> tuple[str, int]:
        """(source, draw) of step 1, 2, ..."""
        if step <= self.step:
            self.reset()
        while True:
            self.step += 1
            source = self._source(self.step)
            draw = self._draws[source]
            self._draws[source] += 1
            if self.step == step:
                return source, draw

    def learn(self, entry: dict[str, Any]) -> None:
        """Take note of a step's entry: count up to it. What it says of the loss changes nothing here."""
        if entry["step"] > self.step:
            self.choose(entry["step"])

    def state(self) -> dict[str, Any]:
        """What `restore` takes: {"step", "draws": {source: number of draws so far}}, plain JSON."""
        return {"step": self.step, "draws": dict(self._draws)}

    def restore(self, state: dict[str, Any]) -> list[str]:
        """Go on from a saved state; returns the arms in it that have no source here and were dropped.

        Counts that do not add up to the step, as after a change of sources, are made again. Raises ValueError for a
        state that is none, the chooser as new.
        """
        self.reset()
        step, draws = state.get("step"), state.get("draws")
        counts = [step, *draws.values()] if isinstance(draws, dict) else [None]
        if any(type(count) is not int or count < 0 for count in counts):
            raise ValueError(f"chooser: found {_short(state)}, expected a step and the draws of each source")
        kept = {name: draws[name] for name in self.sources if name in draws}
        if sum(kept.values()) == step:
            self.step = step
            self._draws |= kept
        elif step:
            self.choose(step)
        return [name for name in draws if name not in kept]

    def reset(self) -> None:
        """Back to before step 1."""
        self.step, self._draws = 0, dict.fromkeys(self.sources, 0)

    def _source(self, step: int) -> str:
        return self.sources[int(rng(self.seed, "chooser", step).integers(1, len(self.sources))[0])]


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
