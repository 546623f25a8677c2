"""The feed: frames that add up to the log, facts as the folder tells them, and a folder that holds anything at all."""

import json
import math
import os
import shutil
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andrea_lab.checkpoint import lock, rotation
from andrea_lab.checkpoint.lock import RunLock, lock_path
from andrea_lab.run import segments
from andrea_lab.run.directory import RunDirectory
from andrea_lab.run.losslog import LossLog, encode
from andrea_lab.view import facts as about
from andrea_lab.view import feed as module
from andrea_lab.view.feed import Feed, register_strip
from andrea_lab.view.frame import unpack
from tests.run.made import entry, saved

CONFIG = {"model": {"vocab": 300}, "train": {"steps": 41, "clip": 0.5}}


def write(run, steps, mode="a", **more):
    run.path.mkdir(exist_ok=True)
    with open(run.log, mode) as file:
        file.writelines(encode(entry(step, 5.5 - step / 100, **more)) + "\n" for step in steps)


def told(run, **options):
    feed = Feed(run.path, **options)
    feed.catch_up()
    return feed.facts()


def kinds(facts):
    return [(mark["step"], mark["kind"], mark["label"]) for mark in facts["marks"]]


@pytest.fixture
def run(tmp_path):
    (tmp_path / "r").mkdir()
    return RunDirectory(tmp_path / "r")


def test_frames_in_pieces_are_the_log(run, monkeypatch):
    monkeypatch.setattr(module, "MOST", 7)
    write(run, [*range(1, 31), *range(21, 41)])
    feed = Feed(run.path)
    assert feed.read() and feed.records == 50
    pieces = [unpack(frame) for frame in feed.frames(3)]
    assert [piece.header["first"] for piece in pieces] == list(range(3, 50, 7))
    assert {(piece.header["total"], piece.header["generation"]) for piece in pieces} == {(50, 1)}
    steps = np.concatenate([piece.columns["step"] for piece in pieces])
    assert steps.tolist() == [*range(4, 31), *range(21, 41)]
    assert pieces[0].header["sources"] == ["noise"] and pieces[0].header["run"] == "r"
    assert len(feed.history) == 40 and feed.history.void == 10


def test_a_frame_beyond_the_end_holds_no_record(run):
    write(run, [1, 2])
    feed = Feed(run.path)
    feed.read()
    for first in (2, 99, -5):
        header = unpack(feed.frame(first)).header
        assert (header["first"], header["count"]) == ((2, 0) if first > 0 else (0, 2))
    assert len(feed.frames(2)) == len(feed.frames(99)) == 1


def test_a_replaced_log_is_another_generation(run):
    write(run, range(1, 9))
    feed = Feed(run.path)
    feed.read()
    write(run, [1, 2], mode="w", segment=4)
    assert feed.read() and (feed.generation, feed.records) == (2, 2)
    assert feed.history.steps().tolist() == [1, 2]


def test_news_raise_the_version_and_nothing_new_does_not(run):
    feed = Feed(run.path)
    feed.read(look=True)
    version = feed.version
    assert not feed.read(look=True) and feed.version == version
    write(run, [1])
    assert feed.read() and feed.version == version + 1
    (run.path / "config.json").write_text(json.dumps(CONFIG))
    assert not feed.read(), "the other files are looked at once a second"
    assert feed.read(look=True) and feed.facts()["vocab"] == 300


def test_configuration_and_what_stands_in_for_it(run):
    assert [told(run)[key] for key in ("vocab", "steps", "threshold")] == [None, None, None]
    run.config.write_text(json.dumps(CONFIG))
    assert [told(run)[key] for key in ("vocab", "steps", "threshold")] == [300, 41, 0.5]
    assert [told(run, vocab=7, steps=8)[key] for key in ("vocab", "steps")] == [7, 8]
    run.config.write_text('{"model": {"vocab": -1}, "train": {"steps": true, "clip": 0}}')
    assert [told(run)[key] for key in ("vocab", "steps", "threshold")] == [None, None, None]


def test_checkpoints_pins_resumes_and_wishes_are_marks(tmp_path):
    run = saved(tmp_path / "r", 4, 8, 12)
    rotation.pin(run.path, 8, "before the pivot")
    first = segments.begin(run, from_step=0)
    segments.note(run, first, "save", 4)
    segments.note(run, first, "stop", 8)
    segments.end(run, first, "interrupted")
    run.log.write_text(run.log.read_text().replace('"segment": 1', f'"segment": {first}'))
    second = segments.begin(run, from_step=8)
    facts = told(run)
    assert kinds(facts) == [
        (4, "checkpoint", "checkpoint"),
        (4, "save asked", "save asked"),
        (8, "pinned", "before the pivot"),
        (8, "resume", f"segment {second}"),
        (8, "stop asked", "stop asked"),
        (12, "checkpoint", "checkpoint"),
    ]
    assert facts["params"] == (run.weights(4).stat().st_size - 8) // 12
    assert [(each["segment"], each["from_step"], each["outcome"]) for each in facts["segments"]] == [
        (first, 0, "stopped"),
        (second, 8, None),
    ]
    run.weights(4).unlink()
    assert (4, "checkpoint", "checkpoint") not in kinds(told(run))


def test_a_log_without_a_record_of_segments_tells_its_resumes(run):
    write(run, [1, 2])
    write(run, [3, 4], segment=2)
    assert kinds(told(run)) == [(3, "resume", "segment 2")]


def test_a_fork_says_whose(run):
    run.fork.write_text(json.dumps({"from": "../a", "step": 80, "sha256": "0", "changes": {}}))
    write(run, [80])
    facts = told(run)
    assert facts["fork"] == {"from": "../a", "step": 80} and kinds(facts) == [(80, "fork", "fork of ../a")]
    assert facts["state"] == "waiting"


@pytest.mark.parametrize(
    "outcome, state",
    [("finished", "finished"), ("interrupted", "stopped"), (None, "killed"), ("odd", "unknown")]
    + [(word, word) for word in ("diverged", "save failed", "engine died", "aborted", "broke down")],
)
def test_the_end_of_a_run_has_a_word_and_a_reason(run, outcome, state):
    assert told(run)["state"] == "waiting"
    write(run, [1])
    assert told(run)["state"] == "not recorded", "a log by hand"
    number = segments.begin(run)
    if outcome:
        segments.end(run, number, outcome, reason="for the test")
    facts = told(run)
    assert (facts["state"], facts["why"]) == (state, "for the test" if outcome else None)
    assert facts["engine"] is None and facts["control"] is False


@pytest.mark.parametrize("role", ["engine", "proxy"])
def test_a_run_at_work_is_training_until_its_lock_is_dropped(run, role):
    write(run, [1])
    number = segments.begin(run)
    feed = Feed(run.path)
    with RunLock(run.path, role):
        feed.read(look=True)
        facts = feed.facts()
        assert facts["state"] == feed.state == "training" and feed.lively
        assert facts["engine"].startswith(f"{role} {os.getpid()} (since ") and facts["control"] is (role == "engine")
        segments.end(run, number, "finished")
    assert feed.read(look=True) and feed.state == "finished"


def test_a_run_that_begins_between_two_looks_was_not_killed(run, monkeypatch):
    write(run, [1])
    segments.begin(run)
    assert told(run)["state"] == "killed"
    calls = []

    def late(folder, role):
        calls.append(role)
        return lock.seen_at_work(folder, role) if len(calls) > 2 else None

    monkeypatch.setattr(about, "seen_at_work", late)
    with RunLock(run.path, "proxy"):
        assert told(run)["state"] == "training"


def test_a_run_on_another_machine_is_believed_while_its_log_grows(run, monkeypatch):
    away = {"pid": 1, "started": 2.0, "role": "engine", "host": "elsewhere", "since": "then"}
    lock_path(run.path, "engine").write_text(json.dumps(away))
    write(run, [1])
    number = segments.begin(run)
    assert told(run)["state"] == "training" and told(run)["engine"] == "engine 1 on elsewhere (since then)"
    monkeypatch.setattr(about, "ABROAD", -1.0)
    assert told(run)["state"] == "unknown"
    segments.end(run, number, "finished")
    assert told(run)["state"] == "finished"


def test_a_strip_is_asked_for_and_may_fail(run, monkeypatch):
    monkeypatch.setattr(module, "STRIPS", [])
    made = {"id": "w", "label": "weights", "kind": "lines", "names": ["a"], "rows": [[1, 0.5]]}
    register_strip(lambda run: made)
    register_strip(lambda run: None)
    register_strip(lambda run: {"rows": [[1, math.nan]]})
    register_strip(lambda run: 1 / 0)
    feed = Feed(run.path)
    feed.read()
    header = unpack(feed.frame()).header
    assert header["strips"] == [made]
    assert [text.split(":")[0] for text in header["facts"]["problems"]] == ["strip", "strip"]
    made["rows"].append([2, 0.25])
    assert feed.read(look=True) and unpack(feed.frame()).header["strips"][0]["rows"] == [[1, 0.5], [2, 0.25]]


def test_a_run_that_moves_in_later_keeps_the_name_of_its_log(tmp_path):
    feed = Feed(tmp_path / "new")
    feed.read()
    assert (feed.name, feed.facts()["state"]) == ("new", "waiting")
    write(RunDirectory(tmp_path / "old"), [1, 2])
    os.rename(tmp_path / "old", tmp_path / "new")
    assert feed.read(look=True) and feed.records == 2 and feed.name == "old"


def test_a_folder_that_vanishes_and_comes_back(run):
    write(run, [1, 2, 3])
    feed = Feed(run.path)
    feed.read()
    shutil.rmtree(run.path)
    assert feed.read(look=True) and feed.records == 0
    write(run, [1])
    assert feed.read(look=True) and (feed.records, feed.generation) == (1, 2)


NAMES = ["config.json", "fork.json", "r.segments.json", "r.loss.json", "engine.lock", "proxy.lock", "step_000001.bin"]
NAMES += ["step_000001.bin.sum", "step_000001.bin.pin", "step_000002.bin.pin", "control", "step_9.bin", ".x.1-1.tmp"]
HALF = ['{"model": 3, "train": []}', '{"model": {"vocab": NaN}}', "[" * 100_000, '{"event": "end", "segment": 1}']
HALF += ['{"event": "asked", "segment": 1, "wish": [], "step": "x"}', '{"event": "asked", "segment": 2, "step": 1}']
HALF += ['{"event": "end", "segment": 3, "outcome": {}, "reason": [], "time": NaN}', '{"step": 1e999}', "{}", "null"]
HALF += ['{"event": "begin", "segment": 10000000000000000000000000000000000000000, "from_step": NaN}', "\ud800"]
HALF += ['{"from": "a", "step": 10000000000000000000000000, "sha256": "", "changes": {}}', '{"vocab": 1' + "0" * 5000]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.dictionaries(st.sampled_from(NAMES), st.binary(max_size=60) | st.sampled_from(HALF) | st.none(), min_size=1))
def test_a_folder_of_garbage_is_told_and_raises_nothing(tmp_path_factory, found):
    folder = tmp_path_factory.mktemp("garbage") / "r"
    folder.mkdir()
    for name, content in found.items():
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode(errors="replace"))
    feed = Feed(folder)
    feed.catch_up()
    header = unpack(feed.frame()).header
    assert header["facts"]["state"] and all(isinstance(text, str) for text in header["facts"]["problems"])
    if found.get("config.json", b"{}") is None:
        assert any(text.startswith("config.json: found a folder") for text in header["facts"]["problems"])
    assert not feed.read(look=True), "the same garbage is no news"


def test_links_pipes_and_a_file_for_a_folder_are_problems(tmp_path, run):
    (tmp_path / "secret").write_text("{}")
    run.config.symlink_to(tmp_path / "secret")
    os.mkfifo(run.segments)
    facts = told(run)
    assert facts["problems"] == [
        "config.json: found a symbolic link",
        "r.segments.json: found a pipe, expected the record of segments",
    ]
    (tmp_path / "file").write_text("no folder")
    assert told(RunDirectory(tmp_path / "file"))["problems"] == ["file: found Not a directory"]


def test_a_file_too_large_to_be_what_it_should_is_not_read(run, monkeypatch):
    monkeypatch.setattr(about, "LARGEST", 100)
    run.config.write_text(" " * 101)
    assert told(run)["problems"] == ["config.json: found 101 bytes, expected at most 100"]


def test_a_log_is_read_while_it_is_written(run):
    feed, done = Feed(run.path), threading.Event()

    def work():
        with LossLog(run.log) as log:
            for step in range(1, 301):
                log.append(entry(step, 5.0))
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    seen = 0
    while not done.is_set() or feed.read():
        feed.read()
        assert seen <= feed.records
        seen = feed.records
    thread.join()
    assert feed.facts()["unreadable"] == 0 and feed.history.steps().tolist() == list(range(1, 301))


def test_many_updates_keep_memory_flat(run):
    feed, line = Feed(run.path), (encode(entry(7, 5.0)) + "\n").encode()

    def updates(count):
        for _ in range(count):
            file.write(line)
            feed.read()
            feed.frame(feed.records - 1)

    with open(run.log, "ab", buffering=0) as file:
        updates(1000)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        updates(3000)
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    assert feed.records == 4000
    # The columns with their room to grow, all of it made anew meanwhile, and what Python keeps: not 50 bytes an update.
    assert grown < 4000 * 36 * 9 / 8 + 150_000
