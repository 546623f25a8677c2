"""One line on stderr and exit code 2 for every mistake with weight files, and nothing made."""

import errno
import os

import pytest

from andrea_lab.checkpoint.files import Files
from tests.run.made import files, logged, saved


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A run, and things that are no runs and no weight files."""
    folder = tmp_path_factory.mktemp("planted")
    saved(folder / "tiny", 10, 20, 30)
    (folder / "file").write_text("text")
    (folder / "empty").mkdir()
    garbage = bytes(range(256)) * 40
    for name in ("garbage.bin", "step_000001.bin"):
        (folder / name).write_bytes(garbage)
    (folder / "step_000002.bin").touch()
    os.mkfifo(folder / "step_000003.bin")
    (folder / "step_000004.bin").symlink_to(folder / "tiny" / "step_000010.bin")
    wrong = logged(folder / "wrong", {1: 5.0})
    wrong.config.write_bytes(garbage)
    wrong.log.write_bytes(garbage)
    logged(folder / "nolog", {}).log.unlink()
    logged(folder / "later", {500: 1.0})
    torn = saved(folder / "torn", 10)
    torn.weights(10).write_bytes(garbage)
    bad = logged(folder / "badfork", {10: 5.0})
    bad.fork.write_bytes(garbage)
    return folder


FORK = ["fork", "tiny", "--step", "10", "--into", "new"]
MISTAKES = [
    (["verify", "nowhere"], "nowhere: found no folder, expected a run directory"),
    (["verify", "file"], "file: found a file, expected a run directory"),
    (["verify", "empty"], "empty: found no weights, expected a run directory with a step_NNNNNN.bin"),
    (["verify"], "Missing argument 'RUN'"),
    (["inspect", "nowhere.bin"], "nowhere.bin: found no file, expected a weight file"),
    (["inspect", "empty"], "empty: found a folder, expected a weight file"),
    (["inspect", "garbage.bin"], "found 10240 bytes, expected"),
    (["inspect", "step_000001.bin"], "found 10240 bytes, expected"),
    (["inspect", "step_000002.bin"], "found 0 bytes, expected at least the 8 of the header"),
    (["inspect", "step_000003.bin"], "found a pipe, expected a weight file"),
    (["inspect", "step_000004.bin"], "found a symbolic link, expected a weight file"),
    (["fork", "nowhere", *FORK[2:]], "nowhere: found no folder, expected a run directory"),
    (["fork", "file", *FORK[2:]], "file: found no folder, expected a run directory"),
    (["fork", "wrong", *FORK[2:]], "config.json: found text that is no JSON"),
    (["fork", "torn", *FORK[2:]], "step_000010.bin: found 10240 bytes, expected"),
    (["fork", "later", *FORK[2:]], "later: step: found 10, expected one that was saved: none"),
    (
        ["fork", "tiny", "--step", "11", "--into", "new"],
        "step: found 11, expected one that was saved: 10, 20, 30",
    ),
    (["fork", "tiny", "--step", "-1", "--into", "new"], "'--step'"),
    (["fork", "tiny", "--into", "new"], "Missing option '--step'"),
    (["fork", "tiny", "--step", "10"], "Missing option '--into'"),
    (["fork", "tiny", "--step", "10", "--into", "file"], "file: found it taken, expected a new name, such as file-2"),
    (["fork", "tiny", "--step", "10", "--into", "empty"], "empty: found it taken"),
    (["fork", "tiny", "--step", "10", "--into", "tiny"], "tiny: found it taken, expected a new name, such as tiny-2"),
    (["fork", "tiny", "--step", "10", "--into", "file/new"], "Not a directory"),
    ([*FORK, "--set", "lr"], "--set: found 'lr', expected KEY=VALUE, such as lr=1e-3"),
    ([*FORK, "--set", "=1"], "--set: found '=1', expected KEY=VALUE"),
    ([*FORK, "--set", "momentum=0.9"], "train.momentum: found an unknown key, expected one of batch"),
    ([*FORK, "--set", "model.layers=3"], "found an unknown key"),
    ([*FORK, "--set", "lr=fast"], 'train.lr: found "fast", expected a valid number'),
    ([*FORK, "--set", "lr=NaN"], "train.lr: found NaN, expected a finite number"),
    ([*FORK, "--set", "lr=-1"], "train.lr: found -1, expected greater than 0"),
    ([*FORK, "--set", "warmup=1e3"], "train.warmup: found 1000.0, expected a valid integer"),
    ([*FORK, "--set", "context=99"], "train.context: found 99, expected at most model.context = 16"),
    (["compare", "tiny", "nowhere"], "nowhere: found no folder, expected a run directory"),
    (["compare", "file", "tiny"], "file: found no folder, expected a run directory"),
    (["compare", "tiny", "wrong"], "wrong.loss.json: found no entry in"),
    (["compare", "nolog", "tiny"], "nolog.loss.json: found No such file or directory, expected a loss log"),
    (
        ["compare", "tiny", "later"],
        "later: found steps 1 to 30 and steps 500 to 500, expected a step in common",
    ),
    (["compare", "tiny", "badfork"], "fork.json: found text that is no JSON, expected a fork's origin"),
    (["compare", "tiny", "tiny", "--figure", "x.pdf"], "--figure: found 'x.pdf', expected a name ending in .png"),
    (["compare", "tiny", "tiny", "--figure", "no/x.png"], "--figure: found 'no/x.png', expected a name ending in .png"),
    (["compare", "tiny", "./tiny", "--figure", "x.png"], "--figure: found the run tiny twice, expected two runs"),
    (["compare", "tiny"], "Missing argument 'B'"),
    (["pin", "nowhere"], "nowhere: found no folder, expected a run directory"),
    (["pin", "file"], "file: found no folder, expected a run directory"),
    (["pin", "tiny", "--step", "11"], "step_000011.bin: found no weight file, expected one to pin"),
    (["pin", "tiny", "--step", "10", "--remove"], "step_000010.bin: found no pin, expected one"),
    (["pin", "tiny", "--why", "best"], "--step: found nothing, expected the step to pin"),
    (["pin", "tiny", "--remove"], "--step: found nothing, expected the step to unpin"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[" ".join(a) for a, _ in MISTAKES])
def test_a_mistake_is_one_line_exit_code_2_and_nothing_created(call, monkeypatch, planted, arguments, message):
    monkeypatch.chdir(planted)
    before = sorted(planted.rglob("*"))
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("andrea: ") and err.count("\n") == 1 and message in err, err
    assert sorted(planted.rglob("*")) == before


@pytest.mark.parametrize("command", ["verify", "inspect", "fork", "compare", "pin"])
def test_every_command_explains_itself(call, command):
    code, out, _ = call(command, "--help")
    assert code == 0 and f"Usage: andrea {command}" in out and len(out.splitlines()) > 6


def test_a_full_disk_is_one_line_and_leaves_nothing(call, run, tmp_path, monkeypatch):
    def full(self, fd, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = files(tmp_path), files(run.path)
    monkeypatch.setattr(Files, "write", full)
    code, out, err = call(*FORK)
    assert (code, out) == (75, "") and err.count("\n") == 1 and "No space left on device" in err
    assert (files(tmp_path), files(run.path)) == before


@pytest.mark.parametrize("act", ["lock", "weights"])
def test_a_disk_that_fails_is_to_be_tried_again_whatever_was_asked_of_it(call, run, monkeypatch, act):
    real = Files.write if act == "lock" else Files.read

    def failing(self, to, data):
        if act == "lock" or data.nbytes > 4096:
            raise OSError(*((28, "No space left on device") if act == "lock" else (5, "Input/output error")))
        return real(self, to, data)

    monkeypatch.setattr(Files, "write" if act == "lock" else "read", failing)
    code, out, err = call(*(("resume", "tiny") if act == "lock" else ("sample", "tiny", "--step", 30)))
    assert (code, out, err.count("\n")) == (75, "", 1)
    assert ("No space left on device" if act == "lock" else "Input/output error") in err
