"""The record of segments: numbers rise whatever was lost, a killed one has no end."""

import json

import pytest

from andrea_lab.run import segments
from andrea_lab.run.directory import RunError
from andrea_lab.run.losslog import LossLog


def test_begin_and_end(run):
    assert segments.read(run) == []
    rejected = [{"file": "step_000200.bin", "verdict": "torn", "reason": "too short"}]
    assert segments.begin(run, from_step=0, from_file=None, rejected=[], pid=7) == 1
    assert segments.begin(run, from_step=100, from_file="step_000100.bin", rejected=rejected, target="cpu") == 2
    segments.end(run, 2, "finished", steps=150, audit={"equal": 50})
    killed, finished = segments.read(run)
    assert (killed.number, killed.outcome, killed.end, killed.begin["pid"]) == (1, None, {}, 7)
    assert (finished.outcome, finished.end["audit"]) == ("finished", {"equal": 50})
    assert finished.begin["rejected"] == rejected and finished.begin["from_step"] == 100
    for line in run.segments.read_text().splitlines():
        assert json.loads(line)["schema"] == 1


def test_numbers_rise_when_the_record_was_lost_or_torn(run):
    with LossLog(run.log) as log:
        log.append({"step": 1, "segment": 6, "loss": 1.0})
    assert segments.begin(run) == 7
    run.segments.write_bytes(b"\0" * 9 + b"\n[]\n" + b'{"event": "begin", "segment": 9}\r\n{"event": "begin", "seg')
    assert segments.begin(run) == 10
    run.segments.write_bytes(
        b'{"event": "begin", "segment": true}\n{"event": "clear", "segment": 90}\n{"segment": 80}\n'
    )
    assert segments.begin(run) == 7
    with LossLog(run.log) as log:
        log.append({"step": 2, "segment": None, "loss": 1.0})
        log.append({"step": 3, "loss": 1.0})
    assert segments.begin(run) == 8


def test_wishes_that_were_met_stand_between_begin_and_end(run):
    segments.begin(run, from_step=0)
    segments.note(run, 1, "save", 12)
    segments.note(run, 1, "stop", 20)
    segments.end(run, 1, "interrupted")
    (only,) = segments.read(run)
    assert [(asked["wish"], asked["step"]) for asked in only.asked] == [("save", 12), ("stop", 20)]
    assert only.outcome == "interrupted" and "wish" not in only.begin | only.end
    assert all(len(asked["time"]) == 20 for asked in only.asked)


def test_facts_that_are_no_json_are_refused_before_anything_is_written(run):
    with pytest.raises(ValueError, match="JSON compliant"):
        segments.begin(run, loss=float("nan"))
    assert not run.segments.exists() and segments.begin(run) == 1


def test_a_record_that_cannot_be_read_is_named(run):
    run.segments.mkdir()
    with pytest.raises(RunError, match=r"r\.segments\.json: found a folder, expected the record of segments"):
        segments.read(run)
