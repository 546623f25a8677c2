"""The engine: arrays, launches and five verbs. Plain JSON values go in and come out.

- `step({step, source, draw})` -> `{step, loss, grad_norm, clip, lr, tokens, ms, want}`, or `{step, dropped, want}`
- `save({step, entry, wait})` -> `{file, sha256}`
- `sample({prompt, tokens, temperature, seed})` -> `{text, tokens}`
- `evaluate({source, batches})` -> `{loss, batches}`
- `close()`

The engine cuts its own batches, a function of (seed, source, draw), and writes no log. Everything it uses is allocated
before the first step; a step allocates nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite, sqrt
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import numpy as np

from andrea_lab.checkpoint import single
from andrea_lab.checkpoint.load import Loaded, load
from andrea_lab.engine.batches import Batches
from andrea_lab.engine.diagnose import advice, first_bad
from andrea_lab.engine.errors import EngineError, TrainingStopped, wanted
from andrea_lab.engine.grace import Grace
from andrea_lab.engine.machine import machine
from andrea_lab.engine.sampling import Sampler
from andrea_lab.engine.schedule import learning_rate
from andrea_lab.engine.signals import Signals, Stopped
from andrea_lab.engine.store import Store, told
from andrea_lab.model.config import Config, load_config
from andrea_lab.model.graph import Graph
from andrea_lab.model.layout import layout
from andrea_lab.model.memory import Arena, plan
from andrea_lab.rng import rng
from kernels import adamw, clip
from kernels.matmul import gemm_with
from kernels.target import copy_to_host, run, set_threads, use

__all__ = ["Config", "Engine", "engine", "load_config"]

INIT_SCALE = 0.02
VECTORS = ("weights", "m", "v")
HELD = ("arena", "graph", "sampler", "_microbatch", "_forward", "_norm", "_update", "_zero", "_device_hp")


class Engine:
    """One model in training.

    config: what to train. run_dir: folder for weight files (None: `save` is refused). target: "cpu", "cuda" or None for
    the one in use. threads: CPU threads or None for the default. batches: where token ids come from (default: the texts
    of the laboratory). weights: a weight file to begin with; resume: begin with the newest checkpoint of run_dir that
    passes every test, told in `loaded`; neither: the drawn first weights. signals: what was asked from outside; a step
    hands the wishes on in `want`, a save meets "save". poll: the same for a caller with wishes of its own. It is
    called between microbatches, kernel compilations, sampled tokens, evaluation batches, pieces of a file.

    A run directory has one engine: its lock is taken at the start of a resume, else at the first step or save.
    Raises ConfigError, TextError, CheckpointError, KernelError, EngineError or LockError, one line each, when the parts
    do not fit together; Stopped when a stop was asked for meanwhile.
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
        resume: bool = False,
        signals: Signals | None = None,
        poll: Callable[[], list[str]] = list,
    ):
        if resume and (run_dir is None or weights is not None):
            raise EngineError("resume: found no run_dir, or weights as well, expected run_dir alone")
        self.config, self.signals = config, signals
        self.poll = poll if signals is None else signals.poll
        self.run_dir = None if run_dir is None else Path(run_dir)
        self.done = 0  # steps applied so far
        self.loaded: dict[str, Any] | None = None  # what `resume` or `weights` began with, and what it passed over
        self._stop_seen: float | None = None
        self._whole = True  # w, m and v belong together
        self.layout = layout(config.model)
        self._start, self.store = _Start(self.poll), None
        if self.run_dir is not None:
            self.store = Store(self.run_dir, config, self.layout, self._start, signals)
        try:
            if resume:
                self.store.claim(patient=True)
            self._prepare(target, threads, batches)
            self._begin(weights, resume)
        except BaseException:
            self.close()
            raise
        self._start.over = True

    @property
    def sources(self) -> list[str]:
        """Names of the texts a step may ask for."""
        return list(self.batches.sources)

    @property
    def machine(self) -> dict[str, Any]:
        """What the bits of a step hang on, see `machine.machine`."""
        return machine(self.config)

    @property
    def save_errors(self) -> list[str]:
        """A line for each save in the background that failed without stopping the run."""
        return [] if self.store is None else self.store.errors

    def _prepare(self, target: str | None, threads: int | None, batches: Batches | None) -> None:
        """Allocate and compile everything a step needs."""
        config, train = self.config, self.config.train
        self.batches = Batches(config) if batches is None else batches
        if target is not None:
            use(target)
        if threads is not None:
            set_threads(threads)
        self.plan = plan(config.model, train.batch, train.context)
        self.arena = Arena(self.plan)
        self.grace = Grace(train.grace, single.nbytes(self.layout.n_params))
        self._hp = np.zeros(self.plan.by_name["hp"].shape, np.float32)
        rows = train.batch * train.microbatches
        self._tokens, self._targets = (np.zeros((rows, train.context), np.int32) for _ in range(2))
        self._counted = np.zeros((rows, train.context), np.bool_)
        with gemm_with(train.gemm):
            self._build()
        self.sampler = Sampler(self.graph, self.batches, rng, train.gemm)

    def _begin(self, weights: Path | None, resume: bool) -> None:
        """Weights, m, v and the step: those of a file, or the first ones."""
        if resume:
            self.loaded = self.store.newest(self._load_file)
        elif weights is not None:
            self.load(weights)
        else:
            self._draw_weights()

    def _build(self) -> None:
        """Bind every launch of a step, in the order in which it runs."""
        train, arena = self.config.train, self.arena
        self.graph = Graph(self.config.model, arena, train.batch, train.context, self._start)
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
        the factor min(1, max_norm / grad_norm), tokens the number of counted targets, ms the wall time. When a stop
        came and the step and a save do not fit into train.grace, the step is not applied: {step, dropped: True, want}.
        Raises EngineError for a request out of turn, TrainingStopped when loss or gradient is not finite, SaveError
        when the last save failed in the background.
        """
        self._started = perf_counter()
        step = wanted(request, "step", "step", int)
        source, draw = wanted(request, "step", "source", str), wanted(request, "step", "draw", int)
        if step != self.done + 1:
            raise EngineError(f"step: found {step}, expected {self.done + 1}, the one after the last")
        self._check_whole()
        if self.store is not None:
            self.store.claim()
            self.store.settle(wait=False)
        train = self.config.train
        self.batches.fill(source, train.seed, draw, self._tokens, self._targets)
        np.greater_equal(self._targets, 0, out=self._counted)
        count = int(np.count_nonzero(self._counted))
        if not count:
            raise EngineError(f"step {step}: found no target to learn from in {source!r}, expected one")
        try:
            total = self._accumulate()
        except BaseException:
            run(self._zero)
            raise
        if total is None:
            run(self._zero)
            return {"step": step, "dropped": True, "want": list(self.poll())}
        return self._apply(step, total, count)

    def save(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write step_NNNNNN.bin of the last step into the run directory. A step is written once.

        entry: the step's line of the log, or None, kept beside the file. wait (True): False returns once the arrays are
        copied, with sha256 None; how it went is told by the next save, step or close. Raises SaveError when the disk
        fails, CheckpointError for weights that are not finite.
        """
        if self.store is None:
            raise EngineError("save: found an engine without a run directory, expected run_dir")
        step, wait = wanted(request, "save", "step", int), wanted(request, "save", "wait", bool, True)
        if step != self.done:
            raise EngineError(f"save: found step {step}, expected {self.done}, the last one done")
        self._check_whole()
        saved = self.store.save(step, self._host, wanted(request, "save", "entry", dict, {}), wait)
        if self.signals is not None:
            self.signals.clear("save")
        return {"file": saved["file"], "sha256": saved["sha256"]}

    def sample(self, request: dict[str, Any]) -> dict[str, Any]:
        """Continue `prompt` by `tokens` tokens, fewer when a stop comes; temperature 0 always takes the likeliest."""
        prompt, tokens = wanted(request, "sample", "prompt", str), wanted(request, "sample", "tokens", int)
        temperature, seed = wanted(request, "sample", "temperature", float), wanted(request, "sample", "seed", int)
        text, count = self.sampler.text(prompt, tokens, temperature, seed, self.poll)
        return {"text": text, "tokens": count}

    def evaluate(self, request: dict[str, Any]) -> dict[str, Any]:
        """The mean loss over the counted targets of the first `batches` held-out batches of a source.

        When a stop comes it is the mean over those seen so far, `batches` says how many.
        """
        source, most = wanted(request, "evaluate", "source", str), wanted(request, "evaluate", "batches", int)
        train, total, count, seen = self.config.train, 0.0, 0, 0
        if self.store is not None:
            self.store.settle()
        for tokens, targets in self.batches.held_out(source, most, train.batch, train.context):
            self._load(tokens, targets)
            run(self._forward)
            total += float(copy_to_host(self.graph.arrays["loss_sum"])[0])
            count += int((np.asarray(targets) >= 0).sum())
            seen += 1
            if "stop" in self.poll() and count:
                break
        if not count:
            raise EngineError(f"evaluate: found no held-out target in {source!r}, expected one")
        return {"loss": _single(total / count), "batches": seen}

    def close(self) -> None:
        """Wait for a save in the background, let go of the lock and of all arrays. No verb is answered afterwards."""
        try:
            if self.store is not None:
                self.store.close()
        finally:
            for name in HELD:
                self.__dict__.pop(name, None)

    # ------------------------------------------------------------------------------------------------ what they share

    def load(self, path: Path) -> int:
        """Take weights, m, v and the step from a weight file, once no save is pending. Raises CheckpointError."""
        if self.store is not None:
            self.store.settle()
        found = self._load_file(Path(path))
        self.loaded = told(Path(path), found, [])
        return self.done

    def _load_file(self, path: Path) -> Loaded:
        arrays = [self.arena.view(name) for name in VECTORS]
        on_host = isinstance(arrays[0], np.ndarray)
        host = arrays if on_host else [np.empty(self.layout.n_params, np.float32) for _ in VECTORS]
        self._whole = self._whole and not self._fits(path)
        found = load(path, *host, between=self._start)
        if not on_host:
            for array, values in zip(arrays, host, strict=True):
                _upload(array, values)
        self.done, self._whole = found.step, True
        if self.store is not None:
            self.store.forget()
        return found

    def _fits(self, path: Path) -> bool:
        """Whether the file's header is one of this model's; one that is not is refused before any array is touched."""
        try:
            return single.read_header(path)[1] == self.layout.n_params
        except single.CheckpointError:
            return False

    def _host(self) -> list[np.ndarray]:
        return [copy_to_host(self.arena.view(name)) for name in VECTORS]

    def _check_whole(self) -> None:
        """Refuse to go on from arrays that an interruption or a failed load left half written."""
        if not self._whole:
            raise EngineError(f"weights: found an update or a load broken off after step {self.done}, expected a load")

    def _too_late(self, rows: int) -> bool:
        """A poll point in a step, `rows` rows of it done: whether a stop came and the step has to be dropped for it."""
        if "stop" not in self.poll():
            self._stop_seen = None
            return False
        if self._stop_seen is None:
            self._stop_seen = monotonic()
        since = self._stop_seen if self.signals is None else self.signals.stop_since
        saves = () if self.store is None else (self.store.seconds, self.store.pending)
        return self.grace.over(since, perf_counter() - self._started, rows / len(self._tokens), *saves)

    def _accumulate(self) -> float | None:
        """Run all microbatches; gradients add up on the device. The sum of the losses, None for a step to drop."""
        total, size = 0.0, self.config.train.batch
        for at in range(0, len(self._tokens), size):
            if self._too_late(at):
                return None
            self._load(self._tokens[at : at + size], self._targets[at : at + size])
            run(self._microbatch)
            total += float(copy_to_host(self.graph.arrays["loss_sum"])[0])
        return None if self._too_late(len(self._tokens)) else total

    def _apply(self, step: int, total: float, count: int) -> dict[str, Any]:
        """Scale, clip, update, zero the gradients; what `step` returns."""
        train = self.config.train
        lr = learning_rate(train, step)
        self._write_hp(step, lr, count)
        run(self._norm)
        norm = float(copy_to_host(self._device_hp)[adamw.NORM])
        factor = float(min(1.0, train.clip / norm)) if train.clip and norm > 0 else 1.0
        result = {"step": step, "loss": _single(total / count), "grad_norm": _single(norm), "clip": _single(factor)}
        result |= {"lr": _single(lr), "tokens": count, "ms": 0.0, "want": list(self.poll())}
        finite = isfinite(total) and isfinite(norm)
        if finite:
            self._whole = False
            run(self._update)
            self.done, self._whole = step, True
        seconds = perf_counter() - self._started
        result["ms"] = _single(seconds * 1e3)
        if not finite:
            bad = first_bad(self.graph) or ("gradient norm" if isfinite(total) else "loss")
            run(self._zero)
            raise TrainingStopped(step, bad, advice(train, lr), result)
        self.grace.note(seconds)
        return result

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


class _Start:
    """A poll point. Until the start is over a stop ends it, as there is nothing to save."""

    def __init__(self, poll: Callable[[], list[str]]):
        self.poll, self.over = poll, False

    def __call__(self) -> None:
        if "stop" in self.poll() and not self.over:
            raise Stopped("stopped before the first step: nothing was written")


@contextmanager
def engine(config: Config, **options: Any) -> Iterator[Engine]:
    """An Engine that is closed at the end of the block."""
    made = Engine(config, **options)
    try:
        yield made
    finally:
        made.close()


def _single(value: float) -> float:
    """The nearest float32, as the Python float of its shortest decimal: what the log's line will read back to."""
    return float(str(np.float32(value)))


def _upload(array: Any, values: np.ndarray) -> None:
    """Copy host values into an array of the target without making another one."""
    if isinstance(array, np.ndarray):
        np.copyto(array, values)
    else:
        array.copy_to_device(np.ascontiguousarray(values))
