"""Archiving puts away samples and state, in steps that can be taken again; the loss log is beyond its reach."""

import pytest

from andrea_lab.checkpoint.files import Files
from andrea_lab.run import archive as module
from andrea_lab.run.archive import archive
from andrea_lab.run.directory import RunDirectory, RunError
from tests.run.made import files


@pytest.fixture
def run(tmp_path):
    run = RunDirectory.create(tmp_path / "r", "{}")
    for path in (run.log, run.samples, run.state, run.segments):
        path.write_text(path.name)
    return run


def test_samples_and_state_move_and_nothing_else_does(run):
    moved = archive(run, "112700")
    assert [path.name for path in moved] == ["r.samples.112700.json", "r.state.112700.json"]
    assert [path.read_text() for path in moved] == ["r.samples.json", "r.state.json"]
    assert files(run.path) == ["archive", "config.json", "proxy.lock", "r.loss.json", "r.segments.json"]
    assert run.log.read_text() == "r.loss.json"


def test_a_move_is_on_the_disk_in_both_folders(run):
    class Noting(Files):
        def rename(self, old, new):
            super().rename(old, new)
            acts.append(new.name)

        def sync_folder(self, path):
            super().sync_folder(path)
            acts.append(path)

    acts = []
    archive(run, "one", Noting())
    assert acts == ["r.samples.one.json", "r.state.one.json", run.archive, run.path]


def test_the_loss_log_cannot_be_named():
    assert module.KINDS == ("samples", "state")


def test_the_same_again_does_nothing_and_half_of_it_is_completed(run):
    moved = archive(run, "one")
    assert archive(run, "one") == moved
    moved[1].rename(run.state)
    assert archive(run, "one") == moved and not run.state.exists()


def test_a_run_without_either_is_left_as_it_is(run):
    run.samples.unlink()
    run.state.unlink()
    assert archive(run, "one") == [] and not run.archive.exists()
    run.state.write_text("later")
    assert files(archive(run, "one")[0].parent) == ["r.state.one.json"]


def test_an_earlier_archive_is_never_replaced(run):
    archive(run, "one")
    run.samples.write_text("new samples")
    run.state.write_text("new state")
    with pytest.raises(RunError, match=r"r\.samples\.one\.json: found an earlier archive of this name, expected a new"):
        archive(run, "one")
    assert run.samples.read_text() == "new samples" and run.state.read_text() == "new state"
    assert len(archive(run, "two")) == 2 and len(files(run.archive)) == 4


@pytest.mark.parametrize("label", ["", "../x", "a/b", ".x", "a b", "a\n", "x\0"])
def test_a_label_that_is_no_name_is_refused(run, label):
    with pytest.raises(RunError, match="label: found .*, expected letters, digits"):
        archive(run, label)
    assert run.samples.exists() and not run.archive.exists()
