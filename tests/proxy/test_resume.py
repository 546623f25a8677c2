"""What a resume does with what it finds: damage, a lost log line, stale state, other arms, another at work."""

import json
import os
import subprocess
import sys
import time

import pytest

from andrea_lab.checkpoint import single
from andrea_lab.checkpoint.files import Files
from andrea_lab.checkpoint.save import SaveError
from andrea_lab.engine.errors import EngineError
from andrea_lab.model.config import ConfigError
from andrea_lab.proxy import loop
from andrea_lab.proxy.loop import resume, train
from andrea_lab.run import samples, segments
from andrea_lab.run.directory import RunDirectory, RunError
from andrea_lab.run.losslog import read_log
from tests.proxy.runs import PATIENCE, QUIET, ROOT, Killed, Learner, canonical, die_at, log_of, outcome, small


@pytest.fixture
def cfg(tmp_path):
    return small(tmp_path, steps=24, save_every=5)


@pytest.fixture
def expected(tmp_path, cfg):
    """What the undisturbed run leaves."""
    train(cfg, tmp_path / "straight", **QUIET)
    return outcome(tmp_path / "straight", 24)


@pytest.fixture
def run(tmp_path, cfg):
    """A run that died after step 18 was logged; files of steps 5, 10, 15."""
    with pytest.raises(Killed):
        train(cfg, tmp_path / "r", on_entry=die_at(18), **QUIET)
    return tmp_path / "r"


def resumed(run, **options):
    """(result, notes) of a resume."""
    notes = []
    return resume(run, on_note=notes.append, **(QUIET | options)), notes


def only(notes, *words):
    """The one note that holds all these words."""
    found = [note for note in notes if all(word in note for word in words)]
    assert len(found) == 1, notes
    return found[0]


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_it_goes_on_from_the_newest_repeats_what_was_logged_and_says_so(run, expected):
    size = log_of(run).stat().st_size
    before = log_of(run).read_bytes()
    result, notes = resumed(run)
    assert (result.outcome, result.steps, result.segment) == ("finished", 24, 2)
    assert (result.resumed_from, result.rejected) == ("step_000015.bin", [])
    assert result.audit == {"logged": 3, "replayed": 3, "equal": 3, "different": 0, "first": None}
    assert "resumed from step_000015.bin, step 15" in notes
    assert notes[-1] == "replay audit: 3 of 3 replayed steps equal to the log"
    assert outcome(run, 24) == expected
    assert log_of(run).read_bytes()[:size] == before and len(read_log(log_of(run)).entries) == 24
    assert [entry["segment"] for entry in read_log(log_of(run)).entries] == [1] * 18 + [2] * 6


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_newest_file_is_passed_over_with_the_reason(run, expected, damage):
    newest = run / "step_000015.bin"
    if damage == "flip":
        flip(newest, 5000)
    else:
        newest.write_bytes(newest.read_bytes()[: 9000 if damage == "cut" else 0])
    result, notes = resumed(run)
    assert result.resumed_from == "step_000010.bin"
    assert [each["file"] for each in result.rejected] == ["step_000015.bin"]
    assert only(notes, "rejected step_000015.bin").startswith(
        f"rejected step_000015.bin, {result.rejected[0]['verdict']}"
    )
    assert result.audit["equal"] == 8 and outcome(run, 24) == expected
    assert segments.read(RunDirectory(run))[-1].begin["rejected"][0]["file"] == "step_000015.bin"


def test_when_every_file_is_damaged_it_is_refused_and_nothing_is_begun_anew(run):
    for file in run.glob("step_*.bin"):
        flip(file, 100)
    before = log_of(run).read_bytes()
    with pytest.raises(EngineError, match=r"found no checkpoint that loads \(.*step_000005"):
        resumed(run)
    assert log_of(run).read_bytes() == before and len(segments.read(RunDirectory(run))) == 1


def test_a_finished_run_is_left_as_it_is(tmp_path, cfg):
    train(cfg, tmp_path / "r", **QUIET)
    before = {file.name: file.read_bytes() for file in (tmp_path / "r").iterdir() if file.suffix != ".lock"}
    result, _ = resumed(tmp_path / "r")
    assert (result.outcome, result.steps, result.weights.name) == ("nothing to do", 24, "step_000024.bin")
    assert {f.name: f.read_bytes() for f in (tmp_path / "r").iterdir() if f.suffix != ".lock"} == before


def test_beyond_the_schedule_the_rate_stays_at_its_floor_and_that_is_said(tmp_path, cfg):
    train(cfg, tmp_path / "r", **QUIET)
    seen = []
    result, notes = resumed(tmp_path / "r", until=30, on_entry=seen.append)
    assert (result.outcome, result.steps) == ("finished", 30)
    floor = cfg.train.lr * cfg.train.min_lr
    assert only(notes, "beyond the schedule") == f"steps 25 to 30 are beyond the schedule: lr stays at {floor:g}"
    assert [entry["lr"] for entry in seen] == [pytest.approx(floor)] * 6
    assert (tmp_path / "r" / "step_000030.bin").is_file()


def test_a_run_may_end_early_and_go_on_under_the_same_schedule(tmp_path, cfg, expected):
    result = train(cfg, tmp_path / "r", until=7, **QUIET)
    assert (result.outcome, result.steps) == ("finished", 7)
    assert resume(tmp_path / "r", until=16, **QUIET).steps == 16
    assert resume(tmp_path / "r", **QUIET).steps == 24
    assert outcome(tmp_path / "r", 24) == expected


def test_the_entry_that_only_the_sum_holds_is_appended(run, expected):
    lines = log_of(run).read_bytes().splitlines(keepends=True)
    log_of(run).write_bytes(b"".join(lines[:14]) + lines[14][:20])
    result, notes = resumed(run)
    assert "step 15" in only(notes, "appended the entry") and result.audit["logged"] == 0
    assert outcome(run, 24) == expected and read_log(log_of(run)).torn == [15]


def test_a_repeated_step_that_differs_is_appended_and_named(run):
    lines = log_of(run).read_text().splitlines()
    entry = json.loads(lines[16])
    lines[16] = json.dumps(entry | {"loss": 1.5})
    log_of(run).write_text("\n".join(lines) + "\n")
    result, notes = resumed(run)
    assert (result.audit["equal"], result.audit["different"]) == (2, 1)
    assert result.audit["first"]["step"] == 17 and result.audit["first"]["field"] == "loss"
    line = only(notes, "replay audit: 1 of 3 replayed steps differ")
    assert f"step 17, loss: found {entry['loss']} in segment 2 (" in line and "expected 1.5 as in segment 1 (" in line
    assert line.count("kernels") == 2, "both segments say what multiplied their matrices"
    logged = [e for e in read_log(log_of(run)).entries if e["step"] == 17]
    assert [(e["segment"], e["loss"]) for e in logged] == [(1, 1.5), (2, entry["loss"])]


def test_an_arm_without_a_source_is_dropped_and_named(run, expected):
    state = RunDirectory(run).state
    found = json.loads(state.read_text())
    assert (found["step"], found["chooser"]["step"]) == (15, 15)
    found["chooser"]["draws"]["repo-docstrings"] = 1546
    state.write_text(json.dumps(found))
    _, notes = resumed(run)
    assert (
        only(notes, "repo-docstrings") == "r.state.json: dropped the state of repo-docstrings: no source of that name"
    )
    assert outcome(run, 24) == expected


@pytest.mark.parametrize("state", ["as saved", "older", "newer", "none", "damaged", "other policy"])
def test_the_chooser_is_brought_to_the_step_whatever_the_state_file_holds(tmp_path, cfg, monkeypatch, state):
    monkeypatch.setattr(loop, "Uniform", Learner)
    train(cfg, tmp_path / "straight", **QUIET)
    wanted = json.loads(RunDirectory(tmp_path / "straight").state.read_text())["chooser"]
    run = RunDirectory(tmp_path / "r")
    texts = {}

    def hook(entry):
        if entry["step"] in (6, 16):
            texts[entry["step"]] = run.state.read_text()
        die_at(18)(entry)

    with pytest.raises(Killed):
        train(cfg, run.path, on_entry=hook, **QUIET)
    newer = json.loads(texts[16]) | {"step": 17}
    newer["chooser"] |= {"step": 17, "sum": 99.0}
    other = json.loads(texts[16]) | {"policy": "0123456789ab"}
    written = {"as saved": texts[16], "older": texts[6], "newer": json.dumps(newer), "damaged": texts[16][:50]}
    written |= {"none": None, "other policy": json.dumps(other)}
    if written[state] is None:
        run.state.unlink()
    else:
        run.state.write_text(written[state])
    _, notes = resumed(run.path)
    assert json.loads(run.state.read_text())["chooser"] == wanted
    assert any("built anew" in note for note in notes) == (state in ("newer", "damaged", "other policy"))
    assert any("brought to step 15" in note for note in notes) == (state == "older")
    assert (run.path / "r.state.json.bad-2").exists() == (state == "damaged")


def test_samples_are_logged_at_their_steps_and_change_nothing(tmp_path, cfg, expected):
    asked = cfg.with_train(sample_every=4, sample_tokens=6)
    with pytest.raises(Killed):
        train(asked, tmp_path / "r", on_entry=die_at(18), **QUIET)
    resumed(tmp_path / "r")
    train(asked, tmp_path / "s", **QUIET)
    found = samples.read(RunDirectory(tmp_path / "r"))
    assert [sample["step"] for sample in found] == [4, 8, 12, 16, 20, 24]
    plain = [{k: v for k, v in sample.items() if k != "segment"} for sample in found]
    assert plain == [{k: v for k, v in s.items() if k != "segment"} for s in samples.read(RunDirectory(tmp_path / "s"))]
    assert outcome(tmp_path / "r", 24) == expected == outcome(tmp_path / "s", 24)


def test_every_segment_says_where_it_began_on_what_it_ran_and_how_it_ended(run):
    resumed(run, until=20)
    resumed(run)
    first, second, third = segments.read(RunDirectory(run))
    assert [each.number for each in (first, second, third)] == [1, 2, 3]
    assert [each.outcome for each in (first, second, third)] == ["broke down", "finished", "finished"]
    assert [each.begin["from_step"] for each in (first, second, third)] == [0, 15, 20]
    assert third.begin["from_file"] == "step_000020.bin" and second.end["audit"]["equal"] == 3
    for each in (first, second, third):
        assert each.begin["gemm"] == "kernels" and {"target", "cpu", "versions", "threads", "pid"} <= set(each.begin)


def test_a_second_resume_at_once_is_refused_and_names_the_first(run):
    code = f"from andrea_lab.proxy.loop import resume; resume({str(run)!r})"
    told = []

    def second(entry):
        if not told:
            done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
            told.append(done.stderr.splitlines()[-1])

    result, _ = resumed(run, on_entry=second)
    assert result.outcome == "finished"
    assert f"found proxy {os.getpid()} (since" in told[0] and "expected no other" in told[0]


def test_a_file_from_elsewhere_without_a_sum_is_taken_and_called_unverified(run, expected):
    (run / "step_000015.bin.sum").unlink()
    result, notes = resumed(run)
    assert result.resumed_from == "step_000015.bin" and "no sum beside it" in only(notes, "resumed from")
    assert outcome(run, 24) == expected


def test_a_run_without_a_weight_file_is_refused(tmp_path, cfg):
    with pytest.raises(Killed):
        train(cfg, tmp_path / "r", on_entry=die_at(3), **QUIET)
    with pytest.raises(EngineError, match="no step_NNNNNN.bin"):
        resumed(tmp_path / "r")


def test_what_is_no_run_is_refused(tmp_path, run):
    with pytest.raises(RunError, match="found no folder"):
        resume(tmp_path / "nowhere")
    (run / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json: found text that is no JSON"):
        resume(run)


@pytest.mark.parametrize("act", ["write", "sync", "rename"])
def test_a_save_that_fails_ends_the_run_with_the_log_whole(tmp_path, cfg, monkeypatch, act):
    real = getattr(Files, act)
    broken = []

    def failing(self, *arguments):
        if broken and large(arguments):
            raise OSError(28, "No space left on device")
        return real(self, *arguments)

    def large(arguments):
        if act == "write":
            return arguments[1].nbytes > 100_000
        return act == "sync" or str(arguments[1]).endswith(".bin")

    monkeypatch.setattr(Files, act, failing)

    def hook(entry):
        if entry["step"] == 12:
            until = time.monotonic() + PATIENCE
            while not (tmp_path / "r" / "step_000010.bin").exists():  # the save in the background is still whole
                assert time.monotonic() < until
                time.sleep(0.005)
            broken.append(True)

    with pytest.raises(SaveError, match="No space left"):
        train(cfg, tmp_path / "r", on_entry=hook, **QUIET)
    steps = [entry["step"] for entry in read_log(log_of(tmp_path / "r")).entries]
    last = steps[-1]
    assert steps == list(range(1, last + 1))
    assert last >= 15, "the save in the background takes some steps to fail"
    assert not list((tmp_path / "r").glob(".*.tmp"))
    broken.clear()
    ended = segments.read(RunDirectory(tmp_path / "r"))[-1].end
    assert ended["outcome"] == "save failed" and "No space left" in ended["reason"]
    result, _ = resumed(tmp_path / "r")
    assert result.resumed_from == "step_000010.bin" and result.audit["different"] == 0


def test_a_run_may_go_on_after_a_failed_save(tmp_path, cfg, expected, monkeypatch):
    real = Files.rename

    def failing(self, old, new):
        if new.name == "step_000010.bin":
            raise OSError(5, "Input/output error")
        return real(self, old, new)

    monkeypatch.setattr(Files, "rename", failing)
    notes = []
    run = tmp_path / "r"
    result = train(cfg.with_train(save_errors="go_on"), run, on_note=notes.append, **QUIET)
    assert result.outcome == "finished" and "Input/output error" in only(notes, "save failed, going on")
    assert sorted(single.step_of(file.name) for file in run.glob("step_*.bin")) == [5, 15, 20, 24]
    assert outcome(run, 24)[1] == expected[1] == canonical(run)
