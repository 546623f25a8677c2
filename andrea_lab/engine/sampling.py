"""Text from the model: one token at a time, each from a full forward pass over the window so far."""

from collections.abc import Callable
from math import exp, isfinite

import numpy as np

from andrea_lab.engine.errors import EngineError
from andrea_lab.model.graph import Graph
from andrea_lab.text import to_text
from kernels.matmul import gemm_with
from kernels.target import copy_to_host, run


class Sampler:
    """Draws tokens through the training arrays, which it overwrites: it needs none of its own.

    The window is the last tokens of the text, at most the training context. It is padded on the right to 16, 32, 64,
    ... tokens, which a causal model cannot see, so that a few lists of launches serve every length.
    """

    def __init__(self, graph: Graph, batches, rng: Callable, gemm: str):
        self.graph, self.batches, self.rng, self.gemm = graph, batches, rng, gemm
        self.limit = graph.arrays["tokens"].shape[1]
        self._plans: dict[int, tuple[Graph, list]] = {}

    def text(
        self, prompt: str, tokens: int, temperature: float, seed: int, poll: Callable[[], list[str]] = list
    ) -> tuple[str, int]:
        """The continuation of `prompt`, without the prompt, and its tokens, fewer than asked for after a stop.

        Raises EngineError.
        """
        if tokens < 0:
            raise EngineError(f"sample: tokens: found {tokens}, expected 0 or more")
        if not (isfinite(temperature) and temperature >= 0):
            raise EngineError(f"sample: temperature: found {temperature}, expected 0 or more")
        try:
            prompt.encode()
        except UnicodeEncodeError as error:
            raise EngineError(
                f"sample: prompt: found {prompt[error.start]!a}, which UTF-8 does not have, expected text"
            ) from None
        tokenizer = self.batches.tokenizer
        ids = [tokenizer.boundary, *(int(i) for i in tokenizer.encode(prompt))]
        start, draws = len(ids), self.rng(seed, "sample").uniform(tokens)
        for u in draws:
            scores = self.scores(ids[-self.limit :], poll)[: tokenizer.vocab_size]
            ids.append(pick(scores, temperature, float(u)))
            if "stop" in poll():
                break
        return to_text(tokenizer.decode(np.array(ids[start:], np.int32))), len(ids) - start

    def scores(self, window: list[int], poll: Callable[[], list[str]] = list) -> np.ndarray:
        """The model's scores (V,) of the token that follows the window."""
        graph, launches = self._plan(len(window), poll)
        padded = np.zeros(graph.arrays["tokens"].shape, np.int32)
        padded[0, : len(window)] = window
        tokens = graph.arrays["tokens"]
        if isinstance(tokens, np.ndarray):
            np.copyto(tokens, padded)
        else:
            tokens.copy_to_device(padded)
        run(launches)
        return copy_to_host(graph.arrays["logits"])[len(window) - 1]

    def _plan(self, length: int, poll: Callable[[], list[str]]) -> tuple[Graph, list]:
        size = min(self.limit, max(16, 1 << (length - 1).bit_length()))
        if size not in self._plans:
            with gemm_with(self.gemm):
                graph = Graph(self.graph.model, self.graph.arena, 1, size, poll)
                self._plans[size] = graph, graph.scores()
        return self._plans[size]


def pick(scores: np.ndarray, temperature: float, u: float) -> int:
    """The id at which the running sum of softmax(scores / temperature) passes u in [0, 1).

    Temperature 0 takes the highest score, the lowest id of equals. Raises EngineError for scores that are not finite.
    """
    values = [float(score) for score in scores]
    top = max(values)
    if not all(map(isfinite, values)):
        raise EngineError("sample: found scores that are not finite, expected the weights of a run that went well")
    if temperature == 0:
        return values.index(top)
    weights = [exp((value - top) / temperature) for value in values]
    left = u * sum(weights)
    for i, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return i
    return values.index(top)
