"""The engine: arrays, launches and five verbs. Plain JSON values go in and come out.

- `step({step, source, draw})` -> `{step, loss, grad_norm, clip, lr, tokens, ms, want}`
- `save({step, entry})` -> `{file, sha256}`
- `sample({prompt, tokens, temperature, seed})` -> `{text}`
- `evaluate({source, batches})` -> `{loss}`
- `close()`

The engine cuts its own batches, a function of (seed, source, draw), and writes no log. Everything it uses is allocated
before the first step; a step allocates nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite, sqrt
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from andrea_lab.checkpoint import single
from andrea_lab.engine.batches import Batches
from andrea_lab.engine.diagnose import advice, first_bad
from andrea_lab.engine.errors import EngineError, TrainingStopped
from andrea_lab.engine.sampling import Sampler
from andrea_lab.engine.schedule import learning_rate
from andrea_lab.model.config import Config
from andrea_lab.model.graph import Graph
from andrea_lab.model.layout import layout
from andrea_lab.model.memory import Arena, plan
from andrea_lab.rng import rng
from kernels import adamw, clip
from kernels.matmul import gemm_with
from kernels.target import copy_to_host, run, set_threads, use

__all__ = ["Config", "Engine", "engine"]

INIT_SCALE = 0.02


class Engine:
    """One model in training.

    config: what to train. run_dir: folder for weight files (None: `save` is refused). target: "cpu", "cuda" or None for
    the one in use. threads: CPU threads or None for the default. batches: where token ids come from (default: the texts
    of the laboratory). weights: a weight file to begin with, None for the drawn first weights. poll: called between
    microbatches and sampled tokens; returns the pending wishes ("stop", ...) that a step hands on in `want`.

    Raises ConfigError, TextError, CheckpointError or KernelError, one line each, when the parts do not fit together.
    """

    def __init__(
        self,
        config: Config,
        *,
        run_dir: Path | str | None = None,
        target: str | None = None,
        threads: int | None = None,
        batches: Batches | None = None,
        weights: Path | None = None,
        poll: Callable[[], list[str]] = list,
    ):
        self.config, self.poll = config, poll
        self.run_dir = None if run_dir is None else Path(run_dir)
        train = config.train
        self.batches = Batches(config) if batches is None else batches
        if target is not None:
            use(target)
        if threads is not None:
            set_threads(threads)
        self.layout = layout(config.model)
        if weights is not None:
            _check_weights(weights, self.layout.n_params)
        self.plan = plan(config.model, train.batch, train.context)
        self.arena = Arena(self.plan)
        self._hp = np.zeros(self.plan.by_name["hp"].shape, np.float32)
        rows = train.batch * train.microbatches
        self._tokens, self._targets = (np.zeros((rows, train.context), np.int32) for _ in range(2))
        self._counted = np.zeros((rows, train.context), np.bool_)
        with gemm_with(train.gemm):
            self._build()
        self.sampler = Sampler(self.graph, self.batches, rng, train.gemm)
        self.done = 0  # steps applied so far
        self._saved: dict[str, Any] | None = None
        if weights is None:
            self._draw_weights()
        else:
            self.load(weights)

    def _build(self) -> None:
        """Bind every launch of a step, in the order in which it runs."""
        train, arena = self.config.train, self.arena
        self.graph = Graph(self.config.model, arena, train.batch, train.context)
        w, g, m, v, hp = (arena.view(name) for name in ("weights", "gradients", "m", "v", "hp"))
        self._device_hp = hp
        self._forward = self.graph.forward()
        self._microbatch = self._forward + self.graph.backward()
        self._norm = clip.norm(g, arena.view("partial"), hp)
        self._zero = clip.zero(g)
        self._update = adamw.update(w, g, m, v, hp, self.layout.regions()) + self._zero
        _upload(self.graph.arrays["dlosses"], np.ones(train.batch * train.context, np.float32))

    def _draw_weights(self) -> None:
        """normal(0, 0.02), W_O and W_2 by 1/sqrt(2 layers) less, gamma 1, beta 0; drawn by (seed, tensor name)."""
        for tensor in self.layout:
            kind = tensor.name.rsplit(".", 1)[-1]
            if kind in ("gamma", "beta"):
                values = np.full(tensor.shape, float(kind == "gamma"), np.float32)
            else:
                scale = INIT_SCALE / (sqrt(2 * self.config.model.layers) if kind in ("W_O", "W_2") else 1.0)
                draws = rng(self.config.train.seed, "init", tensor.name).normal(tensor.size)
                values = (draws * scale).astype(np.float32).reshape(tensor.shape)
            _upload(self.graph.weights[tensor.name], values)

    # ------------------------------------------------------------------------------------------------ the five verbs

    def step(self, request: dict[str, Any]) -> dict[str, Any]:
        """One optimiser update on one draw of one source, summed over the microbatches.

        loss is the mean over all counted tokens of the step, grad_norm that mean's gradient norm before clipping, clip
        the factor min(1, max_norm / grad_norm), tokens the number of counted targets, ms the wall time.
        Raises EngineError for a request out of turn, TrainingStopped when loss or gradient is not finite.
        """
        started = perf_counter()
        step = int(request["step"])
        if step != self.done + 1:
            raise EngineError(f"step: found {step}, expected {self.done + 1}, the one after the last")
        train = self.config.train
        self.batches.fill(request["source"], train.seed, int(request["draw"]), self._tokens, self._targets)
        np.greater_equal(self._targets, 0, out=self._counted)
        count = int(np.count_nonzero(self._counted))
        if not count:
            raise EngineError(f"step {step}: found no target to learn from in {request['source']!r}, expected one")
        total = self._accumulate()
        lr = learning_rate(train, step)
        self._write_hp(step, lr, count)
        run(self._norm)
        norm = float(copy_to_host(self._device_hp)[adamw.NORM])
        factor = float(min(1.0, train.clip / norm)) if train.clip and norm > 0 else 1.0
        result = {"step": step, "loss": _single(total / count), "grad_norm": _single(norm), "clip": _single(factor)}
        result |= {"lr": _single(lr), "tokens": count, "ms": 0.0, "want": list(self.poll())}
        finite = isfinite(total) and isfinite(norm)
        if finite:
            run(self._update)
            self.done = step
        result["ms"] = _single((perf_counter() - started) * 1e3)
        if not finite:
            bad = first_bad(self.graph) or ("gradient norm" if isfinite(total) else "loss")
            run(self._zero)
            raise TrainingStopped(step, bad, advice(train, lr), result)
        return result

    def save(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write step_NNNNNN.bin of the last step into the run directory. A step is written once."""
        if self.run_dir is None:
            raise EngineError("save: found an engine without a run directory, expected run_dir")
        step = int(request["step"])
        if step != self.done:
            raise EngineError(f"save: found step {step}, expected {self.done}, the last one done")
        if self._saved is None or self._saved["step"] != step:
            path = self.run_dir / single.file_name(step)
            arrays = (copy_to_host(self.arena.view(name)) for name in ("weights", "m", "v"))
            sha = single.write(path, step, *arrays, between=self.poll)
            self._saved = {"step": step, "file": path.name, "sha256": sha}
        return {"file": self._saved["file"], "sha256": self._saved["sha256"]}

    def sample(self, request: dict[str, Any]) -> dict[str, Any]:
        """Continue `prompt` by `tokens` tokens; temperature 0 always takes the likeliest one."""
        temperature, seed = float(request["temperature"]), int(request["seed"])
        text = self.sampler.text(request["prompt"], int(request["tokens"]), temperature, seed, self.poll)
        return {"text": text}

    def evaluate(self, request: dict[str, Any]) -> dict[str, Any]:
        """The mean loss over the counted targets of the first `batches` held-out batches of a source."""
        train, total, count = self.config.train, 0.0, 0
        wanted = int(request["batches"])
        for tokens, targets in self.batches.held_out(request["source"], wanted, train.batch, train.context):
            self._load(tokens, targets)
            run(self._forward)
            total += float(copy_to_host(self.graph.arrays["loss_sum"])[0])
            count += int((np.asarray(targets) >= 0).sum())
            self.poll()
        if not count:
            raise EngineError(f"evaluate: found no held-out target in {request['source']!r}, expected one")
        return {"loss": _single(total / count)}

    def close(self) -> None:
        """Let go of all arrays. The engine answers no verb afterwards."""
        for name in ("arena", "graph", "sampler", "_microbatch", "_forward", "_norm", "_update", "_zero", "_device_hp"):
            self.__dict__.pop(name, None)

    # ------------------------------------------------------------------------------------------------ what they share

    def load(self, path: Path) -> int:
        """Take weights, m, v and the step from a weight file. Raises CheckpointError."""
        _check_weights(path, self.layout.n_params)
        arrays = [self.arena.view(name) for name in ("weights", "m", "v")]
        if isinstance(arrays[0], np.ndarray):
            self.done = single.read_into(path, *arrays)
        else:
            self.done, *host = single.read(path)
            for array, values in zip(arrays, host, strict=True):
                _upload(array, values)
        self._saved = None
        return self.done

    def _accumulate(self) -> float:
        """Run all microbatches; gradients add up on the device. Returns the sum of the losses."""
        total, size = 0.0, self.config.train.batch
        for at in range(0, len(self._tokens), size):
            self._load(self._tokens[at : at + size], self._targets[at : at + size])
            run(self._microbatch)
            total += float(copy_to_host(self.graph.arrays["loss_sum"])[0])
            self.poll()
        return total

    def _load(self, tokens: np.ndarray, targets: np.ndarray) -> None:
        _upload(self.graph.arrays["tokens"], tokens)
        _upload(self.graph.arrays["targets"], targets)

    def _write_hp(self, step: int, lr: float, count: int) -> None:
        train, hp = self.config.train, self._hp
        hp[adamw.LR], hp[adamw.BETA1], hp[adamw.BETA2] = lr, train.beta1, train.beta2
        hp[adamw.EPS], hp[adamw.DECAY], hp[adamw.MAX_NORM] = train.eps, train.decay, train.clip
        hp[adamw.CORR1] = adamw.correction(train.beta1, step)
        hp[adamw.CORR2] = adamw.correction(train.beta2, step)
        hp[adamw.INV_COUNT] = 1.0 / count
        _upload(self._device_hp, hp)


@contextmanager
def engine(config: Config, **options: Any) -> Iterator[Engine]:
    """An Engine that is closed at the end of the block."""
    made = Engine(config, **options)
    try:
        yield made
    finally:
        made.close()


def _check_weights(path: Path, n: int) -> None:
    _, found = single.read_header(path)
    if found != n:
        raise single.CheckpointError(f"{path}: n_params: found {found}, expected the model's {n}")


def _single(value: float) -> float:
    """The nearest float32, as the Python float of its shortest decimal: what the log's line will read back to."""
    return float(str(np.float32(value)))


def _upload(array: Any, values: np.ndarray) -> None:
    """Copy host values into an array of the target without making another one."""
    if isinstance(array, np.ndarray):
        np.copyto(array, values)
    else:
        array.copy_to_device(np.ascontiguousarray(values))
