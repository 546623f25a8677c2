"""The loop: what a run leaves behind, and each way in which it may end."""

import json
import os
import signal
import threading

import numpy as np
import pytest

from andrea_lab.checkpoint import single
from andrea_lab.engine import engine as engine_module
from andrea_lab.engine.errors import TrainingStopped
from andrea_lab.engine.signals import Aborted, Signals, Stopped
from andrea_lab.model.config import ConfigError, load_config
from andrea_lab.proxy.loop import resume, train
from andrea_lab.run import segments
from andrea_lab.run.control import send
from andrea_lab.run.directory import RunDirectory, RunError
from andrea_lab.run.losslog import read_log
from tests.engine.tiny import RandomBatches, config

FIELDS = ["step", "segment", "policy", "source", "draw", "tokens", "loss", "grad_norm", "clip", "lr", "ms"]


@pytest.fixture(autouse=True)
def noise(monkeypatch):
    monkeypatch.setattr(engine_module, "Batches", lambda cfg: RandomBatches(sources=("a", "b")))


def files(folder) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def weights(folder) -> list[str]:
    return [name for name in files(folder) if name.endswith(".bin")]


def test_a_run_leaves_config_log_and_weights(tmp_path):
    seen = []
    result = train(config(), tmp_path / "r", steps=5, seed=3, save_every=2, on_entry=seen.append)
    made = ["step_000002.bin", "step_000004.bin", "step_000005.bin"]
    assert files(tmp_path / "r") == sorted(
        ["config.json", "engine.lock", "proxy.lock", "r.loss.json", "r.segments.json", "r.state.json"]
        + made + [f"{name}.sum" for name in made]
    )  # fmt: skip
    log = read_log(tmp_path / "r" / "r.loss.json")
    assert log.entries == seen and not log.torn
    assert [list(entry) for entry in seen] == [FIELDS] * 5
    assert [entry["step"] for entry in seen] == [1, 2, 3, 4, 5] and {entry["segment"] for entry in seen} == {1}
    assert (result.outcome, result.steps, result.loss, result.tokens) == ("finished", 5, seen[-1]["loss"], 160)
    assert set(result.held_out) == {"a", "b"}
    assert result.mean_held_out == pytest.approx(sum(result.held_out.values()) / 2)
    saved = load_config(tmp_path / "r" / "config.json")
    assert (saved.train.steps, saved.train.seed, saved.train.save_every) == (5, 3, 2)
    assert single.read_header(result.weights)[0] == 5


def test_the_same_run_twice_has_the_same_log_and_weights(tmp_path):
    for name in ("a", "b"):
        train(config(), tmp_path / name, steps=4)
    logs = [[{k: v for k, v in e.items() if k != "ms"} for e in read_log(tmp_path / n / f"{n}.loss.json").entries]
            for n in ("a", "b")]  # fmt: skip
    assert logs[0] == logs[1]
    assert (tmp_path / "a" / "step_000004.bin").read_bytes() == (tmp_path / "b" / "step_000004.bin").read_bytes()


def test_an_existing_run_is_refused_untouched(tmp_path):
    train(config(), tmp_path / "r", steps=1)
    before = {name: (tmp_path / "r" / name).read_bytes() for name in files(tmp_path / "r")}
    with pytest.raises(RunError, match=r"--run .*/r-2$"):
        train(config(), tmp_path / "r", steps=1)
    assert {name: (tmp_path / "r" / name).read_bytes() for name in files(tmp_path / "r")} == before


def test_a_configuration_that_cannot_run_creates_nothing(tmp_path):
    with pytest.raises(ConfigError, match=r"train\.steps: found 0"):
        train(config(), tmp_path / "r", steps=0)
    assert not list(tmp_path.iterdir())


def test_ctrl_c_ends_after_the_step_with_the_weights_saved(tmp_path):
    handler = signal.getsignal(signal.SIGINT)

    def press(entry):
        if entry["step"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    result = train(config(), tmp_path / "r", steps=20, on_entry=press)
    assert (result.outcome, result.steps, result.weights.name) == ("interrupted", 3, "step_000003.bin")
    assert result.held_out == {} and result.mean_held_out is None
    assert [e["step"] for e in read_log(tmp_path / "r" / "r.loss.json").entries] == [1, 2, 3]
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("by", ["signal", "file"])
def test_an_abort_asked_for_from_outside_saves_nothing_however_short_the_steps(tmp_path, by):
    def ask(entry):
        if entry["step"] == 7:
            send(tmp_path / "r", "abort", by=by)

    with pytest.raises(Aborted):
        train(config(), tmp_path / "r", steps=100_000, save_every=1000, on_entry=ask)
    assert not list((tmp_path / "r").glob("step_*"))
    assert segments.read(RunDirectory(tmp_path / "r"))[-1].outcome == "aborted"


def test_wishes_from_outside_are_recorded_at_the_step_they_were_met(tmp_path):
    wishes = {3: "save", 5: "save", 7: "stop"}

    def ask(entry):
        if entry["step"] in wishes:
            send(tmp_path / "r", wishes[entry["step"]])

    train(config(), tmp_path / "r", steps=100, save_every=5, on_entry=ask)
    (only,) = segments.read(RunDirectory(tmp_path / "r"))
    assert [(asked["step"], asked["wish"]) for asked in only.asked] == [*wishes.items()]
    with pytest.raises(Aborted):
        resume(tmp_path / "r", on_entry=lambda e: send(tmp_path / "r", "abort") if e["step"] == 9 else None)
    last = segments.read(RunDirectory(tmp_path / "r"))[-1]
    assert [asked["wish"] for asked in last.asked] == ["abort"] and last.asked[0]["step"] >= 9


def test_a_wish_that_cannot_be_recorded_is_met_all_the_same(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(segments, "note", full)
    notes = []

    def ask(entry):
        if entry["step"] in (2, 4):
            send(tmp_path / "r", "save" if entry["step"] == 2 else "stop")

    result = train(config(), tmp_path / "r", steps=20, on_entry=ask, on_note=notes.append)
    assert result.outcome == "interrupted" and weights(tmp_path / "r") == ["step_000002.bin", "step_000004.bin"]
    told = "r.segments.json: found No space left on device, expected to note a"
    assert [told in note for note in notes] == [True, True]


def test_ctrl_c_inside_a_step_lets_the_step_end(tmp_path, monkeypatch):
    accumulate = engine_module.Engine._accumulate

    def press(self):
        if self.done == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return accumulate(self)

    monkeypatch.setattr(engine_module.Engine, "_accumulate", press)
    result = train(config(), tmp_path / "r", steps=20)
    assert (result.outcome, result.steps) == ("interrupted", 2)
    assert single.read_header(tmp_path / "r" / "step_000002.bin")[0] == 2


def test_ctrl_c_before_the_first_step_creates_nothing(tmp_path, monkeypatch):
    build = engine_module.Engine._build

    def press(self):
        os.kill(os.getpid(), signal.SIGINT)
        return build(self)

    monkeypatch.setattr(engine_module.Engine, "_build", press)
    with pytest.raises(Stopped, match="before the first step"):
        train(config(), tmp_path / "r", steps=20)
    assert not list(tmp_path.iterdir())


def test_a_second_ctrl_c_ends_at_once_and_keeps_what_was_saved(tmp_path):
    def press(entry):
        if entry["step"] == 3:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Aborted):
        train(config(), tmp_path / "r", steps=20, save_every=2, on_entry=press)
    assert weights(tmp_path / "r") == ["step_000002.bin"]
    assert segments.read(RunDirectory(tmp_path / "r"))[-1].outcome == "aborted"


def test_another_thread_may_ask_for_a_stop(tmp_path):
    signals, done, notes = Signals(), [], []
    options = {"steps": 10_000, "signals": signals, "on_note": notes.append}

    def background():
        done.append(train(config(), tmp_path / "r", on_entry=lambda e: signals.ask("stop"), **options))

    thread = threading.Thread(target=background)
    thread.start()
    thread.join(60)
    assert done[0].outcome == "interrupted" and done[0].steps == 1
    assert len(notes) == 1 and "expected the main thread: only control files are heard" in notes[0]


def diverge(monkeypatch, at, lasting):
    """From step `at` on, a tensor is not finite while the step runs; lasting: and stays so."""
    step = engine_module.Engine.step

    def poisoned(self, request):
        tensor = self.graph.weights["layer0.W_1"]
        before = tensor.copy()
        if request["step"] == at:
            tensor[...] = np.nan
        try:
            return step(self, request)
        finally:
            if request["step"] == at and not lasting:
                tensor[...] = before

    monkeypatch.setattr(engine_module.Engine, "step", poisoned)


def test_divergence_is_logged_named_and_the_last_good_weights_are_saved(tmp_path, monkeypatch):
    diverge(monkeypatch, at=3, lasting=False)
    with pytest.raises(TrainingStopped, match=r"step 3: layer0\.W_1 is not finite"):
        train(config(), tmp_path / "r", steps=5)
    lines = (tmp_path / "r" / "r.loss.json").read_text().splitlines()
    last = json.loads(lines[-1])
    assert len(lines) == 3 and last["loss"] is None and last["nonfinite"]["loss"] == "nan"
    assert single.read_header(tmp_path / "r" / "step_000002.bin")[0] == 2
    assert segments.read(RunDirectory(tmp_path / "r"))[-1].outcome == "diverged"
    notes = []
    with pytest.raises(TrainingStopped, match=r"step 3: layer0\.W_1 is not finite"):
        resume(tmp_path / "r", on_note=notes.append)
    assert notes[-1] == "replay audit: 1 of 1 replayed steps equal to the log", "it diverges the same way again"
    assert (tmp_path / "r" / "r.loss.json").read_text().splitlines() == lines


def test_weights_that_are_not_finite_take_no_good_files_place(tmp_path, monkeypatch):
    diverge(monkeypatch, at=4, lasting=True)
    notes = []
    with pytest.raises(TrainingStopped, match=r"step 4: layer0\.W_1 is not finite"):
        train(config(), tmp_path / "r", steps=6, save_every=2, keep=1, on_note=notes.append)
    assert weights(tmp_path / "r") == ["step_000002.bin"] and (tmp_path / "r" / "step_000003.bin.nonfinite-1").is_file()
    assert len(notes) == 1 and "the weights before the step were not saved: " in notes[0] and "W_1" in notes[0]


def test_a_divergence_at_the_first_step_saves_nothing(tmp_path, monkeypatch):
    diverge(monkeypatch, at=1, lasting=True)
    with pytest.raises(TrainingStopped, match="step 1"):
        train(config(), tmp_path / "r", steps=6)
    assert weights(tmp_path / "r") == []


def test_an_error_in_the_callers_hook_leaves_the_log_whole(tmp_path):
    def fail(entry):
        raise RuntimeError("hook")

    with pytest.raises(RuntimeError, match="hook"):
        train(config(), tmp_path / "r", steps=5, on_entry=fail)
    assert len(read_log(tmp_path / "r" / "r.loss.json").entries) == 1
