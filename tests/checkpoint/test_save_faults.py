"""A save that fails, dies or is lied to, at every operation and over whatever stands there already."""

import errno
import shutil
import signal

import pytest

from andrea_lab.checkpoint.files import sweep
from andrea_lab.checkpoint.save import SaveError
from andrea_lab.checkpoint.sums import sum_path
from andrea_lab.checkpoint.verify import examine, survey
from tests.checkpoint.faults import CHANGES, LOOKS, Crash, Crashing, Faulty, Lying, Watched
from tests.checkpoint.material import arrays, bits, contents, names, newest_good, put, temps

OLD, STEP, BIN = 6, 7, "step_000007.bin"


def fresh(folder):
    """Nothing stands there."""


def equal(folder):
    put(folder, STEP, 1)


def equal_unverified(folder):
    put(folder, STEP, 1)
    sum_path(folder / BIN).unlink()


def different(folder):
    put(folder, STEP, 2, entry={"loss": 1.5})


def unverified(folder):
    put(folder, STEP, 2)
    sum_path(folder / BIN).unlink()


def damaged(folder):
    put(folder, STEP, 2)
    data = bytearray((folder / BIN).read_bytes())
    data[77] ^= 1
    (folder / BIN).write_bytes(data)


def damaged_sum(folder):
    put(folder, STEP, 2)
    sum_path(folder / BIN).write_bytes(b"{}")


def after_a_crash(folder):
    """The old file stands under a new sum, which knows it as the one before."""
    put(folder, STEP, 2)
    renames = operations(folder, 3, {"rename"})
    with pytest.raises(Crash):
        put(folder, STEP, 3, files=Crashing(len(renames), "before", only={"rename"}))
    sweep(folder)
    assert examine(folder / BIN).verdict == "committed"


# What loads before the save: the seed of the arrays, and whether they can be verified.
BEFORE = {
    fresh: (0, True),
    equal: (1, True),
    equal_unverified: (1, False),
    different: (2, True),
    unverified: (2, False),
    damaged: (0, True),
    damaged_sum: (2, False),
    after_a_crash: (2, True),
}


def operations(folder, seed, only=CHANGES):
    """The operations of a save into a copy of the folder."""
    copy = folder.with_name(f"{folder.name}-counted")
    shutil.copytree(folder, copy)
    files = Watched(only)
    put(copy, STEP, seed, segment=2, files=files)
    shutil.rmtree(copy)
    return files.ops


@pytest.fixture(params=BEFORE, ids=lambda kind: kind.__name__)
def situation(request, quick_path):
    """(which situation, a folder with it and an older checkpoint, what makes a copy of that folder)."""
    origin = quick_path / "origin"
    origin.mkdir()
    put(origin, OLD, 0)
    request.param(origin)

    def again():
        folder = quick_path / "copy"
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(origin, folder)
        return folder

    return request.param, origin, again


def check_survivor(folder, kind, *, old=True, new=True):
    """The folder loads what it did before the save (`old`) or what was to be saved (`new`), and it is no worse."""
    step, data, loaded = newest_good(folder)
    seed, verified = BEFORE[kind]
    allowed = [(bits(arrays(seed)), known) for known in {verified, True} if old]  # a new sum may know the old bytes
    allowed += [(bits(arrays(1)), True)] if new else []
    assert (data, loaded.verified) in allowed
    assert step == (OLD if data == bits(arrays(0)) else STEP)
    verdicts = {v.verdict for v in survey(folder)} - {"committed"}
    assert verdicts <= ({"flipped"} if kind is damaged else set() if verified else {"unverified"})


def check_second_try(folder, kind, more=0):
    """What is left does not keep the next save from being made, and does not pile up (but for `more` copies)."""
    sweep(folder)
    assert temps(folder) == []
    put(folder, STEP, 1, segment=3)
    check_survivor(folder, kind, old=False)
    copies = [name for name in names(folder) if ".bin.was-" in name]
    assert len(copies) <= (kind in (different, unverified, damaged_sum, after_a_crash)) + more


@pytest.mark.parametrize(
    ("persistent", "error"), [(False, errno.EIO), (True, errno.ENOSPC)], ids=["EIO once", "ENOSPC from then on"]
)
def test_every_change_may_fail(situation, persistent, error):
    kind, origin, again = situation
    before, old_bin = contents(origin), contents(origin).get(BIN)
    for number, name in enumerate(operations(origin, 1), 1):
        folder = again()
        with pytest.raises(SaveError, match=f"^{folder}/.*planted {errno.errorcode[error]} in {name}") as caught:
            put(folder, STEP, 1, segment=2, files=Faulty(number, error, persistent=persistent, only=CHANGES))
        assert caught.value.errno == error and "\n" not in str(caught.value)
        check_survivor(folder, kind, old=not caught.value.committed, new=caught.value.committed)
        after = contents(folder)
        if not persistent and not caught.value.committed:
            assert old_bin in (after.get(BIN), after.get(f"{BIN}.bad-2")) and temps(folder) == []
            assert not [name for name in after if name not in before and ".bad-" not in name and name != f"{BIN}.sum"]
            assert kind is not fresh or after == before
        check_second_try(folder, kind)


@pytest.mark.parametrize("error", [errno.EIO, pytest.param(errno.EMFILE, marks=pytest.mark.full)])
def test_every_look_may_fail(situation, error):
    kind, origin, again = situation
    for number in range(1, len(operations(origin, 1, LOOKS)) + 1):
        folder, files = again(), Faulty(number, error, only=LOOKS)
        try:
            put(folder, STEP, 1, segment=2, files=files)
            check_survivor(folder, kind, old=False)
            assert kind is not fresh or not files.failed  # the pieces that are read back are not always as many
        except SaveError as caught:
            assert "planted" in str(caught) and not caught.committed
            check_survivor(folder, kind, new=False)
        check_second_try(folder, kind, more=1)  # a sum that could not be read is as none at all


@pytest.mark.parametrize("when", ["before", "halfway", "after"])
def test_the_process_may_die_at_every_change(situation, when):
    kind, origin, again = situation
    names_of_ops = operations(origin, 1)
    for number, name in enumerate(names_of_ops, 1):
        if when == "halfway" and name != "write":
            continue
        folder = again()
        with pytest.raises(Crash):
            put(folder, STEP, 1, segment=2, files=Crashing(number, when))
        check_survivor(folder, kind)
        if number == len(names_of_ops) and names_of_ops[-2:] == ["rename", "sync_folder"]:
            check_survivor(folder, kind, old=kind in (equal, equal_unverified))
        check_second_try(folder, kind)


@pytest.mark.parametrize("how", ["flip", "zeros", "lose"])
def test_a_write_that_lies_is_found_out_before_the_commit(situation, how):
    kind, origin, again = situation
    for number in range(1, operations(origin, 1).count("write") + 1):
        folder = again()
        with pytest.raises(SaveError) as caught:
            put(folder, STEP, 1, segment=2, files=Lying(number, how))
        assert not caught.value.committed
        check_survivor(folder, kind, new=False)
        check_second_try(folder, kind)


def test_a_write_that_lies_is_named(quick_path):
    for number, part in enumerate(["header", "w wte", "m wte", "v wte", "step_000007.bin.sum"], 1):
        with pytest.raises(SaveError, match=f"{part}: the file gave back other bytes than were written"):
            put(quick_path, STEP, 1, files=Lying(number, "zeros"))
    assert names(quick_path) == []


@pytest.mark.parametrize("short", [1, 7, 100])
def test_short_writes_are_written_on(quick_path, short):
    put(quick_path, STEP, 2)
    put(quick_path, STEP, 1, files=Faulty(short=short))
    assert newest_good(quick_path)[1] == bits(arrays(1)) and examine(quick_path / BIN).verdict == "committed"


def test_a_storm_of_signals_changes_nothing(tmp_path):
    n, heard = 300_000, []
    handler = signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
    try:
        for seed in range(5):
            put(tmp_path, STEP, seed, n)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert len(heard) > 10 and newest_good(tmp_path, n)[1] == bits(arrays(4, n))
    assert examine(tmp_path / BIN).verdict == "committed" and temps(tmp_path) == []


def test_a_sync_that_failed_is_not_tried_again(quick_path):
    files = Faulty(1, only={"sync"})
    with pytest.raises(SaveError):
        put(quick_path, STEP, 1, files=files)
    assert files.ops == ["sync"] and names(quick_path) == []


def test_a_folder_that_is_gone_or_is_no_folder_is_one_clear_line(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(SaveError) as caught:
            put(folder, STEP, 1)
        assert str(caught.value).startswith(f"{folder / BIN}: not saved: ") and "\n" not in str(caught.value)
    assert names(tmp_path) == ["file"]
