"""Whoever reads a run at work, a picture or another command, sees what is whole: the old or the new, no mixture."""

from threading import Event, Thread

from andrea_lab.run import samples, segments
from andrea_lab.run.directory import RunDirectory
from andrea_lab.run.losslog import LossLog, entries_after, last_entry, read_log
from andrea_lab.run.state import read_state, write_state
from andrea_lab.view.feed import Feed

STEPS = 60


def at_once(write, read):
    """Run `write` in a thread and `read` over and over beside it, and once after it; returns what was read."""
    done, failed, found = Event(), [], []

    def work():
        try:
            write()
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    thread = Thread(target=work)
    thread.start()
    while not done.is_set():
        found.append(read())
    thread.join()
    assert failed == []
    return [*found, read()]


def test_a_state_is_the_old_or_the_new(tmp_path):
    run = RunDirectory.create(tmp_path / "r", "{}")

    def write():
        for step in range(STEPS):
            chooser = {"pulls": [step] * 2000}
            write_state(run, {"step": step, "segment": 1, "log_bytes": 0, "policy": "x", "chooser": chooser})

    states = [state for state in at_once(write, lambda: read_state(run)) if state is not None]
    assert all(state.chooser == {"pulls": [state.step] * 2000} for state in states)
    assert states[-1].step == STEPS - 1


def test_a_log_is_read_while_it_grows(tmp_path):
    run = RunDirectory.create(tmp_path / "r", "{}")
    feed = Feed(run.path)

    def write():
        with LossLog(run.log) as log:
            for step in range(1, STEPS + 1):
                log.append({"step": step, "loss": step / 2, "source": "x" * 5000})

    def read():
        feed.read()
        last = last_entry(run.log)
        return last and last["step"], list(entries_after(run.log, 0)), run.log.exists() and read_log(run.log)

    for last, steps, log in at_once(write, read):
        assert steps == list(range(1, len(steps) + 1)) and (last or 0) <= len(steps)
        if log:
            logged = [entry["step"] for entry in log.entries]
            assert logged == list(range(1, len(logged) + 1)) and log.torn in ([], [len(logged) + 1])
    assert last == STEPS and feed.history.steps().tolist() == list(range(1, STEPS + 1))


def test_samples_and_segments_are_read_while_they_grow(tmp_path):
    run = RunDirectory.create(tmp_path / "r", "{}")

    def write():
        for step in range(STEPS // 2):
            rest = {"segment": 1, "prompt": "", "tokens": 9, "temperature": 1.0, "seed": 1, "text": "t" * 5000}
            samples.append(run, {"step": step} | rest)
            segments.begin(run, rejected=["r" * 500])

    def read():
        return [sample["step"] for sample in samples.read(run)], [segment.number for segment in segments.read(run)]

    for steps, numbers in at_once(write, read):
        assert steps == list(range(len(steps))) and numbers == list(range(1, len(numbers) + 1))
    assert len(steps) == len(numbers) == STEPS // 2
