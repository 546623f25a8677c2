"""The crash explorer: what is recorded, and which states each model allows."""

import inspect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_lab.checkpoint.files import REAL, Files, replace_with, write_all
from andrea_lab.lesson.crashes import KILL, MODELS, ORDERED, UNORDERED, Log, Op, Recorder, explore, record, states

SILENT = {"open", "read", "size", "close", "free"}  # change nothing that a crash could undo
WRITE = [Op("create", 1, "a"), Op("write", 1, "a", data=b"12345678")]


def contents(log, model, point=None):
    """The states as dicts, in order."""
    found = states(log, model, len(log.ops) if point is None else point)
    return sorted((dict(state) for state in found), key=repr)


def log(*ops, before=None):
    return Log(before or {}, ops)


def test_a_kill_keeps_what_was_done_and_cuts_the_write_it_was_at():
    made = log(*WRITE)
    assert contents(made, KILL, 0) == [{}]
    assert contents(made, KILL, 1) == [{"a": b""}, {"a": b"1234"}, {"a": b"1234567"}]
    assert contents(made, KILL, 2) == [{"a": b"12345678"}]


def test_unsynced_bytes_are_whole_gone_torn_or_zero_and_their_name_may_be_missing():
    zeros = {b"", b"1234", b"1234\0\0\0\0", bytes(8), b"12345678"}
    for model in (ORDERED, UNORDERED):
        found = contents(log(*WRITE), model)
        assert {} in found
        assert {state["a"] for state in found if state} == zeros


def test_synced_bytes_are_whole_and_their_name_may_still_be_missing():
    made = log(*WRITE, Op("sync", 1, "a"))
    assert contents(made, ORDERED) == contents(made, UNORDERED) == [{"a": b"12345678"}, {}]


def test_a_synced_folder_has_its_names_and_nothing_else():
    made = log(*WRITE, Op("sync folder"))
    assert {len(state) for state in contents(made, UNORDERED)} == {1}
    assert {"a": b""} in contents(made, UNORDERED)
    both = log(*WRITE, Op("sync", 1, "a"), Op("sync folder"))
    assert contents(both, UNORDERED) == contents(both, ORDERED) == [{"a": b"12345678"}]


def test_names_in_order_are_a_prefix_and_in_any_order_a_subset():
    made = log(Op("remove", 1, "x"), Op("remove", 2, "y"), before={"x": b"1", "y": b"2"})
    assert contents(made, ORDERED) == [{"x": b"1", "y": b"2"}, {"y": b"2"}, {}]
    assert contents(made, UNORDERED) == [{"x": b"1", "y": b"2"}, {"x": b"1"}, {"y": b"2"}, {}]


def test_a_rename_replaces_in_one_act():
    made = log(
        Op("create", 2, "a"),
        Op("write", 2, "a", data=b"new"),
        Op("sync", 2, "a"),
        Op("rename", 2, "a", "b"),
        before={"b": b"old"},
    )
    for model in MODELS:
        assert all(state["b"] in (b"old", b"new") for state in contents(made, model))
    assert contents(made, KILL) == [{"b": b"new"}]
    assert {"a": b"new", "b": b"old"} in contents(made, ORDERED)


def test_an_emptied_file_may_be_old_empty_or_new():
    made = log(Op("truncate", 1, "a"), Op("write", 1, "a", data=b"new"), before={"a": b"older"})
    found = {state["a"] for state in contents(made, ORDERED)}
    assert {b"older", b"", b"new", b"n", b"n\0\0", bytes(3)} == found
    assert contents(made, KILL, 1) == [{"a": b""}, {"a": b"n"}, {"a": b"ne"}]


OPS = st.lists(
    st.sampled_from(["write a", "write b", "sync a", "sync b", "a to b", "b to c", "drop b", "folder"]), max_size=7
)


@settings(max_examples=60, deadline=None)
@given(OPS)
def test_each_model_allows_at_least_the_one_before_and_a_full_sync_leaves_one_state(tmp_path_factory, kinds):
    folder = tmp_path_factory.mktemp("run")
    files = Recorder(folder)
    act(files, folder, kinds)
    whole = states(files.log, KILL, len(files.ops))
    assert whole <= states(files.log, ORDERED, len(files.ops)) <= states(files.log, UNORDERED, len(files.ops))
    (state,) = whole
    assert dict(state) == {path.name: path.read_bytes() for path in folder.iterdir()}
    for path in folder.iterdir():
        fd = files.append(path)
        files.sync(fd)
        files.close(fd)
    files.sync_folder(folder)
    assert {states(files.log, model, len(files.ops)) == whole for model in MODELS} == {True}


def act(files, folder, kinds):
    """Do these things with the files a, b and c, as far as they are there."""
    for kind in kinds:
        verb, _, rest = kind.partition(" ")
        if verb == "folder":
            files.sync_folder(folder)
        elif verb in ("write", "sync"):
            fd = files.append(folder / rest)
            write_all(files, fd, memoryview(b"some bytes")) if verb == "write" else files.sync(fd)
            files.close(fd)
        elif verb == "drop":
            if (folder / rest).exists():
                files.remove(folder / rest)
        elif (folder / verb).exists():
            files.rename(folder / verb, folder / rest[-1])


def test_every_change_the_seam_can_make_is_recorded():
    methods = {name for name, _ in inspect.getmembers(Files, inspect.isfunction)}
    recorded = {name for name, value in vars(Recorder).items() if inspect.isfunction(value)}
    assert methods - recorded == SILENT & methods


def test_recorded_as_done(tmp_path):
    (tmp_path / "old").write_bytes(b"x")
    made = record(
        tmp_path, lambda files: replace_with(tmp_path / "new", lambda put: put(memoryview(b"12")), files=files)
    )
    assert made.before == {"old": b"x"}
    assert [op.kind for op in made.ops] == ["create", "write", "sync", "rename", "sync folder"]
    assert made.ops[3].new == "new" and str(made.ops[1]).endswith(" 2 B")
    assert (tmp_path / "new").read_bytes() == b"12"


def test_other_folders_are_refused(tmp_path):
    inside = tmp_path / "run"
    inside.mkdir()
    files = Recorder(inside)
    for act in (files.make_folder, files.remove_folder, files.sync_folder, files.create):
        with pytest.raises(ValueError, match="the explorer knows one folder"):
            act(tmp_path if act == files.sync_folder else tmp_path / "a")


def test_a_temporary_name_is_told_without_its_numbers():
    made = Op("rename", 1, ".step_000200.bin.4711-3.tmp", "step_000200.bin")
    assert str(made) == "rename .step_000200.bin.tmp -> step_000200.bin"
    assert str(Op("sync folder")) == "sync folder"


def test_an_error_of_the_protocol_goes_on(tmp_path):
    with pytest.raises(ZeroDivisionError):
        record(tmp_path, lambda files: 1 / 0)


def test_a_judge_sees_each_state_once_and_may_change_it(tmp_path):
    seen = []

    def judge(folder):
        seen.append(sorted(path.name for path in folder.iterdir()))
        for path in folder.iterdir():
            REAL.remove(path)
        return str(len(seen))

    found = explore(log(*WRITE), judge).crashes
    assert len(seen) == len({crash.state for crash in found}) < len(found)
    assert {crash.model for crash in found} == set(MODELS)
    assert {(crash.state, crash.outcome) for crash in found} == set(
        {crash.state: crash.outcome for crash in found}.items()
    )
