"""The training loop: choose, step, log, save; the end of a run, whichever way it comes; and going on after it."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from andrea_lab.engine.client import EngineDied, EngineProcess
from andrea_lab.engine.engine import Config, Engine, load_config
from andrea_lab.engine.entries import entry_of
from andrea_lab.engine.errors import TrainingStopped
from andrea_lab.engine.last_save import save_last
from andrea_lab.engine.signals import Signals, Stopped
from andrea_lab.proxy.chooser import Uniform
from andrea_lab.proxy.records import Records
from andrea_lab.proxy.recovery import Note
from andrea_lab.run.directory import RunDirectory, check_free
from andrea_lab.run.losslog import LossLog

HELD_OUT_BATCHES = 8


@dataclass(frozen=True)
class RunResult:
    """How a run ended. outcome is "finished", "interrupted" or "nothing to do"; losses are in nats per token.

    steps: the last step done, of all segments. loss: of that step, None if no log holds it. weights: its file, None
    for a run that was stopped in its first step.
    tokens, seconds: of this segment. held_out: the mean over each source's held-out batches, empty unless finished.
    segment: its number. resumed_from: the weight file it began with. rejected: the newer ones that did not pass, each
    with the reason. audit: how many repeated steps came out as logged.
    """

    run_dir: Path
    outcome: str
    steps: int
    loss: float | None
    weights: Path | None
    tokens: int = 0
    seconds: float = 0.0
    held_out: dict[str, float] = field(default_factory=dict)
    segment: int = 0
    resumed_from: str | None = None
    rejected: list[dict[str, Any]] = field(default_factory=list)
    audit: dict[str, Any] | None = None

    @property
    def mean_held_out(self) -> float | None:
        """The mean over the sources, every source counting the same."""
        return sum(self.held_out.values()) / len(self.held_out) if self.held_out else None


def train(
    config: Config,
    run_dir: Path | str,
    *,
    steps: int | None = None,
    seed: int | None = None,
    target: str | None = None,
    threads: int | None = None,
    save_every: int | None = None,
    keep: int | None = None,
    until: int | None = None,
    process: bool = False,
    on_entry: Callable[[dict], None] | None = None,
    on_note: Note | None = None,
    held_out_batches: int = HELD_OUT_BATCHES,
    signals: Signals | None = None,
) -> RunResult:
    """Train a new run from its first weights and leave config.json, the loss log and weight files in `run_dir`.

    steps, seed, save_every, keep replace those of the configuration; until ends the run earlier, its schedule as it
    is. process: the engine is a process of its own. on_entry(entry) is called after each step, on_note(line) with what
    a person should know. signals lets another thread ask for "save" or "stop". Weights are saved every save_every
    steps, when asked for, at a stop and at the end.

    Raises ConfigError, RunError, LockError, TextError, KernelError, and Stopped for a stop before the first step, all
    before anything is created; TrainingStopped when the loss or the gradient is not finite, with the weights of the
    step before saved; SaveError when the disk fails; Aborted.
    """
    config = config.with_train(steps=steps, seed=seed, save_every=save_every, keep=keep)
    run = RunDirectory(run_dir)
    check_free(run.path)
    note = on_note or _unheard
    options = {"resume": False, "target": target, "threads": threads}
    with (
        _heard(signals, run, note) as signals,
        closing(_engine(config, run, signals, process, **options)) as engine,
    ):
        if "stop" in engine.poll():
            raise Stopped("stopped before the first step: nothing was written")
        run = RunDirectory.create(run.path, config.to_json())
        with run.lock("proxy"):
            return _Segment(config, engine, run, on_entry, note).go(until, held_out_batches)


def resume(
    run_dir: Path | str,
    *,
    until: int | None = None,
    target: str | None = None,
    threads: int | None = None,
    process: bool = False,
    on_entry: Callable[[dict], None] | None = None,
    on_note: Note | None = None,
    held_out_batches: int = HELD_OUT_BATCHES,
    signals: Signals | None = None,
) -> RunResult:
    """Go on with a run from its newest checkpoint that passes every test; arguments as for `train`.

    Steps that are logged already are repeated and compared, not logged again. until: the last step, the configuration's
    when None; beyond that the learning rate stays at the schedule's end. Raises what `train` raises, LockError when
    another proxy or engine is at work here, EngineError when no checkpoint passes.
    """
    run = RunDirectory.open(run_dir)
    config = load_config(run.config)
    note = on_note or _unheard
    options = {"resume": True, "target": target, "threads": threads}
    with (
        run.lock("proxy"),  # first: wishes that lie there may be for the one who has it
        _heard(signals, run, note) as signals,
        closing(_engine(config, run, signals, process, **options)) as engine,
    ):
        _tell_loaded(run, config, engine.loaded, until, note)
        return _Segment(config, engine, run, on_entry, note).go(until, held_out_batches)


class _Segment:
    """One uninterrupted stretch of a run: its steps, its saves, its end."""

    def __init__(self, config: Config, engine: Any, run: RunDirectory, on_entry: Callable | None, note: Note):
        self.config, self.engine, self.run, self.note = config, engine, run, note
        self.on_entry = on_entry or _unheard
        self.loaded = engine.loaded
        self.entry = self.loaded["entry"] if self.loaded else None
        self.weights = run.path / self.loaded["file"] if self.loaded else None
        self.chooser = Uniform(list(engine.sources), config.train.seed)
        self.tokens, self.told = 0, 0

    def go(self, until: int | None, held_out_batches: int) -> RunResult:
        """Run to the last step or a stop, and say how it went."""
        last = self.config.train.steps if until is None else until
        patient = self.config.train.save_errors == "go_on"
        with LossLog(self.run.log) as log:
            self.records = Records(self.run, log, self.chooser, self.engine, patient, self.note)
            if self.engine.done >= last:
                return self._result("nothing to do", 0.0, {})
            started, held_out = perf_counter(), {}
            with self.records:
                self.records.bring_chooser()
                outcome = self.records.outcome = self._steps(last)
                seconds = perf_counter() - started
                if outcome == "finished":
                    self._sample(last)
                    held_out = self._evaluate(held_out_batches)
        return self._result(outcome, seconds, held_out)

    def _steps(self, last: int) -> str:
        """The steps up to `last`; returns the outcome, with the weights of the last step done on disk."""
        outcome = "finished"
        if self.loaded:
            self._sample(self.engine.done)  # it may not have got that far
        try:
            for step in range(self.engine.done + 1, last + 1):
                if "stop" in self.engine.poll() or not self._step(step):
                    outcome = "interrupted"
                    break
                if step < last:
                    self._between(step)
        except TrainingStopped:
            with self._beside("the weights before the step were not saved"):
                self._save(wait=True)
            raise
        self._save(wait=True)
        if outcome == "interrupted":
            self.records.asked("stop")
        return outcome

    def _step(self, step: int) -> bool:
        """One step, logged; False when a stop came and the step was dropped, or the engine had saved and left."""
        source, draw = self.chooser.choose(step)
        named = {"step": step, "segment": self.records.segment, "policy": self.chooser.policy}
        named |= {"source": source, "draw": draw}
        try:
            result = self.engine.step(named)
        except TrainingStopped as stop:
            with self._beside(f"step {step} was not logged"):
                self.records.entry(entry_of(named, stop.result))
            raise
        except EngineDied as end:
            if end.code:
                raise
            return False
        if result.get("dropped"):
            return False
        self.entry = entry_of(named, result)
        self.records.entry(self.entry)
        self.tokens += self.entry["tokens"]
        self.on_entry(self.entry)
        return True

    @contextmanager
    def _if_still_there(self) -> Iterator[None]:
        """What may be left out when the engine was told to stop, had saved and has left."""
        try:
            yield
        except EngineDied as end:
            if end.code:
                raise

    @contextmanager
    def _beside(self, what: str) -> Iterator[None]:
        """While a run ends: what fails as well is told, so that the first error is the one that is raised."""
        try:
            yield
        except (ValueError, OSError, EngineDied) as error:
            self.note(f"{what}: {error}")

    def _between(self, step: int) -> None:
        """What comes between two steps: a save that is due or was asked for, a sample."""
        wishes = self.engine.poll()
        if "stop" in wishes:
            return
        asked = "save" in wishes  # the list is the engine's own, and a save crosses it out
        if asked or _due(step, self.config.train.save_every):
            self._save(wait=False)
        if asked:
            self.records.asked("save")
        self._sample(step)

    def _save(self, wait: bool) -> None:
        """Save the last step done, unless it is the one this segment began with."""
        step = self.engine.done
        if step == (self.loaded["step"] if self.loaded else 0):
            return
        request = {"step": step, "entry": self.entry, "wait": wait}
        saved = save_last(self.engine, request) if wait else self.engine.save(request)
        self.weights = self.run.path / saved["file"]
        self.records.state(step)
        for line in self.engine.save_errors[self.told :]:
            self.note(f"save failed, going on as train.save_errors says: {line}")
            self.told += 1

    def _sample(self, step: int) -> None:
        """Let the model write, where that is due; a stop is not held up by it."""
        train = self.config.train
        if _due(step, train.sample_every) and "stop" not in self.engine.poll():
            with self._if_still_there():
                self.records.sample(step, train.sample_tokens)

    def _evaluate(self, batches: int) -> dict[str, float]:
        """The held-out loss of every source; of none when a stop is asked for meanwhile."""
        held_out = {}
        with self._if_still_there():
            for name in self.chooser.sources if batches else ():
                if "stop" in self.engine.poll():
                    return {}
                held_out[name] = self.engine.evaluate({"source": name, "batches": batches})["loss"]
            return held_out
        return {}

    def _result(self, outcome: str, seconds: float, held_out: dict[str, float]) -> RunResult:
        loaded, loss = self.loaded, self.entry["loss"] if self.entry else None
        began = {"resumed_from": loaded["file"], "rejected": loaded["rejected"]} if loaded else {}
        began |= {"audit": self.records.audit.summary()} if loaded else {}
        rest = (self.tokens, seconds, held_out, self.records.segment)
        return RunResult(self.run.path, outcome, self.engine.done, loss, self.weights, *rest, **began)


@contextmanager
def _heard(signals: Signals | None, run: RunDirectory, note: Note) -> Iterator[Signals]:
    """Wishes from outside, heard inside the block."""
    with Signals(run.control) if signals is None else signals as made:
        if made.degraded:
            note(made.degraded)
        yield made


def _engine(config: Config, run: RunDirectory, signals: Signals, process: bool, **options: Any) -> Any:
    """An engine in this process, or in one of its own."""
    if process:
        return EngineProcess(config, run_dir=run.path, signals=signals, **options)
    return Engine(config, run_dir=run.path, signals=signals, **options)


def _tell_loaded(run: RunDirectory, config: Config, loaded: dict[str, Any], until: int | None, note: Note) -> None:
    """Say what the run goes on from, what was passed over and why, and whether it goes on under other settings."""
    for each in loaded["rejected"]:
        note(f"rejected {each['file']}, {each['verdict']}: {each['reason']}")
    unsure = "" if loaded["verified"] else f"; {loaded['reason']}"
    note(f"resumed from {loaded['file']}, step {loaded['step']}{unsure}")
    now = {hashlib.sha256(text).hexdigest() for text in (run.config.read_bytes(), config.to_json().encode())}
    if loaded["config"] is not None and loaded["config"] not in now:
        note(f"{run.config.name}: found other settings than {loaded['file']} was saved under: they hold from here on")
    train, first = config.train, max(loaded["step"], config.train.steps) + 1
    if until is not None and until >= first:
        note(f"steps {first} to {until} are beyond the schedule: lr stays at {train.min_lr * train.lr:g}")


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _unheard(_: Any) -> None:
    pass
