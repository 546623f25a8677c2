"""The training loop: choose, step, log, save; and the end of a run, whichever way it comes."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from andrea_lab.engine.engine import Config, Engine
from andrea_lab.engine.errors import TrainingStopped
from andrea_lab.proxy.chooser import Uniform
from andrea_lab.run.directory import RunDirectory, check_free
from andrea_lab.run.losslog import LossLog

HELD_OUT_BATCHES = 8
FIELDS = ("tokens", "loss", "grad_norm", "clip", "lr", "ms")


@dataclass(frozen=True)
class RunResult:
    """How a run ended. outcome is "finished" or "interrupted"; losses are in nats per token.

    loss: of the last step. held_out: the mean over each source's held-out batches, empty when interrupted.
    """

    run_dir: Path
    outcome: str
    steps: int
    loss: float
    weights: Path
    tokens: int
    seconds: float
    held_out: dict[str, float] = field(default_factory=dict)

    @property
    def mean_held_out(self) -> float | None:
        """The mean over the sources, every source counting the same."""
        return sum(self.held_out.values()) / len(self.held_out) if self.held_out else None


class Wishes:
    """What was asked of a running loop from outside, kept until a poll point sees it."""

    def __init__(self):
        self.pending: list[str] = []

    def ask(self, wish: str) -> None:
        if wish not in self.pending:
            self.pending.append(wish)

    def poll(self) -> list[str]:
        """The wishes so far; the list itself, so that polling allocates nothing."""
        return self.pending


@contextmanager
def interruptible(wishes: Wishes) -> Iterator[None]:
    """Inside the block the first Ctrl-C asks for a stop after the step in progress, a second one ends at once.

    Signals can only be handled in the main thread; elsewhere Ctrl-C keeps its meaning.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, frame: Any) -> None:
        if "stop" in wishes.pending:
            raise KeyboardInterrupt
        wishes.ask("stop")

    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def train(
    config: Config,
    run_dir: Path | str,
    *,
    steps: int | None = None,
    seed: int | None = None,
    target: str | None = None,
    threads: int | None = None,
    save_every: int | None = None,
    on_entry: Callable[[dict], None] | None = None,
    held_out_batches: int = HELD_OUT_BATCHES,
    wishes: Wishes | None = None,
) -> RunResult:
    """Train a new run from its first weights and leave config.json, the loss log and weight files in `run_dir`.

    steps, seed, save_every replace those of the configuration. on_entry(entry) is called after each logged step.
    wishes lets another thread ask for a "stop". Weights are saved every save_every steps, at the end, and at a stop.
    Raises ConfigError, RunError, TextError, KernelError before anything is created, and KeyboardInterrupt for a stop
    before the first step; TrainingStopped when the loss or the gradient is not finite, with the weights of the step
    before saved.
    """
    config = config.with_train(steps=steps, seed=seed, save_every=save_every)
    check_free(Path(run_dir))
    wishes = Wishes() if wishes is None else wishes
    with interruptible(wishes):
        engine = Engine(config, run_dir=run_dir, target=target, threads=threads, poll=wishes.poll)
        try:
            if "stop" in wishes.poll():
                raise KeyboardInterrupt  # asked for while kernels were compiled: there is nothing to save yet
            run = RunDirectory.create(run_dir, config.to_json())
            with LossLog(run.log) as log:
                return _run(config, engine, run, log, on_entry, held_out_batches)
        finally:
            engine.close()


def _run(
    config: Config,
    engine: Engine,
    run: RunDirectory,
    log: LossLog,
    on_entry: Callable[[dict], None] | None,
    held_out_batches: int,
) -> RunResult:
    chooser = Uniform(list(engine.batches.sources), config.train.seed)
    started, tokens, outcome, entry = perf_counter(), 0, "finished", {}
    for step in range(engine.done + 1, config.train.steps + 1):
        source, draw = chooser.choose(step)
        named = {"step": step, "segment": 1, "policy": chooser.policy, "source": source, "draw": draw}
        try:
            result = engine.step({"step": step, "source": source, "draw": draw})
        except TrainingStopped as stop:
            log.append(named | {key: stop.result[key] for key in FIELDS})
            engine.save({"step": engine.done, "entry": entry})
            raise
        entry = named | {key: result[key] for key in FIELDS}
        log.append(entry)
        chooser.learn(entry)
        tokens += entry["tokens"]
        if on_entry is not None:
            on_entry(entry)
        if "stop" in result["want"] or "stop" in engine.poll():
            outcome = "interrupted"
        due = config.train.save_every and step % config.train.save_every == 0
        if due or outcome == "interrupted" or step == config.train.steps:
            saved = engine.save({"step": step, "entry": entry})
        if outcome == "interrupted":
            break
    seconds = perf_counter() - started
    held_out = {}
    if outcome == "finished" and held_out_batches:
        for name in chooser.sources:
            held_out[name] = engine.evaluate({"source": name, "batches": held_out_batches})["loss"]
    return RunResult(run.path, outcome, step, entry["loss"], run.path / saved["file"], tokens, seconds, held_out)
