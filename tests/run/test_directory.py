"""Run directories: never written over, complete or absent."""

import pytest

from andrea_lab.run.directory import RunDirectory, RunError, free_name


def test_create_makes_parents_and_config(tmp_path):
    run = RunDirectory.create(tmp_path / "runs" / "first", '{"a": 1}\n')
    assert run.config.read_text() == '{"a": 1}\n'
    assert run.log == tmp_path / "runs" / "first" / "first.loss.json"
    assert run.weights(42).name == "step_000042.bin"
    assert [file.name for file in run.path.iterdir()] == ["config.json"]
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
    assert RunDirectory(tmp_path).newest_weights().name == "step_000010.bin"
