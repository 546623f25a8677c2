"""A run stopped or killed at any step and resumed is the run that never stopped, bit for bit, log and weights."""

import json
import os
import signal

import psutil
import pytest

from andrea_lab.engine.batches import Batches
from andrea_lab.engine.engine import Engine
from andrea_lab.engine.errors import EngineError
from andrea_lab.proxy.loop import resume, train
from andrea_lab.run.losslog import read_log
from tests.proxy.runs import (
    PATIENCE,
    QUIET,
    Killed,
    andrea,
    canonical,
    die_at,
    ended,
    kill,
    log_of,
    outcome,
    small,
    wait_for_steps,
)

FULL = pytest.mark.full


def straight(folder, cfg):
    """What the run leaves that nothing disturbs."""
    train(cfg, folder / "straight", **QUIET)
    return outcome(folder / "straight", cfg.train.steps)


def sigterm_at(step):
    def hook(entry):
        if entry["step"] == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return hook


MANY = [
    pytest.param(threads, microbatches, process, marks=FULL if process else ())
    for process in (False, True) for threads in (1, 2) for microbatches in (1, 3)
]  # fmt: skip


@pytest.mark.parametrize(("threads", "microbatches", "process"), MANY)
def test_killed_and_stopped_many_times_is_as_never_stopped(tmp_path, threads, microbatches, process):
    cfg = small(tmp_path, steps=24, save_every=5, microbatches=microbatches)
    expected = straight(tmp_path, cfg)
    options = {"threads": threads, "process": process, **QUIET}
    run = tmp_path / "r"
    with pytest.raises(Killed):
        train(cfg, run, on_entry=die_at(8), **options)
    for step in (8, 9, 13):
        with pytest.raises(Killed):
            resume(run, on_entry=die_at(step), **options)
    stopped = resume(run, on_entry=sigterm_at(17), **options)
    assert stopped.outcome == "interrupted" and 17 <= stopped.steps <= 18
    result = resume(run, **options)
    assert (result.outcome, result.steps) == ("finished", 24)
    assert outcome(run, 24) == expected
    assert result.audit["different"] == 0 and len(read_log(log_of(run)).entries) == 24


def test_a_clean_stop_leaves_each_step_in_the_log_once(tmp_path):
    cfg = small(tmp_path, steps=30, save_every=10)
    expected = straight(tmp_path, cfg)
    for step in (1, 10, 29):
        run = tmp_path / f"r{step}"
        result = train(cfg, run, on_entry=sigterm_at(step), **QUIET)
        assert (result.outcome, result.steps) == ("interrupted", step)
        assert [entry["step"] for entry in read_log(log_of(run)).entries] == list(range(1, step + 1))
        again = resume(run, **QUIET)
        assert again.resumed_from == f"step_{step:06d}.bin" and again.audit["logged"] == 0
        assert [entry["step"] for entry in read_log(log_of(run)).entries] == list(range(1, 31))
        assert outcome(run, 30) == expected


def test_a_step_that_does_not_fit_the_grace_is_dropped_and_repeated(tmp_path, monkeypatch):
    cfg = small(tmp_path, steps=24, save_every=5, microbatches=3)
    expected = straight(tmp_path, cfg)
    load = Engine._load

    def stop_in_the_step(self, *arguments):
        if self.done == 12 and "stop" not in self.poll():
            os.kill(os.getpid(), signal.SIGTERM)
        return load(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "_load", stop_in_the_step)
        result = train(cfg.with_train(grace=0.0), tmp_path / "r", **QUIET)
    assert (result.outcome, result.steps) == ("interrupted", 12)
    assert [entry["step"] for entry in read_log(log_of(tmp_path / "r")).entries] == list(range(1, 13))
    assert resume(tmp_path / "r", **QUIET).resumed_from == "step_000012.bin"
    assert outcome(tmp_path / "r", 24) == expected


def test_an_engine_that_was_left_waiting_saves_and_ends_the_run_cleanly(tmp_path):
    cfg = small(tmp_path, steps=24, save_every=5)
    expected = straight(tmp_path, cfg)
    run = tmp_path / "r"

    def stop_and_linger(entry):
        if entry["step"] == 8:
            engine = json.loads((run / "engine.lock").read_text())["pid"]
            os.kill(engine, signal.SIGTERM)
            psutil.wait_procs([psutil.Process(engine)], timeout=PATIENCE)

    result = train(cfg, run, process=True, on_entry=stop_and_linger, **QUIET)
    assert (result.outcome, result.steps, result.weights.name) == ("interrupted", 8, "step_000008.bin")
    assert resume(run, **QUIET).audit["logged"] == 0
    assert outcome(run, 24) == expected


def test_a_stop_at_the_last_step_finishes(tmp_path):
    cfg = small(tmp_path, steps=4)
    expected = straight(tmp_path, cfg)
    result = train(cfg, tmp_path / "r", on_entry=sigterm_at(4))
    assert (result.outcome, result.steps, result.held_out) == ("finished", 4, {})
    assert outcome(tmp_path / "r", 4) == expected


def test_rates_sources_and_draws_after_a_resume_are_those_of_a_straight_run(tmp_path):
    cfg = small(tmp_path, steps=40, save_every=10, warmup=15)
    train(cfg, tmp_path / "straight", **QUIET)
    with pytest.raises(Killed):
        train(cfg, tmp_path / "r", on_entry=die_at(16), **QUIET)
    seen = []
    resume(tmp_path / "r", on_entry=seen.append, **QUIET)
    expected = canonical(tmp_path / "straight")[10:]
    assert [entry["step"] for entry in seen] == list(range(11, 41))
    for field in ("lr", "source", "draw", "tokens", "policy"):
        assert [entry[field] for entry in seen] == [entry[field] for entry in expected], field
    draws = [(entry["source"], entry["draw"]) for entry in canonical(tmp_path / "r")]
    assert len(set(draws)) == 40, "no draw twice"


def test_windows_of_text_over_three_epochs_are_those_of_a_straight_run(tmp_path, monkeypatch):
    cfg = small(tmp_path, steps=80, save_every=10, batch=12)
    for name in ("cat", "dog"):
        path = tmp_path / f"{name}.txt"
        path.write_text(path.read_text()[:1500])
    fill, seen = Batches.fill, {}

    def recording(self, source, seed, draw, tokens, targets):
        fill(self, source, seed, draw, tokens, targets)
        seen.setdefault(source, {}).setdefault(draw, set()).add((tokens.tobytes(), targets.tobytes()))

    monkeypatch.setattr(Batches, "fill", recording)
    expected = straight(tmp_path, cfg)
    wanted = {source: dict(draws) for source, draws in seen.items()}
    assert all(len(draws) * 12 * 16 > 3 * 1500 for draws in wanted.values()), "three epochs"
    assert all(len(batches) == 1 for draws in wanted.values() for batches in draws.values()), "each draw is one batch"
    seen.clear()
    with pytest.raises(Killed):
        train(cfg, tmp_path / "r", on_entry=die_at(44), **QUIET)
    resume(tmp_path / "r", **QUIET)
    assert seen == wanted and outcome(tmp_path / "r", 80) == expected


def test_a_save_on_demand_changes_no_bit(tmp_path):
    cfg = small(tmp_path, steps=12, save_every=5)
    expected = straight(tmp_path, cfg)

    def ask(entry):
        for _ in range(500 if entry["step"] in (3, 5, 7) else 0):
            os.kill(os.getpid(), signal.SIGUSR1)

    train(cfg, tmp_path / "r", on_entry=ask, **QUIET)
    saved = sorted(int(file.stem[5:]) for file in (tmp_path / "r").glob("step_*.bin"))
    assert saved == [3, 5, 7, 10, 12] and outcome(tmp_path / "r", 12) == expected


@pytest.mark.parametrize("process", [False, pytest.param(True, marks=FULL)], ids=["direct", "process"])
def test_a_process_killed_by_the_system_goes_on_as_if_nothing_had_been(tmp_path, process):
    cfg = small(tmp_path, steps=400, save_every=50)
    (tmp_path / "cfg.json").write_text(cfg.to_json())
    expected = straight(tmp_path, cfg)
    flags = ["--process"] if process else []
    run = tmp_path / "r"
    started = andrea("train", tmp_path / "cfg.json", "--run", run, "--json", *flags)
    wait_for_steps(run, 120, started)
    kill(started)
    again = andrea("resume", run, "--json", *flags)
    code, out, err = ended(again)
    assert code == 0 and '"outcome": "finished"' in out and "replay audit" in err, (out, err)
    assert outcome(run, 400) == expected


@FULL
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("how", ["exception", "sigterm"])
def test_every_step_from_95_to_205(tmp_path, how):
    cfg = small(tmp_path, steps=300, save_every=100)
    expected = straight(tmp_path, cfg)
    for step in range(95, 206):
        run = tmp_path / f"r{step}"
        if how == "sigterm":
            assert train(cfg, run, on_entry=sigterm_at(step), **QUIET).steps == step
        else:
            with pytest.raises(Killed):
                train(cfg, run, on_entry=die_at(step), **QUIET)
            if step < 101:  # step 100 was logged, and the run ended before it was saved
                with pytest.raises(EngineError, match="found no checkpoint that loads"):
                    resume(run, **QUIET)
                continue
        result = resume(run, **QUIET)
        assert result.audit["different"] == 0 and outcome(run, 300) == expected, step
        assert len(read_log(log_of(run)).entries) == 300


@FULL
@pytest.mark.parametrize("process", [False, True], ids=["direct", "process"])
def test_ten_kills_by_the_system(tmp_path, process):
    cfg = small(tmp_path, steps=2000, save_every=20, keep=3)
    (tmp_path / "cfg.json").write_text(cfg.to_json())
    expected = straight(tmp_path, cfg)
    flags = ["--process"] if process else []
    run = tmp_path / "r"
    command = ["train", tmp_path / "cfg.json", "--run", run]
    for turn in range(10):
        started = andrea(*command, "--json", *flags)
        wait_for_steps(run, 45 + 150 * turn, started)
        kill(started)
        command = ["resume", run]
    code, out, err = ended(andrea(*command, "--json", *flags))
    assert code == 0, err
    assert outcome(run, 2000) == expected
