"""Where data and runs are looked for."""

import pytest

from andrea_lab import paths


@pytest.fixture(autouse=True)
def no_overrides(monkeypatch):
    monkeypatch.delenv("ANDREA_DATA", raising=False)
    monkeypatch.delenv("ANDREA_RUNS", raising=False)


def test_the_checkout_is_found_from_anywhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert paths.data_dir() == paths.ROOT / "data"
    assert (paths.sources_dir() / "kjv" / "text.txt").is_file()
    assert paths.runs_dir() == paths.ROOT / "runs"


def test_the_environment_names_other_places(monkeypatch, tmp_path):
    (tmp_path / "texts" / "sources").mkdir(parents=True)
    monkeypatch.setenv("ANDREA_DATA", str(tmp_path / "texts"))
    monkeypatch.setenv("ANDREA_RUNS", str(tmp_path / "elsewhere"))
    assert paths.data_dir() == tmp_path / "texts"
    assert paths.sources_dir() == tmp_path / "texts" / "sources"
    assert paths.runs_dir() == tmp_path / "elsewhere"
    assert not (tmp_path / "elsewhere").exists()


def test_a_missing_folder_is_named_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDREA_DATA", str(tmp_path / "none"))
    with pytest.raises(paths.PathError) as caught:
        paths.data_dir()
    assert str(caught.value) == f"ANDREA_DATA: expected a folder, found no such folder: {tmp_path / 'none'}"
    monkeypatch.setenv("ANDREA_DATA", str(tmp_path))
    with pytest.raises(paths.PathError, match="data: expected the folder .*experiments, found no such folder"):
        paths.experiments_dir()


def test_outside_a_checkout_the_error_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    with pytest.raises(paths.PathError) as caught:
        paths.sources_dir()
    assert "pip install -e" in str(caught.value) and "ANDREA_DATA" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_in_place_of_a_folder_is_refused(monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    monkeypatch.setenv("ANDREA_RUNS", str(file))
    with pytest.raises(paths.PathError, match="ANDREA_RUNS: expected a folder, found a file"):
        paths.runs_dir()
