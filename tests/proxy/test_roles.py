"""Three roles of one file: to recover from, to change the course at, and for two runs to part from."""

import json
import os
import shutil
import signal
import time

import pytest

from andrea_lab.checkpoint.rotation import pin
from andrea_lab.checkpoint.verify import examine
from andrea_lab.engine.engine import engine
from andrea_lab.model.config import load_config
from andrea_lab.proxy import loop
from andrea_lab.proxy.loop import resume, train
from andrea_lab.run import samples
from andrea_lab.run.archive import archive
from andrea_lab.run.compare import compare
from andrea_lab.run.directory import RunDirectory
from andrea_lab.run.fork import fork
from andrea_lab.run.losslog import read_log
from andrea_lab.run.state import read_state
from tests.proxy.runs import PATIENCE, QUIET, Killed, Learner, canonical, die_at, digests, log_of, outcome, small

PIVOT, LAST = 12, 24


def asking(step, wish, then=None):
    """An on_entry hook that sends this process a signal after a step; `then` is called with every entry."""

    def hook(entry):
        if entry["step"] == step:
            os.kill(os.getpid(), wish)
        if then:
            then(entry)

    return hook


def other_sources(run: RunDirectory, *names: str) -> None:
    """Change the run's configuration to learn from other texts: the dog goes, a bird comes."""
    for name in names:
        (run.path.parent / f"{name}.txt").write_text("\n\n".join(f"The {name} saw {n} hills. " * 9 for n in range(60)))
    sources = [str(run.path.parent / f"{name}.txt") for name in ("cat", *names)]
    run.config.write_text(load_config(run.config).with_train(sources=sources).to_json())


def learnt(run: RunDirectory) -> float:
    """What a Learner has that saw only the steps after the change of policy."""
    total = 0.0
    for entry in read_log(run.log).entries[PIVOT:]:
        total = total * 0.5 + entry["loss"]
    return total


def test_one_file_that_was_asked_for_serves_in_all_three_roles(tmp_path):
    cfg = small(tmp_path, steps=LAST, save_every=0)
    train(cfg, tmp_path / "straight", **QUIET)
    with pytest.raises(Killed):
        train(cfg, tmp_path / "r", on_entry=asking(7, signal.SIGUSR1, die_at(10)), **QUIET)
    assert [path.name for path in (tmp_path / "r").glob("step_*.bin")] == ["step_000007.bin"]
    shutil.copytree(tmp_path / "r", tmp_path / "pivot")
    (tmp_path / "pivot" / "r.loss.json").rename(tmp_path / "pivot" / "pivot.loss.json")

    hot = fork(tmp_path / "r", 7, tmp_path / "hot", cfg.with_train(lr=0.05).to_json())
    resume(hot.path, **QUIET)
    found = compare(tmp_path / "straight", hot.path)
    assert found["first_difference"]["field"] == "lr" and found["first_loss_difference"] == 9

    other_sources(RunDirectory(tmp_path / "pivot"), "bird")
    assert resume(tmp_path / "pivot", **QUIET).resumed_from == "step_000007.bin"
    assert {entry["source"] for entry in canonical(tmp_path / "pivot")[12:]} == {"cat", "bird"}

    assert resume(tmp_path / "r", **QUIET).audit["equal"] == 3
    assert outcome(tmp_path / "r", LAST) == outcome(tmp_path / "straight", LAST)
    for run in ("pivot", "hot", "r"):
        assert digests(tmp_path / run, 7) == digests(tmp_path / "r", 7)


@pytest.fixture
def pivoted(tmp_path, monkeypatch):
    """A run that was stopped at step 12, archived, given other sources and resumed: the run, and what it had been."""
    monkeypatch.setattr(loop, "Uniform", Learner)
    cfg = small(tmp_path, steps=LAST, save_every=5, sample_every=4, sample_tokens=6)
    run = RunDirectory(tmp_path / "r")
    result = train(cfg, run.path, on_entry=asking(PIVOT, signal.SIGTERM), **QUIET)
    assert (result.outcome, result.weights.name) == ("interrupted", "step_000012.bin")
    kinds = {"log": run.log, "samples": run.samples, "state": run.state, "weights": result.weights}
    before = {kind: path.read_bytes() for kind, path in kinds.items()}
    archive(run, str(PIVOT))
    other_sources(run, "bird", "fish")
    notes = []
    assert resume(run.path, on_note=notes.append, **QUIET).resumed_from == "step_000012.bin"
    return run, before, notes


def test_a_change_of_policy_keeps_weights_averages_and_log(pivoted):
    run, before, _ = pivoted
    assert run.weights(PIVOT).read_bytes() == before["weights"] and examine(run.weights(PIVOT)).verdict == "committed"
    assert run.log.read_bytes().startswith(before["log"])
    entries = read_log(run.log).entries
    assert [entry["step"] for entry in entries] == list(range(1, LAST + 1)), "no gap, nothing twice"
    policies = [entry["policy"] for entry in entries]
    assert len(set(policies)) == 2 and len({*policies[:PIVOT]}) == 1 == len({*policies[PIVOT:]})
    assert {entry["source"] for entry in entries[PIVOT:]} == {"cat", "bird", "fish"}


def test_a_change_of_policy_begins_samples_and_chooser_anew_and_keeps_the_old_ones(pivoted):
    run, before, _ = pivoted
    for kind in ("samples", "state"):
        assert (run.archive / f"r.{kind}.{PIVOT}.json").read_bytes() == before[kind]
    assert [sample["step"] for sample in samples.read(run)] == [PIVOT, 16, 20, LAST]
    after = read_state(run)
    assert after.policy != json.loads(before["state"])["policy"] and set(after.chooser["draws"]) == {
        "cat", "bird", "fish"
    }  # fmt: skip
    assert after.chooser["sum"] == learnt(run), "from the steps of its own policy alone"


def test_a_change_of_policy_without_an_archive_begins_the_chooser_anew_too(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "Uniform", Learner)
    run = RunDirectory(tmp_path / "r")
    train(small(tmp_path, steps=LAST, save_every=5), run.path, on_entry=asking(PIVOT, signal.SIGTERM), **QUIET)
    other_sources(run, "bird")
    notes = []
    resume(run.path, on_note=notes.append, **QUIET)
    assert any("dropped the state of dog: no source of that name" in note for note in notes), notes
    assert read_state(run).chooser["sum"] == learnt(run)


def test_a_file_that_was_asked_for_is_audited_pinned_and_measured_while_the_run_goes_on(tmp_path):
    cfg = small(tmp_path, steps=LAST, save_every=4, keep=1)
    run = RunDirectory(tmp_path / "r")

    def hold(entry):
        if entry["step"] == 8:
            end = time.monotonic() + PATIENCE
            while not run.weights(7).exists() and time.monotonic() < end:
                time.sleep(0.005)
            pin(run.path, 7, "known to be good")

    assert train(cfg, run.path, on_entry=asking(7, signal.SIGUSR1, hold), **QUIET).outcome == "finished"
    assert sorted(path.name for path in run.path.glob("step_*.bin")) == ["step_000007.bin", "step_000024.bin"]
    until_7 = train(cfg, tmp_path / "short", until=7, held_out_batches=2)
    with engine(cfg, weights=run.weights(7)) as outside:
        for name, loss in until_7.held_out.items():
            assert outside.evaluate({"source": name, "batches": 2})["loss"] == loss
    made = fork(run.path, 7, tmp_path / "audit", cfg.to_json())
    resume(made.path, **QUIET)
    assert digests(made.path, LAST) == digests(run.path, LAST)


@pytest.mark.parametrize("sums", [True, False])
def test_a_run_that_was_copied_elsewhere_goes_on_there_and_loses_no_file(tmp_path, sums):
    cfg = small(tmp_path, steps=LAST, save_every=5, keep=0)
    train(cfg, tmp_path / "straight", **QUIET)
    with pytest.raises(Killed):
        train(cfg, tmp_path / "r", on_entry=die_at(18), **QUIET)
    copy = tmp_path / "elsewhere" / "r"
    shutil.copytree(tmp_path / "r", copy, ignore=None if sums else shutil.ignore_patterns("*.sum", "*.lock"))
    assert resume(copy, **QUIET).resumed_from == "step_000015.bin"
    assert outcome(copy, LAST) == outcome(tmp_path / "straight", LAST)
    assert [path.name for path in sorted(copy.glob("step_*.bin"))] == [f"step_{n:06d}.bin" for n in (5, 10, 15, 20, 24)]
    verdicts = [examine(copy / f"step_{n:06d}.bin").verdict for n in (5, 10, 15, 20, 24)]
    assert verdicts == ["committed" if sums else "unverified"] * 3 + ["committed"] * 2
    assert log_of(copy).read_bytes().startswith(log_of(tmp_path / "r").read_bytes())
