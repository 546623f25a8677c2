"""Run directories: never written over, complete or absent."""

import errno

import pytest

from andrea_lab.checkpoint.files import Files
from andrea_lab.checkpoint.lock import LockError
from andrea_lab.run.directory import RunDirectory, RunError, check_free, free_name


def test_create_makes_parents_and_config(tmp_path):
    run = RunDirectory.create(tmp_path / "runs" / "first", '{"a": 1}\n')
    assert run.config.read_text() == '{"a": 1}\n'
    assert run.log == tmp_path / "runs" / "first" / "first.loss.json"
    assert run.weights(42).name == "step_000042.bin"
    assert {file.name for file in run.path.iterdir()} == {"config.json", "proxy.lock"}
    assert RunDirectory.open(run.path).name == "first"


def test_an_existing_run_is_refused_and_a_free_name_offered(tmp_path):
    RunDirectory.create(tmp_path / "a", "{}")
    (tmp_path / "a-2").mkdir()
    with pytest.raises(RunError, match=rf"found an existing run.*--run {tmp_path}/a-3$"):
        RunDirectory.create(tmp_path / "a", "{}")
    assert free_name(tmp_path / "new") == tmp_path / "new"


def test_an_empty_folder_may_be_used_and_a_file_may_not(tmp_path):
    (tmp_path / "empty").mkdir()
    assert RunDirectory.create(tmp_path / "empty", "{}").config.is_file()
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="found a file"):
        RunDirectory.create(tmp_path / "file", "{}")


def test_a_failed_create_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_args, **_keys):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("andrea_lab.run.directory.replace_with", fail)
    with pytest.raises(OSError, match="No space"):
        RunDirectory.create(tmp_path / "runs" / "first", "{}")
    assert not list(tmp_path.iterdir())


def test_what_a_killed_start_leaves_is_no_run(tmp_path):
    """Locks and a temporary neighbour of a process that is gone; a file of any other name is someone's."""
    for name in ("proxy.lock", "engine.lock", f".config.json.{2**31 - 1}-0.tmp"):
        (tmp_path / name).touch()
    run = RunDirectory.create(tmp_path, "{}")
    assert sorted(file.name for file in run.path.iterdir()) == ["config.json", "engine.lock", "proxy.lock"]
    for name in (".hidden", "x.tmp", "lock", "step_000001.bin"):
        other = tmp_path / "other"
        other.mkdir()
        (other / name).touch()
        with pytest.raises(RunError, match="found an existing run"):
            check_free(other)
        (other / name).unlink()
        other.rmdir()


class Synced(Files):
    """Notes which folders' names were pushed to the disk."""

    def __init__(self):
        self.folders = []

    def sync_folder(self, path):
        super().sync_folder(path)
        self.folders.append(path)


def test_what_was_made_is_on_the_disk_with_its_name(tmp_path):
    files = Synced()
    run = RunDirectory.create(tmp_path / "runs" / "r", "{}", files)
    assert files.folders == [tmp_path, tmp_path / "runs", run.path]


class Raced(Files):
    """Another process makes the same folder just before we do."""

    def make_folder(self, path):
        super().make_folder(path)
        super().make_folder(path)


def test_of_two_starts_in_one_new_folder_one_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"r: found an existing run, expected a new name: .* --run .*/r-2$"):
        RunDirectory.create(tmp_path / "r", "{}", Raced())
    assert list((tmp_path / "r").iterdir()) == []  # the other's folder stays


@pytest.mark.parametrize("new", [False, True])
def test_of_two_starts_in_one_empty_folder_one_is_refused(tmp_path, new):
    """The second comes while the first looks, and while it writes: the first one's configuration stays."""
    folder = tmp_path / "new" if new else tmp_path

    class During(Files):
        def create(self, path):
            with pytest.raises(LockError, match="found proxy .* at work"):
                RunDirectory.create(folder, '{"second": 2}')
            return super().create(path)

    RunDirectory.create(folder, '{"first": 1}', During())
    with pytest.raises(RunError, match="found an existing run"):
        RunDirectory.create(folder, '{"second": 2}')
    assert (folder / "config.json").read_text() == '{"first": 1}'


def test_a_start_that_was_slower_finds_the_other_ones_run(tmp_path, monkeypatch):
    looked = []

    def slow(path):
        check_free(path)
        if not looked:
            looked.append(path)
            RunDirectory.create(path, '{"first": 1}')

    monkeypatch.setattr("andrea_lab.run.directory.check_free", slow)
    with pytest.raises(RunError, match="found an existing run"):
        RunDirectory.create(tmp_path, '{"second": 2}')
    assert (tmp_path / "config.json").read_text() == '{"first": 1}'


def test_two_starts_may_share_a_new_folder_above(tmp_path):
    class Above(Raced):
        def make_folder(self, path):
            return super().make_folder(path) if path.name == "runs" else Files.make_folder(self, path)

    assert RunDirectory.create(tmp_path / "runs" / "r", "{}", Above()).config.is_file()


def test_a_folder_that_cannot_be_locked_is_not_made(tmp_path, monkeypatch):
    def nobody(self, wait=0.0):
        raise LockError("found a system without flock")

    monkeypatch.setattr("andrea_lab.checkpoint.lock.RunLock.acquire", nobody)
    with pytest.raises(LockError, match="without flock"):
        RunDirectory.create(tmp_path / "runs" / "r", "{}")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_create_keeps_a_folder_that_was_there(tmp_path):
    (tmp_path / "r").mkdir()
    files = Files()

    def fail(path):
        raise OSError(errno.EIO, "Input/output error", str(path))

    files.sync_folder = fail
    with pytest.raises(OSError, match="Input/output error"):
        RunDirectory.create(tmp_path / "r", "{}", files)
    assert [file.name for file in (tmp_path / "r").iterdir()] == ["proxy.lock"]
    assert RunDirectory.create(tmp_path / "r", "{}").config.is_file()


def test_a_renamed_folder_goes_on_with_its_history(tmp_path):
    run = RunDirectory.create(tmp_path / "old", "{}")
    run.log.write_text('{"step": 1}\n')
    run.path.rename(tmp_path / "new")
    assert RunDirectory(tmp_path / "new").log == tmp_path / "new" / "old.loss.json"
    assert RunDirectory(tmp_path / "new").state.name == "old.state.json"
    (tmp_path / "new" / "other.loss.json").touch()
    assert RunDirectory(tmp_path / "new").name == "new"
    (tmp_path / "new" / "new.loss.json").touch()
    assert RunDirectory(tmp_path / "new").name == "new"


def test_a_place_below_a_file_or_out_of_reach_is_an_error_of_the_disk(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory"):
        RunDirectory.create(tmp_path / "file" / "r", "{}")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_name_of_a_relative_path(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert RunDirectory(".").log.name == "here.loss.json"


def test_weights_and_opening(tmp_path):
    with pytest.raises(RunError, match="found no weights"):
        RunDirectory(tmp_path).newest_weights()
    with pytest.raises(RunError, match="found a folder without config.json"):
        RunDirectory.open(tmp_path)
    with pytest.raises(RunError, match="found no folder"):
        RunDirectory.open(tmp_path / "x")
    for step in (9, 10):
        (tmp_path / f"step_{step:06d}.bin").touch()
    (tmp_path / "step_000011.bin").mkdir()
    assert RunDirectory(tmp_path).newest_weights().name == "step_000010.bin"
