"""Every legal state after a crash at every operation of a save: the old checkpoint or the new, and after it the new.

The package's own protocols hold that under all three models of a crash. The well-known broken ones lose what they must.
"""

import numpy as np
import pytest

from andrea_lab.checkpoint.files import replace_with, sweep
from andrea_lab.checkpoint.rotation import pin, rotate
from andrea_lab.checkpoint.save import save
from andrea_lab.checkpoint.saver import Saver
from andrea_lab.checkpoint.single import file_name
from andrea_lab.checkpoint.sums import sum_path
from andrea_lab.checkpoint.verify import candidates, examine
from andrea_lab.lesson.crashes import DAMAGED, KILL, MODELS, NEW, NOTHING, OLD, ORDERED, UNORDERED, Log, explore, record
from andrea_lab.lesson.protocols import PROTOCOLS, Protocol, both_synced, crashes_of, survivor

N = 6
TENSORS = [("wte", 0, 4), ("W_Q", 4, 2)]


def arrays(value):
    return [np.full(N, value, np.float32) for _ in range(3)]


def saved(folder, step, value, **how):
    """The bytes of a checkpoint that is there before the protocol starts."""
    save(folder, step, *arrays(value), tensors=TENSORS, **how)
    return (folder / file_name(step)).read_bytes()


def explored(folder, protocol, old, judge=survivor):
    """Explore a protocol that saves arrays of 2.0 as step 200 in a folder where everything is synced."""
    log = record(folder, protocol)
    return explore(log, judge({(folder / file_name(200)).read_bytes()}, set(old), N))


def resumed(new, old, n):
    """The judge of a resume: what it clears away first must not be what it needs."""
    inner = survivor(new, old, n)

    def judge(folder):
        sweep(folder)
        return inner(folder)

    return judge


def verified(new, old, n):
    """A judge that takes nothing on trust: what loads must fit its sum."""
    inner = survivor(new, old, n)

    def judge(folder):
        unproven = [path for path in candidates(folder) if examine(path, n_params=n).verdict != "committed"]
        for path in unproven:
            path.unlink()
        return inner(folder)

    return judge


JUDGES = [survivor, resumed, verified]


def assert_safe(found):
    """Old or new in every state, new after success; and the exploration saw both."""
    assert {crash.outcome for crash in found.crashes} == {OLD, NEW}, "\n" + str(found)
    assert found.lost() == found.broken_promises() == 0
    for model in MODELS:
        assert {crash.outcome for crash in found.at(model, 0)} == {OLD}
        assert {crash.outcome for crash in found.at(model, len(found.log.ops))} == {NEW}


def save_200(folder):
    return lambda files: save(folder, 200, *arrays(2.0), tensors=TENSORS, segment=2, files=files)


@pytest.mark.parametrize("judge", JUDGES)
def test_a_save_keeps_the_old_checkpoint_until_the_new_one_is_safe(tmp_path, judge):
    old = saved(tmp_path, 100, 1.0)
    found = explored(tmp_path, save_200(tmp_path), [old], judge)
    assert_safe(found)
    assert [op.kind for op in found.log.ops].count("sync") == 2  # the weight file and its sum


@pytest.mark.parametrize("judge", JUDGES)
def test_the_same_step_with_other_bytes_is_old_or_new_at_every_instant(tmp_path, judge):
    old = saved(tmp_path, 200, 1.0)
    assert_safe(explored(tmp_path, save_200(tmp_path), [old], judge))


@pytest.mark.parametrize("target", ["step_000200.bin", "step_000200.bin.sum"])
@pytest.mark.parametrize("kind", ["sync", "sync folder"])
def test_each_sync_of_the_weight_file_of_its_sum_and_of_their_names_is_needed(tmp_path, target, kind):
    old = saved(tmp_path, 200, 1.0)
    log = record(tmp_path, save_200(tmp_path))
    ops = log.ops
    rename = next(i for i, op in enumerate(ops) if op.kind == "rename" and op.new == target)
    its = [i for i, op in enumerate(ops) if op.kind == kind and (op.file == ops[rename].file or i > rename)]
    less = tuple(op for i, op in enumerate(ops) if i != its[0])
    judge = verified({(tmp_path / file_name(200)).read_bytes()}, {old}, N)
    found = explore(Log(log.before, less), judge)
    assert found.lost() + found.broken_promises() > 0


def test_the_same_step_over_a_damaged_file_falls_back_on_the_one_before(tmp_path):
    old = saved(tmp_path, 100, 1.0)
    saved(tmp_path, 200, 1.5)
    path = tmp_path / file_name(200)
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    assert_safe(explored(tmp_path, save_200(tmp_path), [old]))


def test_the_same_step_over_a_file_without_a_sum(tmp_path):
    old = saved(tmp_path, 200, 1.0)
    sum_path(tmp_path / file_name(200)).unlink()
    assert_safe(explored(tmp_path, save_200(tmp_path), [old]))


def test_the_same_bytes_again_change_nothing(tmp_path):
    same = saved(tmp_path, 200, 2.0)
    found = explored(tmp_path, save_200(tmp_path), [])
    assert found.log.ops == () and {crash.outcome for crash in found.crashes} == {NEW}
    assert (tmp_path / file_name(200)).read_bytes() == same


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("when", ["after", "before"])
@pytest.mark.parametrize("wait", [True, False])
def test_a_saver_with_rotation(tmp_path, keep, when, wait):
    old = [saved(tmp_path, step, 1.0 + step / 1000) for step in (0, 50, 100)]

    def protocol(files):
        saver = Saver(tmp_path, N, tensors=TENSORS, keep=keep, rotate=when, files=files)
        saver.save(200, *arrays(2.0), wait=wait)
        saver.wait()

    found = explored(tmp_path, protocol, old)
    assert_safe(found)
    assert any(op.kind == "remove" and op.name.endswith(".bin") for op in found.log.ops)


def test_rotation_by_itself_never_takes_the_newest(tmp_path):
    bytes_of = {step: saved(tmp_path, step, 1.0) for step in (0, 50, 100, 200)}
    pin(tmp_path, 50, "a fork")

    def protocol(files):
        rotate(tmp_path, 1, files=files)
        rotate(tmp_path, 1, files=files, coming=1)

    found = explored(tmp_path, protocol, [])
    assert {crash.outcome for crash in found.crashes} == {NEW}
    pinned = file_name(50), bytes_of[50]
    assert all(pinned in crash.state for crash in found.crashes)
    assert sorted(path.name for path in tmp_path.glob("*.bin")) == [file_name(50), file_name(200)]


def test_no_state_of_a_rotation_holds_a_weight_file_that_lost_its_sum(tmp_path):
    for step in (0, 50, 100):
        saved(tmp_path, step, 1.0)
    log = record(tmp_path, lambda files: rotate(tmp_path, 1, files=files))
    verdicts = explore(log, lambda folder: " ".join(sorted({examine(p).verdict for p in folder.glob("*.bin")})))
    assert {crash.outcome for crash in verdicts.crashes} == {"committed"}


# ---------------------------------------------------------------- the ways that do not hold


def outcomes(found, model, point=None):
    return {crash.outcome for crash in found.crashes if crash.model == model and point in (None, crash.point)}


def last(found):
    return len(found.log.ops)


def test_in_place_loses_both_even_to_a_kill():
    found = crashes_of(PROTOCOLS["in place"])
    assert NOTHING in outcomes(found, KILL)
    assert outcomes(found, KILL, last(found)) == {NEW}
    assert outcomes(found, ORDERED, last(found)) == {NEW, OLD, NOTHING, DAMAGED}


def test_a_rename_without_a_sync_stands_a_kill_and_no_power_loss():
    found = crashes_of(PROTOCOLS["rename"])
    assert outcomes(found, KILL) == {OLD, NEW}
    for model in (ORDERED, UNORDERED):
        assert outcomes(found, model, last(found)) == {NEW, OLD, NOTHING, DAMAGED}
    assert all(found.worst(model, point) == OLD for model in MODELS for point in range(last(found)))


def test_without_the_sync_of_the_folder_nothing_is_lost_but_the_promise():
    found = crashes_of(PROTOCOLS["sync, rename"])
    assert found.lost() == 0 and found.broken_promises() > 0
    for model in (ORDERED, UNORDERED):
        assert outcomes(found, model, last(found)) == {NEW, OLD}


def test_both_syncs_hold():
    assert_safe(crashes_of(PROTOCOLS["sync, rename, sync folder"]))


def test_to_remove_the_only_old_file_first_loses_at_nearly_every_point():
    found = crashes_of(PROTOCOLS["keep 1, remove before"])
    lost = [point for point in range(last(found) + 1) if NOTHING in outcomes(found, KILL, point)]
    assert lost == list(range(1, last(found) - 1))
    assert found.broken_promises() == 0


@pytest.mark.parametrize("name", ["keep 1, remove after", "keep 2, remove after"])
def test_to_remove_after_the_save_loses_nothing(name):
    assert_safe(crashes_of(PROTOCOLS[name]))


def test_to_remove_after_a_save_whose_folder_was_not_synced_loses_when_names_come_in_any_order():
    found = crashes_of(PROTOCOLS["keep 1, folder not synced"])
    assert outcomes(found, KILL) == outcomes(found, ORDERED) == {OLD, NEW}
    assert NOTHING in outcomes(found, UNORDERED)


def test_a_state_is_shown_with_what_was_done_and_what_its_files_hold():
    found = crashes_of(PROTOCOLS["rename"])
    text = found.show(ORDERED, 3)
    assert text.startswith("done: create step_000200.bin.tmp\ndone: write step_000200.bin.tmp 56 B\n")
    assert "nothing  step_000200.bin empty" in text and "damaged  step_000200.bin with zeros" in text
    assert "old      step_000200.bin old, step_000200.bin.tmp cut short" in text
    assert str(found).splitlines()[0].split("after success: ") == [f"{'kill':<18}{'5 old':<40}", "1 new"]


def test_the_plain_protocol_and_the_package_do_the_same_with_names(tmp_path):
    plain = crashes_of(Protocol("plain", both_synced, {})).log.ops
    path, data = tmp_path / file_name(200), memoryview(b"the whole file")
    package = record(tmp_path, lambda files: replace_with(path, lambda write: write(data), files=files)).ops
    kinds = [[op.kind for op in ops if op.kind != "write"] for ops in (plain, package)]
    assert kinds[0] == kinds[1] == ["create", "sync", "rename", "sync folder"]
