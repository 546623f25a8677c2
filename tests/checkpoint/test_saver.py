"""The saver: what is on disk is what the arrays held at the call, and no failure goes unheard."""

import contextlib
import errno
import os
import threading
import time

import numpy as np
import pytest

from andrea_lab.checkpoint import rotation
from andrea_lab.checkpoint.files import Files
from andrea_lab.checkpoint.load import load
from andrea_lab.checkpoint.rotation import pin
from andrea_lab.checkpoint.save import SaveError
from andrea_lab.checkpoint.saver import Saver
from andrea_lab.checkpoint.single import CheckpointError, file_name, step_of
from andrea_lab.checkpoint.sums import read_sum
from andrea_lab.checkpoint.verify import scan

N = 1000
LONG = 60  # seconds that no wait here ever takes


def arrays(seed: int, n: int = N) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    w, m, v = (rng.standard_normal(n).astype(np.float32) for _ in range(3))
    return [w, m, np.abs(v)]


def on_disk(folder, step, n=N):
    """(what `load` says, w, m, v) of a step."""
    into = [np.zeros(n, np.float32) for _ in range(3)]
    return load(folder / file_name(step), *into), *into


def same(found, expected) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def steps(folder) -> list[int]:
    return [step_of(path.name) for path in scan(folder)]


@pytest.fixture
def make(tmp_path):
    """Savers in the test's folder; those left open are closed."""
    made = []

    def build(n=N, **options):
        made.append(Saver(tmp_path, n, **options))
        return made[-1]

    yield build
    for saver in made:
        with contextlib.suppress(SaveError, CheckpointError):
            saver.close()


class Gate(Files):
    """A disk on which no file is begun before `open` is set."""

    def __init__(self):
        self.open_gate = threading.Event()
        self.created = []

    def create(self, path):
        assert self.open_gate.wait(LONG)
        self.created.append(path.name)
        return super().create(path)


class Broken(Files):
    """A disk that fails while `broken` is set, at the operation of that name."""

    def __init__(self, broken):
        self.broken = broken

    def sync(self, fd):
        self._fail("sync")
        super().sync(fd)

    def create(self, path):
        self._fail("create")
        return super().create(path)

    def remove(self, path):
        if path.name.endswith(".bin"):
            self._fail("remove")
        super().remove(path)

    def _fail(self, name):
        if self.broken == name:
            raise OSError(errno.EIO, "Input/output error")


def test_bytes_are_those_of_the_call(tmp_path, make):
    """The arrays and the entry change the moment save returns, a hundred times."""
    saver, live, entry = make(keep=2), arrays(0), {"step": 0, "marks": [0]}
    for step in range(1, 101):
        then = arrays(step)
        for array, values in zip(live, then, strict=True):
            array[...] = values
        entry["step"], entry["marks"][0] = step, step
        entry.pop("late", None)
        assert saver.save(step, *live, entry=entry, wait=False) is None
        for array in live:
            array.fill(-7)
        entry["step"], entry["marks"][0], entry["late"] = -1, -1, True
        saved = saver.wait()
        loaded, *found = on_disk(tmp_path, step)
        assert loaded.step == step and loaded.verified and same(found, then)
        assert (saved.step, saved.sha256, saved.file) == (step, loaded.sha256, tmp_path / file_name(step))
        assert read_sum(tmp_path / file_name(step)).entry == {"step": step, "marks": [step]}
    assert steps(tmp_path) == [99, 100]


def test_bytes_are_those_of_the_call_on_a_slow_disk(tmp_path, make):
    gate = Gate()
    saver, live = make(files=gate), arrays(1)
    saver.save(1, *live, wait=False)
    for array in live:
        array.fill(9)
    assert saver.pending and not gate.created
    gate.open_gate.set()
    saver.wait()
    assert not saver.pending and same(on_disk(tmp_path, 1)[1:], arrays(1))


@pytest.mark.parametrize("waits", [True, False])
def test_the_next_save_waits_for_the_one_before(tmp_path, make, waits):
    gate = Gate()
    saver = make(files=gate)
    saver.save(1, *arrays(1), wait=False)
    looks = []

    def between():  # called while it waits, so it does wait
        looks.append(list(gate.created))
        gate.open_gate.set()

    saver.save(2, *arrays(2), wait=waits, between=between)
    assert looks[0] == [] and saver.last is not None
    saver.wait()
    order = [step_of(name.split(".", 1)[1].rsplit(".", 2)[0]) for name in gate.created if ".sum." not in name]
    assert order == [1, 2] and same(on_disk(tmp_path, 1)[1:], arrays(1)) and same(on_disk(tmp_path, 2)[1:], arrays(2))


def test_every_step_saved_in_the_background(tmp_path, make):
    saver, live = make(keep=3, tensors=[("a", 0, 400), ("b", 400, 600)]), arrays(0)
    for step in range(1, 61):
        for array in live:
            array += np.float32(1)
        saver.save(step, *live, entry={"step": step}, segment=2, wait=False)
    assert saver.wait().step == 60 and steps(tmp_path) == [58, 59, 60]
    for step in (58, 59, 60):
        expected = arrays(0)
        for _ in range(step):
            for array in expected:
                array += np.float32(1)
        loaded, *found = on_disk(tmp_path, step)
        told = read_sum(tmp_path / file_name(step))
        assert same(found, expected) and loaded.step == told.step == told.entry["step"] == step and told.segment == 2
    assert len(saver.seconds) == 60 and min(saver.seconds) > 0


def test_saves_that_are_waited_for_copy_nothing(tmp_path, make):
    saver, looks = make(), []
    saved = saver.save(5, *arrays(5), between=lambda: looks.append(1))
    assert saved.step == 5 and saver.last is saved is saver.wait() and looks
    assert not saver._copy.any() and same(on_disk(tmp_path, 5)[1:], arrays(5))


@pytest.mark.parametrize("where", ["create", "sync"])
@pytest.mark.parametrize("call", ["save", "wait", "close"])
def test_a_failure_in_the_background_is_raised_once_by_the_next_call(tmp_path, make, where, call):
    disk = Broken(None)
    saver = make(files=disk, keep=1)
    saver.save(1, *arrays(1))
    disk.broken = where
    assert saver.save(2, *arrays(2), wait=False) is None
    while saver.pending:
        time.sleep(0.001)
    disk.broken = None
    calls = {"save": lambda: saver.save(3, *arrays(3)), "wait": saver.wait, "close": saver.close}
    with pytest.raises(SaveError, match="Input/output error") as caught:
        calls[call]()
    assert "\n" not in str(caught.value)
    assert steps(tmp_path) == [1] and same(on_disk(tmp_path, 1)[1:], arrays(1)), "the old one is untouched"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
    saver.wait()
    if call != "close":
        assert saver.save(3, *arrays(3)).step == 3 and steps(tmp_path) == [3]
    saver.close()


def test_a_rotation_that_fails_is_told_and_the_checkpoint_is_there(tmp_path, make):
    disk = Broken("remove")
    saver = make(files=disk, keep=1)
    saver.save(1, *arrays(1))
    with pytest.raises(SaveError, match="rotation at step 2: found Input/output error, expected old .* to go") as told:
        saver.save(2, *arrays(2))
    assert told.value.committed and told.value.errno == errno.EIO
    assert saver.last.step == 2 and len(saver.seconds) == 2 and steps(tmp_path) == [1, 2]
    disk.broken = None
    saver.save(3, *arrays(3))
    assert steps(tmp_path) == [3]


def test_a_checkpoint_that_is_gone_does_not_trouble_rotation(tmp_path, make):
    saver = make(keep=2)
    for step in (1, 2, 3):
        saver.save(step, *arrays(step))
    (tmp_path / file_name(2)).unlink()
    for step in (4, 5):
        saver.save(step, *arrays(step), wait=False)
    saver.wait()
    assert sorted(os.listdir(tmp_path)) == sorted(f"step_00000{step}.bin{e}" for step in (4, 5) for e in ("", ".sum"))


@pytest.mark.parametrize("rotate", ["after", "before"])
def test_arrays_that_are_not_finite_displace_nothing(tmp_path, make, rotate):
    saver, bad = make(keep=2, rotate=rotate), arrays(9)
    bad[0][3] = np.nan
    for step in (1, 2):
        saver.save(step, *arrays(step))
    for step in (3, 4):
        saver.save(step, *bad, wait=False)
        with pytest.raises(CheckpointError, match="nan|finite"):
            saver.wait()
    assert steps(tmp_path) == [1, 2] and saver.last.step == 2
    saver.save(5, *arrays(5))
    assert steps(tmp_path) == [2, 5]


def test_before_and_after_differ_in_what_the_disk_must_hold(tmp_path, make):
    held = []

    class Watching(Files):
        def sync(self, fd):
            held.append(len(scan(tmp_path)))
            super().sync(fd)

    for rotate, most in (("after", 3), ("before", 2)):
        saver = make(keep=3, rotate=rotate, files=Watching())
        held.clear()
        for step in range(1, 7):
            saver.save(step, *arrays(step))
        assert max(held) == most and len(scan(tmp_path)) == 3
        saver.close()
        for file in list(tmp_path.iterdir()):
            file.unlink()


def test_before_never_goes_below_one(tmp_path, make):
    held = []

    class Watching(Files):
        def create(self, path):
            held.append(steps(tmp_path))
            return super().create(path)

    saver = make(keep=1, rotate="before", files=Watching())
    for step in (1, 2, 3):
        saver.save(step, *arrays(step))
    assert [at for at in held if at] and all(at for at in held[2:]) and steps(tmp_path) == [3]
    with pytest.raises(CheckpointError, match="^rotate: found 'now', expected 'after' or 'before'$"):
        make(rotate="now")


def test_before_makes_no_room_for_a_step_that_is_there(tmp_path, make):
    saver = make(keep=2, rotate="before")
    for step in (1, 2, 2, 2):
        saved = saver.save(step, *arrays(step))
    assert saved.outcome == "same" and steps(tmp_path) == [1, 2]


def test_saving_again_what_is_there_changes_nothing(tmp_path, make):
    saver = make(keep=2)
    saver.save(1, *arrays(1))
    before = {path.name: (path.read_bytes(), path.stat().st_ino) for path in tmp_path.iterdir()}
    saver.save(1, *arrays(1), wait=False)
    assert saver.wait().outcome == "same"
    assert {path.name: (path.read_bytes(), path.stat().st_ino) for path in tmp_path.iterdir()} == before


def test_pins_hold_against_the_saver(tmp_path, make):
    saver = make(keep=1)
    saver.save(1, *arrays(1))
    pin(tmp_path, 1, "best")
    for step in (2, 3):
        saver.save(step, *arrays(step), wait=False)
    saver.wait()
    assert steps(tmp_path) == [1, 3]


def test_what_was_just_saved_is_not_hashed_again(tmp_path, make, monkeypatch):
    monkeypatch.setattr(rotation, "examine", lambda path, **_: pytest.fail(f"{path.name} was read once more"))
    saver = make(keep=2)
    for step in range(1, 6):
        saver.save(step, *arrays(step))
    assert steps(tmp_path) == [4, 5]


def test_in_a_hurry_old_files_are_not_hashed(tmp_path, make):
    first = make()
    for step in (1, 2, 3):
        first.save(step, *arrays(step))
    haste = [True]
    saver = make(keep=1, hurry=lambda: haste[0])
    saver.save(4, *arrays(4))
    assert steps(tmp_path) == [1, 2, 3, 4]
    haste[0] = False
    saver.save(5, *arrays(5))
    assert steps(tmp_path) == [5]


def test_a_long_past_is_taken_away_bit_by_bit_the_oldest_first(tmp_path, make):
    first = make()
    for step in range(1, 10):
        first.save(step, *arrays(step))
    saver = make(keep=1)
    for step, left in ((10, [4, 5, 6, 7, 8, 9, 10]), (11, [7, 8, 9, 10, 11]), (12, [12])):
        saver.save(step, *arrays(step))
        assert steps(tmp_path) == left


def test_giving_up_between_two_pieces_leaves_nothing(tmp_path, make):
    class Aborted(Exception):
        pass

    def between():
        raise Aborted

    saver = make()
    with pytest.raises(Aborted):
        saver.save(1, *arrays(1), between=between)
    assert os.listdir(tmp_path) == [] and saver.save(1, *arrays(1)).step == 1


def test_giving_up_the_wait_lets_the_save_go_on(tmp_path, make):
    class Aborted(Exception):
        pass

    def between():
        raise Aborted

    gate = Gate()
    saver = make(files=gate)
    saver.save(1, *arrays(1), wait=False)
    with pytest.raises(Aborted):
        saver.wait(between)
    assert saver.pending
    gate.open_gate.set()
    assert saver.wait().step == 1 and same(on_disk(tmp_path, 1)[1:], arrays(1))


@pytest.mark.parametrize("wait", [True, False])
def test_arrays_that_do_not_fit_are_refused_at_once(tmp_path, make, wait):
    saver, (w, m, v) = make(), arrays(1)
    for bad in ((w[:5], m[:5], v[:5]), (w, m[:5], v), (w.astype(np.float64), m, v)):
        with pytest.raises(CheckpointError, match="step_000001.bin: .*found .*expected"):
            saver.save(1, *bad, wait=wait)
    with pytest.raises(CheckpointError, match="step: found -1"):
        saver.save(-1, w, m, v, wait=wait)
    assert os.listdir(tmp_path) == [] and not saver.pending


def test_closing_waits_and_is_done_once(tmp_path, make):
    gate = Gate()
    saver = make(files=gate)
    saver.save(1, *arrays(1), wait=False)
    threading.Timer(0.05, gate.open_gate.set).start()
    saver.close()
    saver.close()
    assert same(on_disk(tmp_path, 1)[1:], arrays(1)) and saver._copy.size == 0
    with pytest.raises(CheckpointError, match="found a closed saver, expected an open one"):
        saver.save(2, *arrays(2))
