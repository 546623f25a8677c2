"""What is said when a run ends or begins in more than one way at once: the first error, and the truth of each line."""

import json
import threading

import numpy as np
import pytest

from andrea_lab.checkpoint import save as saving
from andrea_lab.checkpoint.files import Files
from andrea_lab.checkpoint.save import SaveError
from andrea_lab.cli import main
from andrea_lab.commands.progress import finish
from andrea_lab.engine.client import EngineProcess
from andrea_lab.engine.engine import Engine
from andrea_lab.engine.errors import TrainingStopped
from andrea_lab.engine.signals import Signals
from andrea_lab.proxy.loop import resume, train
from andrea_lab.proxy.records import Records
from andrea_lab.run import segments
from andrea_lab.run.directory import RunDirectory
from andrea_lab.run.losslog import LossLog
from tests.proxy.runs import QUIET, digests, small


@pytest.fixture
def cfg(tmp_path):
    return small(tmp_path, steps=6, save_every=2)


@pytest.fixture
def run(tmp_path, cfg):
    train(cfg, tmp_path / "r", **QUIET)
    return tmp_path / "r"


def test_a_record_that_cannot_be_read_hides_no_error(run):
    def hook(entry):
        path = RunDirectory(run).segments
        path.unlink()
        path.mkdir()
        raise KeyError("the first error")

    notes = []
    with pytest.raises(KeyError, match="the first error"):
        resume(run, until=9, on_entry=hook, on_note=notes.append, **QUIET)
    assert notes[-1].startswith("replay audit: ")


def test_a_resume_that_fails_before_its_first_step_has_an_end(run, monkeypatch):
    (run / "r.state.json").write_text("{")
    rename = Files.rename

    def full(self, old, new):
        if ".bad-" in new.name:
            raise OSError(28, "No space left on device", str(new))
        rename(self, old, new)

    with monkeypatch.context() as patch:
        patch.setattr(Files, "rename", full)
        with pytest.raises(OSError, match="No space left"):
            resume(run, until=7, **QUIET)
    assert segments.read(RunDirectory(run))[-1].outcome == "save failed"
    notes = []
    resume(run, until=7, on_note=notes.append, **QUIET)
    assert not any("killed" in note for note in notes) and any("it was moved to r.state.json.bad-3" in n for n in notes)


def test_a_divergence_that_cannot_be_logged_is_still_a_divergence(tmp_path, monkeypatch):
    append = LossLog.append

    def failing(self, entry):
        if entry["step"] > 1:
            raise OSError(28, "No space left on device", str(self.path))
        append(self, entry)

    monkeypatch.setattr(LossLog, "append", failing)
    notes = []
    with pytest.raises(TrainingStopped, match="step 2: .* is not finite"):
        train(small(tmp_path, lr=1e30, warmup=0), tmp_path / "r", on_note=notes.append, **QUIET)
    assert len(notes) == 1 and notes[0].startswith("step 2 was not logged: ") and "No space left" in notes[0]


@pytest.mark.parametrize("lasting", [False, True])
def test_a_stop_saves_the_last_step_though_an_older_save_failed(tmp_path, cfg, monkeypatch, lasting):
    real, stopped, signals = saving.save, threading.Event(), Signals()

    def failing(folder, step, *arrays, **options):
        if step == 2 or lasting:
            assert stopped.wait(60)
            raise SaveError(f"step {step}: No space left on device", 28)
        return real(folder, step, *arrays, **options)

    def hook(entry):
        if entry["step"] == 3:
            signals.ask("stop")
            stopped.set()

    monkeypatch.setattr("andrea_lab.checkpoint.saver.save", failing)
    if lasting:
        with pytest.raises(SaveError, match="step 3: No space left"):
            train(cfg, tmp_path / "r", on_entry=hook, signals=signals, **QUIET)
        return
    result = train(cfg, tmp_path / "r", on_entry=hook, signals=signals, **QUIET)
    assert (result.outcome, result.weights.name) == ("interrupted", "step_000003.bin")
    assert len(digests(tmp_path / "r", 3)) == 3


def test_a_run_stopped_in_its_first_step_says_that_it_has_no_weights(tmp_path, cfg, monkeypatch, capsys):
    accumulate, signals = Engine._accumulate, Signals()

    def stopped(self):
        signals.ask("stop")
        return accumulate(self)

    monkeypatch.setattr(Engine, "_accumulate", stopped)
    result = train(cfg.with_train(grace=0.0), tmp_path / "r", signals=signals, **QUIET)
    assert (result.outcome, result.steps, result.weights) == ("interrupted", 0, None)
    finish(cfg, result, 1, json=True)
    assert json.loads(capsys.readouterr().out)["weights"] is None
    finish(cfg, result, 1, json=False)
    out = capsys.readouterr().out
    assert "weights: none, as no step was done" in out and "andrea resume" not in out


def test_a_damaged_sum_is_called_that(run):
    path = run / "step_000006.bin.sum"
    path.write_bytes(path.read_bytes()[:50])
    notes = []
    resume(run, until=7, on_note=notes.append, **QUIET)
    line = next(note for note in notes if note.startswith("resumed from"))
    assert str(path) in line and "found no JSON" in line and "no sum" not in line


@pytest.mark.parametrize("change", ["none", "layout", "settings"])
def test_settings_changed_since_the_save_are_told(run, change):
    path = run / "config.json"
    settings = json.loads(path.read_text())
    if change == "settings":
        settings["train"]["lr"] = 0.5
    if change != "none":
        path.write_text(json.dumps(settings))
    notes = []
    resume(run, until=7, on_note=notes.append, **QUIET)
    told = [note for note in notes if "settings" in note]
    expected = "config.json: found other settings than step_000006.bin was saved under: they hold from here on"
    assert told == ([expected] if change == "settings" else [])


@pytest.mark.parametrize("busy_at", [2, 4])
def test_an_engine_that_left_before_a_sample_or_the_held_out_loss_ends_the_run_cleanly(
    tmp_path, cfg, monkeypatch, busy_at
):
    """A stop that reaches the engine alone, while the proxy is busy for longer than the engine waits for it."""
    engines, made, written = [], EngineProcess.__init__, Records.state

    def making(self, *arguments, **options):
        made(self, *arguments, **options)
        engines.append(self)

    def busy(self, step):
        written(self, step)
        if step == busy_at:
            engines[0].signal("stop")
            engines[0]._process.wait(60)

    monkeypatch.setattr(EngineProcess, "__init__", making)
    monkeypatch.setattr(Records, "state", busy)
    sampled = cfg.with_train(steps=4, sample_every=2, sample_tokens=2)
    result = train(sampled, tmp_path / "r", process=True, held_out_batches=1)
    assert (result.outcome, result.steps) == (("interrupted", 2) if busy_at == 2 else ("finished", 4))
    assert result.held_out == {} and len(digests(tmp_path / "r", busy_at)) == 3


def test_weights_that_are_not_finite_at_the_last_save_are_a_divergence(tmp_path, cfg, monkeypatch, capsys):
    step = Engine.step

    def poisoned(self, request):
        result = step(self, request)
        if request["step"] == 6:
            self.graph.weights["layer0.W_1"][...] = np.nan
        return result

    monkeypatch.setattr(Engine, "step", poisoned)
    (tmp_path / "tiny.json").write_text(cfg.to_json())
    code = main(["train", str(tmp_path / "tiny.json"), "--run", str(tmp_path / "r"), "--json"])
    assert code == 1 and "w layer0.W_1[0]: found nan" in capsys.readouterr().err
    assert segments.read(RunDirectory(tmp_path / "r"))[-1].outcome == "diverged"


def test_a_run_that_is_done_is_told_though_its_picture_cannot_be_written(tmp_path, cfg, monkeypatch, capsys):
    create = Files.create

    def full(self, path):
        if "loss.png" in path.name:
            raise OSError(28, "No space left on device", str(path))
        return create(self, path)

    monkeypatch.setattr(Files, "create", full)
    (tmp_path / "tiny.json").write_text(cfg.to_json())
    code = main(["train", str(tmp_path / "tiny.json"), "--run", str(tmp_path / "r")])
    told = capsys.readouterr()
    assert (
        code == 0 and told.err == "andrea: loss.png: found No space left on device, expected to draw the loss there\n"
    )
    assert "finished after 6 steps" in told.out and "sample:\n" in told.out and "figure" not in told.out
