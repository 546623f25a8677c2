"""Rotation: by number, only good ones, never what is needed, and no moment at which a kill leaves nothing to load."""

import os
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andrea_lab.checkpoint import rotation
from andrea_lab.checkpoint.files import Files
from andrea_lab.checkpoint.load import load
from andrea_lab.checkpoint.rotation import Memo, pin, pins, rotate, unpin
from andrea_lab.checkpoint.save import save
from andrea_lab.checkpoint.single import CheckpointError, file_name, step_of
from andrea_lab.checkpoint.verify import candidates, examine, scan, survey
from tests.checkpoint.faults import CHANGES, Crash, Crashing, Faulty, Watched

N = 20


def arrays(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    w, m, v = (rng.standard_normal(N).astype(np.float32) for _ in range(3))
    return [w, m, np.abs(v)]


def put(folder, *steps):
    for step in steps:
        save(folder, step, *arrays(step))
    return folder / file_name(steps[-1])


def steps(folder) -> list[int]:
    return [step_of(path.name) for path in scan(folder)]


def loads(path) -> bool:
    """Whether the file loads as verified, with the arrays of its step."""
    into = [np.zeros(N, np.float32) for _ in range(3)]
    loaded = load(path, *into)
    same = all(np.array_equal(a, b) for a, b in zip(into, arrays(loaded.step), strict=True))
    return loaded.verified and same


def tear(path):
    path.write_bytes(path.read_bytes()[:-5])


def flip(path):
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)


def orphan(path):
    path.with_name(path.name + ".sum").unlink()


def poison(path):
    """A whole file with a true sum whose arrays are not finite: what no save of ours commits."""
    w, m, v = arrays(1)
    w[3] = np.nan
    step = step_of(path.name)
    made = path.parent / "made"
    made.mkdir()
    with pytest.raises(CheckpointError):
        save(made, step, w, m, v)
    bad = next(file for file in made.iterdir() if "nonfinite" in file.name and not file.name.endswith(".sum"))
    shutil.move(bad, path)
    orphan(path)
    shutil.rmtree(made)


DAMAGE = [tear, flip, orphan, poison]


@pytest.mark.parametrize("first, last", [(900, 1100), (999_900, 1_000_100)])
def test_order_is_by_number(tmp_path, first, last):
    memo = Memo(N)
    for step in range(first, last + 1, 5):
        put(tmp_path, step)
        rotate(tmp_path, 3, verified=memo)
        assert steps(tmp_path) == list(range(max(first, step - 10), step + 1, 5))
    assert not [name for name in os.listdir(tmp_path) if step_of(name.removesuffix(".sum")) not in steps(tmp_path)]


def test_the_names_of_those_removed_are_told_oldest_first(tmp_path):
    put(tmp_path, 999_800, 999_900, 1_000_000, 1_000_100)
    assert rotate(tmp_path, 2) == ["step_999800.bin", "step_999900.bin"]
    assert rotate(tmp_path, 2) == []


def test_another_padding_is_another_file_and_ordered_by_number_too(tmp_path):
    put(tmp_path, 100, 200, 300)
    padded = tmp_path / "step_0900000.bin"  # of some other writer, newer than all of ours
    shutil.copy(tmp_path / file_name(100), padded)
    assert rotate(tmp_path, 2) == ["step_000100.bin"]
    assert padded.exists() and steps(tmp_path) == [200, 300, 900_000]


def test_all_are_kept_when_keep_is_zero_and_less_is_refused(tmp_path):
    put(tmp_path, 1, 2, 3)
    assert rotate(tmp_path, 0) == [] == rotate(tmp_path, 0, coming=1) and steps(tmp_path) == [1, 2, 3]
    with pytest.raises(CheckpointError, match="^keep: found -1, expected 0 or more$"):
        rotate(tmp_path, -1)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_bad_one_displaces_no_good_one_and_is_not_removed(tmp_path, damage):
    put(tmp_path, 100, 200, 300, 400)
    for step in (100, 300, 400):
        damage(tmp_path / file_name(step))
    bad = {step: (tmp_path / file_name(step)).read_bytes() for step in (100, 300, 400)}
    assert rotate(tmp_path, 1) == []
    put(tmp_path, 500)
    assert rotate(tmp_path, 2) == [] and rotate(tmp_path, 1) == ["step_000200.bin"]
    assert steps(tmp_path) == [100, 300, 400, 500] and loads(tmp_path / file_name(500))
    assert {step: (tmp_path / file_name(step)).read_bytes() for step in bad} == bad


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_last_good_one_stays_however_many_bad_ones_follow(tmp_path, damage):
    put(tmp_path, 100, 200, 300)
    for step in (200, 300):
        damage(tmp_path / file_name(step))
    assert rotate(tmp_path, 1) == [] == rotate(tmp_path, 1, coming=1)
    assert loads(tmp_path / file_name(100))


def test_a_checkpoint_of_another_model_counts_for_nothing(tmp_path):
    put(tmp_path, 100, 200)
    save(tmp_path, 300, *(a[:5] for a in arrays(300)))
    assert rotate(tmp_path, 1, verified=Memo(N)) == ["step_000100.bin"]
    assert steps(tmp_path) == [200, 300]


FOREIGN = [
    "step_100.bin",
    "step_000100.bin.bak",
    "step_000100.bin.was-2",
    "step_000100.bin.was-2.sum",
    "Step_000100.bin",
]
FOREIGN += ["step_000100.bin.bad-1", "step_000100.bin.nonfinite-1", "step_000100.pt", "xstep_000100.bin", "notes.txt"]
FOREIGN += [".step_000100.bin.1-1.tmp", "step_000100.bin ", "step_-00100.bin", "step_1e5000.bin", "step_٠٠٠١٠٠.bin"]


def test_what_is_not_ours_is_not_touched(tmp_path):
    for name in FOREIGN:
        (tmp_path / name).write_bytes(b"precious")
    (tmp_path / "step_000050.bin").mkdir()
    (tmp_path / "step_000050.bin.sum").write_bytes(b"precious")
    (tmp_path / "step_000060.bin").symlink_to(tmp_path / "notes.txt")
    (tmp_path / "step_000060.bin.sum").write_bytes(b"precious")
    (tmp_path / "latest").symlink_to("step_000200.bin")
    os.mkfifo(tmp_path / "step_000070.bin")
    os.mkfifo(tmp_path / "step_000070.bin.sum")
    before = set(os.listdir(tmp_path))
    put(tmp_path, 200, 300, 400)
    assert rotate(tmp_path, 1) == ["step_000200.bin", "step_000300.bin"]
    assert set(os.listdir(tmp_path)) == before | {"step_000400.bin", "step_000400.bin.sum"}
    assert all((tmp_path / name).read_bytes() == b"precious" for name in FOREIGN)


def test_a_link_in_a_good_ones_place_is_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    precious = put(elsewhere, 100)
    run = tmp_path / "run"
    run.mkdir()
    put(run, 200, 300)
    (run / precious.name).symlink_to(precious)
    shutil.copy(str(precious) + ".sum", run)
    assert rotate(run, 1) == ["step_000200.bin"]
    assert precious.exists() and (run / precious.name).is_symlink() and (run / "step_000100.bin.sum").exists()


def test_pinned_ones_stay_and_are_not_counted(tmp_path):
    put(tmp_path, 100, 200, 300, 400)
    pin(tmp_path, 100, "best  so\nfar")
    assert pins(tmp_path) == {100: "best so far"}
    assert rotate(tmp_path, 2) == ["step_000200.bin"] and steps(tmp_path) == [100, 300, 400]
    pin(tmp_path, 400, "fork into runs/b")
    put(tmp_path, 500)
    assert rotate(tmp_path, 1) == ["step_000300.bin"] and steps(tmp_path) == [100, 400, 500]
    unpin(tmp_path, 100)
    unpin(tmp_path, 400)
    assert pins(tmp_path) == {} and rotate(tmp_path, 1) == ["step_000100.bin", "step_000400.bin"]
    assert sorted(os.listdir(tmp_path)) == ["step_000500.bin", "step_000500.bin.sum"]


def test_reasons_add_up_and_the_name_alone_pins(tmp_path):
    put(tmp_path, 100, 200, 300)
    pin(tmp_path, 100, "fork into a")
    pin(tmp_path, 100, "fork into b")
    pin(tmp_path, 100, "fork into a; fork into b")
    assert pins(tmp_path) == {100: "fork into a; fork into b"}
    (tmp_path / "step_000100.bin.pin").write_bytes(b"\xff" * 10_000)
    os.mkfifo(tmp_path / "step_000200.bin.pin")
    assert set(pins(tmp_path)) == {100, 200} and pins(tmp_path)[200] == ""
    assert rotate(tmp_path, 1) == [] and steps(tmp_path) == [100, 200, 300]


def test_a_pin_needs_its_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match="step_000100.bin: found no weight file, expected one to pin"):
        pin(tmp_path, 100, "why")
    put(tmp_path, 100)
    with pytest.raises(CheckpointError, match="step_000100.bin: found no pin, expected one"):
        unpin(tmp_path, 100)
    assert sorted(os.listdir(tmp_path)) == ["step_000100.bin", "step_000100.bin.sum"]


def test_a_pin_set_while_a_rotation_hashes_holds(tmp_path):
    put(tmp_path, 1, 2, 3)

    def enough():
        if not pins(tmp_path):
            pin(tmp_path, 1, "a fork is reading it")
        return False

    assert rotate(tmp_path, 1, enough=enough) == [file_name(2)]
    assert steps(tmp_path) == [1, 3]


def test_a_pin_that_comes_too_late_says_so_and_does_not_stay(tmp_path):
    put(tmp_path, 1, 2)

    class Rotating(Files):
        def rename(self, old, new):
            rotate(tmp_path, 1)
            super().rename(old, new)

    with pytest.raises(CheckpointError, match="step_000001.bin: found that it was just removed, expected one to pin"):
        pin(tmp_path, 1, "best", files=Rotating())
    assert pins(tmp_path) == {} and steps(tmp_path) == [2]


@pytest.mark.parametrize("keep, left", [(1, [400]), (2, [400]), (3, [300, 400]), (9, [100, 200, 300, 400])])
def test_room_is_made_down_to_one_fewer_but_one_stays(tmp_path, keep, left):
    put(tmp_path, 100, 200, 300, 400)
    rotate(tmp_path, keep, coming=1)
    assert steps(tmp_path) == left


def test_nothing_is_hashed_twice_until_it_changes(tmp_path, monkeypatch):
    seen = []

    def counting(path, **options):
        seen.append(step_of(path.name))
        return examine(path, **options)

    monkeypatch.setattr(rotation, "examine", counting)
    memo = Memo(N)
    put(tmp_path, 100, 200, 300)
    tear(tmp_path / file_name(200))
    assert rotate(tmp_path, 2, verified=memo) == [] and seen == [300, 200, 100]
    assert rotate(tmp_path, 2, verified=memo) == [] and seen == [300, 200, 100]
    put(tmp_path, 400)
    memo.remember(tmp_path / file_name(400))
    flip(tmp_path / file_name(300))
    assert rotate(tmp_path, 2, verified=memo) == [] and seen[3:] == [300]
    orphan(tmp_path / file_name(400))
    assert not memo.knows(tmp_path / file_name(400)) and not memo.good(tmp_path / file_name(400))
    assert not memo.good(tmp_path / file_name(700)) and memo.knows(tmp_path / file_name(700))  # there is none


def test_what_changes_while_it_is_read_is_not_good(tmp_path, monkeypatch):
    path = put(tmp_path, 100)

    def slow(path, **options):
        found = examine(path, **options)
        flip(path)
        os.utime(path, ns=(1, 1))
        return found

    monkeypatch.setattr(rotation, "examine", slow)
    memo = Memo(N)
    assert not memo.good(path) and not memo.knows(path)


def test_what_the_disk_does_not_give_once_is_looked_at_again(tmp_path, monkeypatch):
    memo = Memo(N)
    put(tmp_path, 1)
    path = tmp_path / file_name(1)
    with monkeypatch.context() as patch:
        patch.setattr(rotation, "examine", lambda path, **options: examine(path, files=Faulty(1), **options))
        patch.setattr("andrea_lab.checkpoint.load.read_sum", lambda path, files: None)
        assert not memo.good(path)
    assert memo.good(path)


def test_hashing_can_be_put_off(tmp_path):
    put(tmp_path, 100, 200, 300)
    memo = Memo(N)
    memo.remember(tmp_path / file_name(300))
    assert rotate(tmp_path, 1, verified=memo, enough=lambda: True) == [] and steps(tmp_path) == [100, 200, 300]
    memo.remember(tmp_path / file_name(200))
    assert rotate(tmp_path, 1, verified=memo, enough=lambda: True) == [] and steps(tmp_path) == [100, 200, 300]
    put(tmp_path, 50)
    assert rotate(tmp_path, 1, verified=memo, enough=iter([False, True]).__next__) == ["step_000050.bin"]
    assert rotate(tmp_path, 1, verified=memo) == ["step_000100.bin", "step_000200.bin"]


def test_a_sum_alone_goes_once_a_newer_checkpoint_is_there(tmp_path):
    put(tmp_path, 100, 200, 300, 400, 500)
    pin(tmp_path, 100, "moved away for a while")
    for step in (100, 200, 300, 500):
        (tmp_path / file_name(step)).unlink()
    (tmp_path / file_name(300)).symlink_to(tmp_path / "moved")  # to where nothing is just now
    rotate(tmp_path, 5)
    left = {name for name in os.listdir(tmp_path) if name.endswith(".sum")}
    assert left == {f"{file_name(step)}.sum" for step in (100, 300, 400, 500)}


def test_one_that_was_removed_by_hand_is_no_error(tmp_path):
    put(tmp_path, 100, 200, 300)

    class Racing(Files):
        def remove(self, path):
            if path.name == file_name(100):
                path.unlink()
            super().remove(path)

    rotate(tmp_path, 1, files=Racing())
    assert sorted(os.listdir(tmp_path)) == ["step_000300.bin", "step_000300.bin.sum"]


KINDS = {"good": lambda path: None, "torn": tear, "flipped": flip, "unverified": orphan}


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.sampled_from(list(KINDS)), st.booleans()), min_size=1, max_size=7),
    st.integers(1, 4),
    st.integers(0, 2),
)
def test_whatever_the_folder_holds(tmp_path_factory, kinds, keep, coming):
    """Only good ones that are not pinned go, the oldest first, and exactly down to the number that is to be kept."""
    folder = tmp_path_factory.mktemp("run")
    for number, (kind, pinned) in enumerate(kinds):
        step = 999_700 + 100 * number
        put(folder, step)
        if pinned:
            pin(folder, step, "kept")
        KINDS[kind](folder / file_name(step))
    counted = [999_700 + 100 * i for i, (kind, pinned) in enumerate(kinds) if kind == "good" and not pinned]
    limit = max(1, keep - coming)
    assert rotate(folder, keep, coming=coming) == [file_name(step) for step in counted[:-limit]]
    assert steps(folder) == [999_700 + 100 * i for i in range(len(kinds)) if 999_700 + 100 * i not in counted[:-limit]]
    assert rotate(folder, keep, coming=coming) == []


@pytest.fixture
def crowded(tmp_path):
    """A folder from which a rotation to 2 takes three, beside a pinned one and a damaged newest one."""
    folder = tmp_path / "crowded"
    folder.mkdir()
    put(folder, 100, 200, 300, 400, 500, 600, 700)
    pin(folder, 200, "best")
    tear(folder / file_name(700))
    return folder


LEFT = [200, 500, 600, 700]


def newest_good(folder):
    return next(path for path in candidates(folder) if examine(path).verdict == "committed")


def test_a_rotation_killed_anywhere_leaves_the_newest_and_is_finished_by_the_next(tmp_path, crowded):
    whole, watched = tmp_path / "whole", Watched(CHANGES)
    shutil.copytree(crowded, whole)
    rotate(whole, 2, files=watched)
    assert watched.ops == ["remove"] * 3 + ["sync_folder"] + ["remove"] * 3 and steps(whole) == LEFT
    verdicts = {seen.file.name: seen.verdict for seen in survey(crowded)}
    for at in range(1, len(watched.ops) + 1):
        for when in ("before", "after"):
            folder = tmp_path / f"{when}-{at}"
            shutil.copytree(crowded, folder)
            with pytest.raises(Crash):
                rotate(folder, 2, files=Crashing(at, when))
            assert newest_good(folder).name == file_name(600) and loads(folder / file_name(600))
            assert set(steps(folder)) >= set(LEFT)
            assert all(verdicts[seen.file.name] == seen.verdict for seen in survey(folder)), "none lost its sum"
            rotate(folder, 2)
            assert sorted(os.listdir(folder)) == sorted(os.listdir(whole)), f"{when} operation {at}"


def test_a_rotation_that_fails_anywhere_says_so_and_is_finished_by_the_next(tmp_path, crowded):
    for at in range(1, 8):
        folder = tmp_path / str(at)
        shutil.copytree(crowded, folder)
        with pytest.raises(OSError, match="planted"):
            rotate(folder, 2, files=Faulty(at, only=CHANGES))
        assert loads(folder / file_name(600)) and set(steps(folder)) >= set(LEFT)
        rotate(folder, 2)
        assert steps(folder) == LEFT and len(os.listdir(folder)) == 2 * len(LEFT) + 1


def test_a_pin_killed_anywhere_pins_or_does_not(tmp_path):
    put(tmp_path, 100)
    watched = Watched(CHANGES)
    pin(tmp_path, 100, "why", files=watched)
    for at in range(1, len(watched.ops) + 1):
        unpin(tmp_path, 100)
        with pytest.raises(Crash):
            pin(tmp_path, 100, "why", files=Crashing(at))
        assert pins(tmp_path) in ({}, {100: "why"})
        pin(tmp_path, 100, "why")
