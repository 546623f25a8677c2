"""Whatever operation an append or a move dies or fails at: nothing of before is lost, and the next start works."""

import errno
import os
import shutil

import pytest

from andrea_lab.checkpoint.files import REAL, sweep
from andrea_lab.checkpoint.lock import RunLock
from andrea_lab.lesson.crashes import MODELS, lay_out, record, states
from andrea_lab.run import control, samples, segments
from andrea_lab.run.archive import archive
from andrea_lab.run.directory import RunDirectory, RunError
from andrea_lab.run.losslog import LossLog, encode, read_log
from andrea_lab.run.state import read_state, recover_state, write_state
from tests.checkpoint.faults import CHANGES, Crash, Crashing, Faulty

WHEN = ("before", "halfway", "after")
TORN = b'{"step": 4, "lo'


def sample(step, segment=1, text="so"):
    return dict(step=step, segment=segment, prompt="", tokens=2, temperature=1.0, seed=7, text=text)


def state(step):
    return {"step": step, "segment": 1, "log_bytes": 0, "policy": "uniform", "chooser": {"pulls": [step]}}


def fill(path):
    """A run with three logged steps and a torn fourth, a segment, two samples and a state."""
    run = RunDirectory.create(path, "{}")
    segments.begin(run, from_step=0)
    with LossLog(run.log) as log:
        for step in (1, 2, 3):
            log.append({"step": step, "segment": 1, "loss": step / 2})
    with open(run.log, "ab") as file:
        file.write(TORN)
    samples.append(run, sample(1))
    samples.append(run, sample(2))
    write_state(run, state(2))
    return run


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Makes a copy of that run under a folder."""
    made = fill(tmp_path_factory.mktemp("filled") / "r")

    def copy(folder):
        return RunDirectory(shutil.copytree(made.path, folder / "r"))

    return copy


def history(run):
    """What must never be lost: bytes of what only grows, wherever it is."""
    places = [run.log, run.segments, run.samples, *run.path.glob("archive/*.samples.*")]
    return {place.name.split(".")[1]: place.read_bytes() for place in places if place.exists()}


def append_log(run, files):
    with LossLog(run.log, files) as log:
        log.append({"step": 4, "segment": 2, "loss": 4.0})
        log.append({"step": 5, "segment": 2, "loss": 5.0})


def check_log(run):
    read = read_log(run.log)
    assert [entry["step"] for entry in read.canonical()] == [1, 2, 3, 4, 5]
    assert TORN in run.log.read_bytes()


def check_segments(run):
    begun = segments.read(run)
    numbers = [segment.number for segment in begun]
    assert numbers == sorted(set(numbers)) and begun[0].begin["from_step"] == 0
    assert begun[-1].begin["from_step"] == 3 and begun[-1].outcome is None


def end_segment(run, files):
    segments.end(run, 1, "finished", files=files, steps=3)


def check_end(run):
    assert [(segment.number, segment.outcome) for segment in segments.read(run)] == [(1, "finished")]


def check_samples(run):
    assert [text["step"] for text in samples.read(run)] == [1, 2, 3]
    assert samples.read(run)[-1] == sample(3)


def check_state(run):
    assert read_state(run).step == 3


def check_archive(run):
    names = sorted(file.name for file in run.archive.iterdir())
    assert names == ["r.samples.one.json", "r.state.one.json"]
    assert not run.samples.exists() and not run.state.exists()
    assert [place.name for place in archive(run, "one")] == names


def ask(run, files):
    with RunLock(run.path, "engine"):
        control.send(run, "stop", by="file", files=files)


def check_control(run):
    assert [file.name for file in run.control.iterdir()] == ["stop"]


def take_and_leave(run, files):
    RunLock(run.path, "engine", files).acquire().release()


def check_lock(run):
    RunLock(run.path, "engine").acquire().release()


ACTS = {
    "log": (append_log, check_log),
    "begin": (lambda run, files: segments.begin(run, files=files, from_step=3), check_segments),
    "end": (end_segment, check_end),
    "sample": (lambda run, files: samples.append(run, sample(3), files), check_samples),
    "state": (lambda run, files: write_state(run, state(3), files), check_state),
    "archive": (lambda run, files: archive(run, "one", files), check_archive),
    "control": (ask, check_control),
    "lock": (take_and_leave, check_lock),
}


def untouched(run, before):
    """All that only grows still begins with what it held; the state is whole, the old or the new, or put away."""
    now = history(run)
    assert all(now[name].startswith(held) for name, held in before.items())
    places = [run.state, *run.path.glob("archive/*.state.*")]
    assert len([place for place in places if place.exists()]) == 1
    if run.state.exists():
        assert read_state(run).step in (2, 3)


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("when", WHEN)
def test_a_process_that_dies_at_any_operation(tmp_path, filled, name, when):
    act, check = ACTS[name]
    deaths = 0
    for at in range(1, 100):
        run = filled(tmp_path / f"{at}")
        before = history(run)
        files = Crashing(at, when)
        try:
            act(run, files)
        except Crash:
            deaths += 1
        else:
            break
        untouched(run, before)
        sweep(run.path)
        if run.control.exists():
            sweep(run.control)
        act(run, REAL)
        check(run)
        assert not [file for file in run.path.rglob("*.tmp")]
    assert deaths == len(files.ops) > 1


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_at_any_operation(tmp_path, filled, name, error):
    """The error is raised, or did no harm; either way the same again completes the work."""
    act, check = ACTS[name]
    for at in range(1, 100):
        run = filled(tmp_path / f"{at}")
        before = history(run)
        files = Faulty(at, error, only=CHANGES)
        try:
            act(run, files)
        except (OSError, ValueError) as raised:
            assert os.strerror(error) in str(raised) or "planted" in str(raised)
        else:
            if not files.failed:
                break
        untouched(run, before)
        act(run, REAL)
        check(run)
        assert not [file for file in run.path.rglob("*.tmp")]
    assert files.ops


def test_a_writer_goes_on_after_any_error(tmp_path, filled):
    """One object, one failing operation: what it raised for is appended again, what it did not raise for is there."""
    for at in range(1, 100):
        run = filled(tmp_path / f"{at}")
        files = Faulty(at, errno.EIO, only=CHANGES - {"close"}, short=11)
        try:
            log = LossLog(run.log, files)
        except OSError:
            continue
        for step in (4, 5, 6):
            entry = {"step": step, "segment": 2, "loss": step / 2}
            try:
                log.append(entry)
            except OSError as error:
                assert str(run.log) in str(error)
                log.append(entry)
        log.close()
        assert [(e["step"], e["loss"]) for e in read_log(run.log).canonical()] == [(s, s / 2) for s in range(1, 7)]
        if not files.failed:
            break
    assert files.failed == 0 and at > 15


@pytest.mark.parametrize("when", WHEN)
def test_a_start_that_dies_at_any_operation(tmp_path, when):
    for at in range(1, 100):
        path = tmp_path / f"{at}" / "runs" / "r"
        try:
            run = RunDirectory.create(path, '{"a": 1}', Crashing(at, when))
        except Crash:
            try:
                run = RunDirectory.create(path, '{"a": 1}')
            except RunError:
                run = RunDirectory.open(path)
        else:
            break
        assert run.config.read_text() == '{"a": 1}'
        assert {file.name for file in run.path.iterdir()} - {"proxy.lock"} == {"config.json"}
    assert at > 8


def test_a_start_that_fails_at_any_operation_leaves_nothing(tmp_path):
    for at in range(1, 100):
        files = Faulty(at, errno.ENOSPC, only=CHANGES)
        try:
            RunDirectory.create(tmp_path / "runs" / "r", "{}", files)
        except OSError:
            assert list(tmp_path.iterdir()) == []
        else:
            break
    assert at > 8 and not files.failed


FLAT = ("log", "begin", "end", "sample", "state")


@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize("model", MODELS)
def test_the_power_fails_after_any_operation(tmp_path, filled, name, model):
    """Every state the disk may then be in: what was there is there, and the next start works."""
    act, check = ACTS[name]
    run = filled(tmp_path)
    before = history(run)
    log = record(run.path, lambda files: act(run, files))
    for point in range(len(log.ops) + 1):
        for number, found in enumerate(sorted(states(log, model, point), key=repr)):
            after = RunDirectory(tmp_path / f"{point}-{number}" / "r")
            after.path.parent.mkdir()
            lay_out(found, after.path)
            untouched(after, before)
            if point == len(log.ops):
                check(after)  # what was acknowledged is there
            act(after, REAL)
            check(after)
            shutil.rmtree(after.path.parent)


@pytest.mark.parametrize("model", MODELS)
def test_an_entry_that_was_acknowledged_is_there_after_any_crash(tmp_path, model):
    run = RunDirectory.create(tmp_path / "r", "{}")
    acknowledged = {}

    def protocol(files):
        with LossLog(run.log, files) as log:
            for step in (1, 2, 3):
                log.append({"step": step, "loss": step / 2})
                acknowledged[len(files.ops)] = step

    log = record(run.path, protocol)
    for point in range(len(log.ops) + 1):
        least = max((step for ops, step in acknowledged.items() if ops <= point), default=0)
        for number, found in enumerate(states(log, model, point)):
            after = RunDirectory(tmp_path / f"{point}-{number}" / "r")
            after.path.parent.mkdir()
            lay_out(found, after.path)
            with LossLog(after.log) as again:
                again.append({"step": 9, "loss": 0.5})
            *steps, last = [entry["step"] for entry in read_log(after.log).entries]
            assert last == 9 and steps == [1, 2, 3][: len(steps)] and len(steps) >= least


def test_a_state_that_was_torn_is_put_aside_at_the_next_start(tmp_path, filled):
    run = filled(tmp_path)
    whole = run.state.read_bytes()
    for cut in range(0, len(whole) - 2, 7):
        run.state.write_bytes(whole[:cut])
        found, note = recover_state(run, 5)
        assert found is None and f"moved to {run.state.name}.bad-5" in note
        assert recover_state(run, 6) == (None, None)
    aside = sorted(run.path.glob("*.bad-5*"))
    assert len(aside) > 10
    assert sorted(file.read_bytes() for file in aside) == sorted(whole[:cut] for cut in range(0, len(whole) - 2, 7))


def test_the_log_is_the_same_bytes_after_each_archive(tmp_path, filled):
    run = filled(tmp_path)
    before = run.log.read_bytes()
    assert encode({"step": 3, "segment": 1, "loss": 1.5}).encode() in before
    for label in ("1", "2", "3"):
        samples.append(run, sample(4))
        write_state(run, state(4))
        assert len(archive(run, label)) == 2
        assert run.log.read_bytes() == before
    assert len(list(run.archive.iterdir())) == 6
