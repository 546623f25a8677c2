"""`andrea verify`: what each file is, where a resume would start, and what stands beside the weight files."""

import json
import os

import pytest

from andrea_lab.checkpoint.save import save
from andrea_lab.checkpoint.sums import sum_path
from andrea_lab.commands.verify import litter
from tests.run.made import TENSORS, N, arrays


def flip(path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_verify_says_what_each_file_is_and_where_a_resume_would_start(call, run):
    flip(run.weights(30), 8 + 4 * 9000)
    sum_path(run.weights(10)).unlink()
    code, out, err = call("verify", "tiny")
    lines = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert ["step_000020.bin", "20", "committed", "0.50", "0.48"] in lines
    assert any(line[:3] == ["step_000010.bin", "10", "unverified"] for line in lines)
    bad = " ".join(out.split()).partition("step_000030.bin")[2]
    assert bad.startswith(" 30 flipped 0.50 0.48 w layer0.W_Q: found other bytes than were saved, expected sha256")
    assert out.rstrip().endswith("a resume would start from step_000020.bin")


def test_verify_json(call, run):
    run.weights(30).write_bytes(run.weights(30).read_bytes()[:100])
    code, out, err = call("verify", "tiny", "--json")
    found = json.loads(out)
    assert (code, err, found["run"], found["resume_from"]) == (0, "", "tiny", "step_000020.bin")
    assert [each["verdict"] for each in found["checkpoints"]] == ["committed", "committed", "torn"]
    last = found["checkpoints"][-1]
    assert (last["file"], last["step"], last["nbytes"]) == ("step_000030.bin", 30, 100)
    assert last["reason"] == "found 100 bytes, expected 502280 = 8 + 12 * 41856"
    assert found["litter"] == [] and found["pins"] == {} and found["note"] is None


@pytest.mark.parametrize("name", ["a[red]b", "a[/red]b"])
def test_square_brackets_in_a_name_are_themselves(call, run, name):
    folder = run.path.parent / name
    folder.parent.mkdir(exist_ok=True)
    run.path.rename(folder)
    code, out, err = call("verify", name)
    assert (code, err, out.splitlines()[0].rstrip()) == (0, "", name)
    assert name in call("inspect", f"{name}/step_000010.bin")[1]
    assert folder.name in call("compare", name, f"./{name}")[1]


def test_exit_code_1_when_nothing_loads(call, run):
    for step in (10, 20, 30):
        run.weights(step).write_bytes(os.urandom(5000))
    code, out, err = call("verify", "tiny")
    assert (code, err) == (1, "") and "no weight file loads: a resume would refuse to start" in out
    code, out, _ = call("verify", "tiny", "--json")
    assert code == 1 and json.loads(out)["resume_from"] is None


def test_litter_and_pins_are_told_apart_from_weight_files(call, run):
    names = [
        "step_000040.bin.sum", "step_000050.bin.pin", "step_000020.bin.was-3", "step_000020.bin.sum.was-3",
        "step_000030.bin.bad-2-2", "step_000060.bin.nonfinite-4", ".step_000070.bin.99999-0.tmp", "step_999.bin",
        "step_00000x.bin",
    ]  # fmt: skip
    for name in names:
        (run.path / name).touch()
    (run.path / "step_00999999").mkdir()
    (run.path / "step_000099.bin").mkdir()
    (run.path / "latest").symlink_to("step_000001.bin")
    call("pin", "tiny", "--step", 10, "--why", "before [red]the\x1b[31m change")
    code, out, _ = call("verify", "tiny", "--json")
    found = json.loads(out)
    told = {each["file"]: each["what"] for each in found["litter"]}
    assert code == 0 and found["litter"] == litter(run.path) and told.keys() == {
        *names, "step_00999999", "step_000099.bin"
    }  # fmt: skip
    assert told["step_000040.bin.sum"] == "a digest without its weight file"
    assert told["step_000050.bin.pin"] == "a pin without its weight file"
    assert told["step_000020.bin.sum.was-3"] == "good weights that another save of this step replaced"
    assert told["step_000030.bin.bad-2-2"] == "set aside as damaged"
    assert told["step_000060.bin.nonfinite-4"] == "numbers that are not finite, never loaded"
    assert told["step_00999999"] == told["step_000099.bin"] == "a folder, not a weight file"
    assert told["step_999.bin"] == "not the name of a weight file, step_NNNNNN.bin"
    assert [each["step"] for each in found["checkpoints"]] == [10, 20, 30]
    code, out, _ = call("verify", "tiny")
    assert code == 0 and "beside them" in out
    assert "pinned: before [red]the\ufffd[31m change" in " ".join(out.split())


def test_a_number_as_name_an_empty_newest_file_and_seven_digits(call, run):
    """A folder or a file is not the latest because its name has the greatest number; order is by number."""
    (run.path / "step_00999999").mkdir()
    (run.path / "step_999999.bin").touch()
    save(run.path, 1_000_000, *arrays(5), tensors=TENSORS)
    (run.path / "step_1000001.bin").touch()
    found = json.loads(call("verify", "tiny", "--json")[1])
    assert [each["step"] for each in found["checkpoints"]] == [10, 20, 30, 999_999, 1_000_000, 1_000_001]
    assert found["resume_from"] == "step_1000000.bin"
    empty = found["checkpoints"][3]
    assert (empty["verdict"], empty["reason"]) == ("torn", "found 0 bytes, expected at least the 8 of the header")


def test_a_file_of_another_model_is_not_where_a_resume_would_start(call, run):
    save(run.path, 40, *arrays(1, 50))
    found = json.loads(call("verify", "tiny", "--json")[1])
    assert found["checkpoints"][-1]["reason"] == f"found 50 parameters, expected {N}"
    assert found["resume_from"] == "step_000030.bin"


def test_a_folder_without_a_configuration_is_verified_and_says_so(call, run):
    run.config.unlink()
    code, out, _ = call("verify", "tiny")
    assert code == 0 and "sizes are not compared with the model's: tiny/config.json: found No such file" in out
    assert out.rstrip().endswith("step_000030.bin")


def test_a_file_that_a_run_at_work_removes_meanwhile_is_not_called_damaged(call, run, monkeypatch):
    from andrea_lab.checkpoint import verify as module

    examine = module.examine

    def rotating(path, **more):
        run.weights(10).unlink(missing_ok=True)
        return examine(path, **more)

    monkeypatch.setattr(module, "examine", rotating)
    found = json.loads(call("verify", "tiny", "--json")[1])
    assert [(each["step"], each["verdict"]) for each in found["checkpoints"]] == [(20, "committed"), (30, "committed")]
