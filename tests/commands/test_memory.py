"""`andrea memory --figure`: the plan over batch and context as a file."""

import json

import pytest
from PIL import Image


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_the_plan_is_drawn_and_the_file_named(call, tmp_path, monkeypatch, precision):
    monkeypatch.chdir(tmp_path)
    code, out, err = call("memory", "ANDREA-12M", "--batch", 8, "--precision", precision, "--figure", "plan.png")
    assert (code, err) == (0, "") and out.splitlines()[-1] == "figure: plan.png"
    with Image.open("plan.png") as picture:
        assert picture.size == (920, 370) and len(picture.convert("RGB").getcolors(10**6)) > 20
    found = json.loads(call("memory", "ANDREA-12M", "--figure", "again.png", "--json")[1])
    assert found["figure"] == "again.png" and (tmp_path / "again.png").stat().st_size > 5000


def test_a_folder_is_no_name_for_a_picture(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.png").mkdir()
    code, out, err = call("memory", "ANDREA-12M", "--figure", "plan.png")
    assert (code, out) == (2, "")
    assert err == "andrea: --figure: found the folder 'plan.png', expected the name of a file\n"
    assert list(tmp_path.rglob("*")) == [tmp_path / "plan.png"]


@pytest.mark.parametrize("name", ["plan.gif", "nowhere/plan.png"])
def test_a_picture_that_could_not_be_written_is_one_line(call, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    code, out, err = call("memory", "ANDREA-12M", "--figure", name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"--figure: found '{name}', expected a name ending in .png in a folder that is there" in err
