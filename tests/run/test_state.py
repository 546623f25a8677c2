"""The chooser's state: read strictly, replaced as a whole, a damaged one put aside and never written over."""

import json
import os

import pytest

from andrea_lab.run import state as state_module
from andrea_lab.run.directory import RunError
from andrea_lab.run.losslog import LossLog
from andrea_lab.run.state import read_state, recover_state, write_state

STATE = {
    "step": 300,
    "segment": 2,
    "log_bytes": 0,
    "policy": "uniform",
    "chooser": {"pulls": {"quiz": 3}, "mean": 0.25},
}


def test_written_and_read(run):
    assert read_state(run) is None and recover_state(run, 1) == (None, None)
    write_state(run, STATE)
    found = read_state(run)
    assert (found.step, found.segment, found.log_bytes, found.policy) == (300, 2, 0, "uniform")
    assert found.chooser == STATE["chooser"]
    assert json.loads(run.state.read_text()) == {"schema": 1} | STATE
    write_state(run, STATE | {"step": 400})
    assert recover_state(run, 3)[0].step == 400
    assert sorted(file.name for file in run.path.iterdir()) == ["config.json", "proxy.lock", "r.state.json"]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"step": -1}, "step: found -1, expected greater than or equal to 0"),
        ({"step": 1.0}, r"step: found 1\.0, expected a valid integer"),
        ({"step": True}, "step: found True, expected a valid integer"),
        ({"segment": "2"}, "segment: found '2', expected a valid integer"),
        ({"policy": 3}, "policy: found 3, expected a valid string"),
        ({"chooser": []}, r"chooser: found \[\], expected a valid dictionary"),
        ({"schema": 2}, "schema: found 2, expected less than or equal to 1"),
        ({"schema": True}, "schema: found True, expected a valid integer"),
        ({"schema": "1"}, "schema: found '1', expected a valid integer"),
        ({"extra": 1}, "extra: found 1, expected no such field"),
    ],
)
def test_a_field_that_is_wrong_is_named_both_ways(run, change, message):
    with pytest.raises(RunError, match=message):
        write_state(run, STATE | change)
    assert not run.state.exists()
    run.state.write_text(json.dumps({"schema": 1} | STATE | change))
    with pytest.raises(RunError, match=rf"r\.state\.json: {message}"):
        read_state(run)


@pytest.mark.parametrize("name", ["schema", *STATE])
def test_a_missing_field_is_named(run, name):
    fields = {"schema": 1} | STATE
    del fields[name]
    run.state.write_text(json.dumps(fields))
    with pytest.raises(RunError, match=f"{name}: found .*, expected this field"):
        read_state(run)


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "no JSON"),
        (b'{"schema": 1', "no JSON"),
        (b"\xff\xfe{}", "no JSON"),
        (b"\0" * 300, "no JSON"),
        (b'{"schema": 1, "schema": 1}', "key 'schema' twice"),
        (b'{"schema": NaN}', "NaN, which is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", r"state: found \[\], expected"),
        (b" " * 2000, "more than 1000 bytes"),
    ],
)
def test_what_is_no_state_is_put_aside_and_reported(run, data, message, monkeypatch):
    monkeypatch.setattr(state_module, "LARGEST", 1000 if data.isspace() else 2**20)
    run.state.write_bytes(data)
    with pytest.raises(RunError, match=message):
        read_state(run)
    assert run.state.read_bytes() == data
    found, note = recover_state(run, 4)
    assert found is None and "\n" not in note
    assert note.endswith("; it was moved to r.state.json.bad-4")
    assert (run.path / "r.state.json.bad-4").read_bytes() == data and not run.state.exists()


def test_a_second_damaged_state_does_not_replace_the_first(run):
    for text in ("{1", "{2", "{3"):
        run.state.write_text(text)
        recover_state(run, 4)
    names = ["r.state.json.bad-4", "r.state.json.bad-4-2", "r.state.json.bad-4-3"]
    assert [(run.path / name).read_text() for name in names] == ["{1", "{2", "{3"]


def test_a_state_of_a_longer_log_is_put_aside(run):
    with LossLog(run.log) as log:
        log.append({"step": 1, "loss": 1.0})
    size = run.log.stat().st_size
    write_state(run, STATE | {"log_bytes": size})
    assert recover_state(run, 2)[1] is None
    write_state(run, STATE | {"log_bytes": size + 1})
    found, note = recover_state(run, 2)
    assert found is None and f"log_bytes: found {size + 1}, expected at most the log's {size}" in note


def test_a_chooser_state_that_is_no_json_is_refused(run):
    write_state(run, STATE)
    for value in (float("nan"), {1, 2}, b"x"):
        with pytest.raises(RunError, match="chooser: found .*, expected plain JSON values"):
            write_state(run, STATE | {"chooser": {"x": value}})
    assert read_state(run).step == 300


def test_what_is_no_file_is_not_waited_for(run):
    os.mkfifo(run.state)
    with pytest.raises(RunError, match="found a pipe, expected a readable file"):
        read_state(run)
