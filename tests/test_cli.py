"""The command line: the scripts' contract, one line and exit code 2 for every mistake, nothing created."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from andrea_lab.checkpoint import single
from andrea_lab.checkpoint.save import save
from andrea_lab.cli import main
from andrea_lab.commands.progress import Meter
from andrea_lab.commands.show import printable
from andrea_lab.run.losslog import read_log
from tests.engine.tiny import config

ROOT = Path(__file__).parents[1]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder as working directory, with a tiny configuration and a text beside it."""
    given, work = tmp_path / "given", tmp_path / "work"
    given.mkdir()
    work.mkdir()
    (given / "tiny.json").write_text(config(steps=6).to_json())
    (given / "text.txt").write_text("\n\n".join(f"the {n} cats sat on {n} mats, and purred. " * 20 for n in range(40)))
    monkeypatch.chdir(work)
    monkeypatch.setenv("ANDREA_RUNS", str(work / "runs"))
    return work


def call(capsys, *arguments) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def trained(capsys, here, *more) -> tuple[int, str, str]:
    return call(capsys, "train", "../given/tiny.json", "--text", "../given/text.txt", *more)


def test_train_then_sample(capsys, here):
    code, out, err = trained(capsys, here, "--run", "first", "--steps", 4, "--seed", 2, "--save-every", 2)
    assert (code, err) == (0, "")
    assert "step 4/4" in out and "smoothed" in out and "tokens/s" in out and "left" in out
    assert "loss on text kept back from training" in out and "sample:" in out
    names = {file.name for file in (here / "first").iterdir()}
    weights = {"step_000002.bin", "step_000004.bin", "step_000002.bin.sum", "step_000004.bin.sum"}
    sidecars = {"first.loss.json", "first.state.json", "first.segments.json", "engine.lock", "proxy.lock"}
    assert names == {"config.json", "loss.png"} | weights | sidecars
    assert len(read_log(here / "first" / "first.loss.json").entries) == 4
    saved = json.loads((here / "first" / "config.json").read_text())
    assert saved["train"]["sources"] == [str(here.parent / "given" / "text.txt")] and saved["train"]["seed"] == 2

    ask = ("sample", "first", "--prompt", "the ", "--tokens", 12, "--seed", 5)
    code, text, err = call(capsys, *ask)
    assert (code, err) == (0, "") and text.startswith("the ")
    code, out, _ = call(capsys, *ask, "--json")
    found = json.loads(out)
    assert found["step"] == 4 and printable(found["prompt"] + found["text"]) == text.removesuffix("\n")
    before = call(capsys, *ask, "--json", "--step", 2)[1]
    assert json.loads(before)["step"] == 2
    os.truncate(here / "first" / "step_000004.bin", 100)  # a damaged newest file is passed over, and told
    code, out, err = call(capsys, *ask, "--json")
    assert (code, out) == (0, before) and err.startswith("andrea: passed over step_000004.bin, torn: found 100 bytes")


def test_runs_without_a_name_are_numbered(capsys, here):
    for name in ("tiny", "tiny-2"):
        code, out, _ = trained(capsys, here, "--steps", 1, "--json")
        result = json.loads(out)
        assert code == 0 and Path(result["run_dir"]) == here / "runs" / name
        assert {"outcome", "steps", "loss", "held_out", "mean_held_out", "weights", "figure", "sample"} <= set(result)


def test_text_cannot_steer_a_terminal():
    assert printable("a\tb\nc\x1b[2Jd\x00\x7fé\u202e") == "a\tb\nc\ufffd[2Jd\ufffd\ufffdé\ufffd"


MEMORY = [("ANDREA-12M", 12_790_272), ("ANDREA-120M", 98_737_152), ("ANDREA-480M", 480_614_400)]


@pytest.mark.parametrize(("name", "count"), MEMORY)
def test_memory_json(capsys, name, count):
    code, out, err = call(capsys, "memory", name, "--json")
    found = json.loads(out)
    assert (code, err, found["n_params"]) == (0, "", count)
    roles = found["bytes_by_role"]
    assert roles["weights"] == roles["gradients"] == roles["m"] == roles["v"] == 4 * count
    assert sum(roles.values()) == found["total_bytes"]
    assert found["weight_file_bytes"] == found["save_copy_bytes"] + 8 == 8 + 12 * count


def test_memory_prints_both_units_batch_context_precision_and_claims(capsys):
    code, out, _ = call(capsys, "memory", "ANDREA-120M", "--batch", 8, "--context", 1024)
    assert code == 0 and "B = 8, T = 1024, float32" in out and "MiB" in out and "act" in out
    assert "394.95" in out and "376.65" in out  # weights in MB and in MiB
    assert "wrong" in out and "holds" in out and "1,184,845,832 bytes = 1.18 GB" in " ".join(out.split())
    code, half, _ = call(capsys, "memory", "ANDREA-120M", "--precision", "float16")
    assert code == 0 and "float16" in half and "master" in half


def test_doctor_json(capsys):
    code, out, err = call(capsys, "doctor", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "") and {"target", "versions", "problems"} <= set(found)
    assert found["target"] in ("cpu", "cuda") and {"python", "numba", "numpy"} <= set(found["versions"])
    assert found["problems"] == []


def test_doctor_for_people(capsys):
    code, out, _ = call(capsys, "doctor")
    assert code == 0 and "target" in out and "BLAS" in out and "no problems" in out


def test_doctor_names_another_kernels_package(monkeypatch):
    from andrea_lab.commands import doctor

    monkeypatch.setattr(doctor.metadata, "packages_distributions", lambda: {"kernels": ["kernels", "andrea-lab"]})
    assert doctor.examine()["problems"] == [
        "the distribution kernels also brings a package `kernels`: pip uninstall kernels"
    ]
    elsewhere = type(sys)("kernels")
    elsewhere.__file__ = "/elsewhere/kernels/__init__.py"
    problems = []
    monkeypatch.setitem(sys.modules, "kernels", elsewhere)
    doctor._kernels(problems)
    assert "finds /elsewhere/kernels" in problems[0]


@pytest.mark.parametrize("command", ["", "train", "resume", "signal", "sample", "memory", "doctor", "bench", "data"])
def test_every_command_explains_itself(capsys, command):
    code, out, _ = call(capsys, *command.split(), "--help")
    assert code == 0 and "Usage: andrea" in out and len(out.splitlines()) > 6


def test_data_list_and_verify(capsys):
    code, out, _ = call(capsys, "data", "list", "--json")
    found = json.loads(out)
    assert code == 0 and len(found) == 6 and all(about["licence"] for about in found.values())
    assert call(capsys, "data", "verify")[:2] == (0, "every text and licence is as recorded\n")


MISTAKES = [
    (["train", "ANDREA-13M"], "configuration: found 'ANDREA-13M', expected a .json file or one of ANDREA-120M"),
    (["train", "none.json"], "none.json: found No such file or directory, expected a readable JSON file"),
    (["train", "../given/text.txt"], "found text that is no JSON"),
    (["train", "../given/tiny.json", "--steps", "0"], "'--steps'"),
    (["train", "../given/tiny.json", "--steps", "many"], "'--steps'"),
    (["train", "../given/tiny.json", "--target", "tpu"], "'--target'"),
    (["train", "../given/tiny.json", "--target", "cuda", "--run", "r"], "cuda"),
    (["train", "../given/tiny.json", "--fast"], "--fast"),
    (["train", "../given/tiny.json", "--run", "../given"], "found an existing run, expected a new name"),
    (["train", "../given/tiny.json", "--run", "../given/text.txt"], "found a file, expected a folder or a new name"),
    (["train", "../given/tiny.json", "--text", "no.txt"], "no.txt: found No such file or directory"),
    (["train", "../given/tiny.json", "--text", "../given/empty"], "empty.txt: found an empty file, expected text"),
    (["train", "../given/tiny.json", "--text", "../given/binary"], "binary.txt: found a binary file"),
    (["train", "../given/heads.json"], "model.heads: found 5, expected a divisor of width 32"),
    (["train", "../given/key.json"], "train.momentum: found an unknown key, expected one of batch"),
    (["train", "../given/type.json"], 'train.lr: found "fast", expected a valid number'),
    (["train", "../given/table.json"], "train.context: found 99, expected at most model.context = 16"),
    (["train", "../given/vocab.json"], "found a tokeniser of 257 ids, expected at most the model's 100"),
    (["train", "../given/source.json"], "train.sources: found 'bible', expected a file or one of"),
    (["memory", "ANDREA-12M", "--precision", "int4"], "--precision: found 'int4', expected float32 or float16"),
    (["memory", "ANDREA-12M", "--context", "2048"], "train.context: found 2048, expected at most"),
    (["train", "../given/tiny.json", "--grace", "-1"], "'--grace'"),
    (["resume", "nowhere"], "nowhere: found no folder, expected a run directory"),
    (["resume", "../given"], "found a folder without config.json, expected a run directory"),
    (["signal", "../bare", "stop"], "found no engine at work, expected one that holds"),
    (["signal", "../bare", "halt"], "'halt'"),
    (["sample", "nowhere"], "nowhere: found no folder, expected a run directory"),
    (["sample", "../given"], "found a folder without config.json, expected a run directory"),
    (["sample", "../short"], "found 20 bytes, expected 32 = 8 + 12 * 2"),
    (["sample", "../long"], "found 33 bytes, expected 32 = 8 + 12 * 2"),
    (["sample", "../other"], "found 2 parameters, expected 41856"),
    (["sample", "../bare"], "found no weights, expected a run directory with a step_NNNNNN.bin"),
    (["sample", "../other", "--step", "7"], "step_000007.bin: found no such file"),
    (["sample", "../other", "--temperature", "-1"], "'--temperature'"),
    (["bench", "step", "--vs", "jax"], "'--vs'"),
    (["trian"], "No such command 'trian'"),
]


def plant(folder: Path) -> None:
    """Broken inputs beside the tiny configuration."""
    wrong = {
        "heads": ("model", "heads", 5),
        "key": ("train", "momentum", 0.9),
        "type": ("train", "lr", "fast"),
        "table": ("train", "context", 99),
        "vocab": ("model", "vocab", 100),
        "source": ("train", "sources", ["bible"]),
    }
    for name, (part, key, value) in wrong.items():
        data = config().model_dump()
        data[part][key] = value
        (folder / "given" / f"{name}.json").write_text(json.dumps(data))
    (folder / "given" / "empty.txt").touch()
    (folder / "given" / "binary.txt").write_bytes(bytes(range(256)) * 40)
    for name, cut in (("short", -12), ("long", 1), ("other", 0), ("bare", None)):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(config().to_json())
        if cut is not None:
            path = folder / name / "step_000001.bin"
            save(folder / name, 1, *(np.zeros(2, np.float32) for _ in range(3)))
            data = path.read_bytes()
            path.write_bytes(data + b"x" if cut == 1 else data[: len(data) + cut])


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[" ".join(a[:4]) for a, _ in MISTAKES])
def test_a_mistake_is_one_line_exit_code_2_and_nothing_created(capsys, here, arguments, message):
    plant(here.parent)
    arguments = [a + ".txt" if a in ("../given/empty", "../given/binary") else a for a in arguments]
    before = sorted(here.parent.rglob("*"))
    code, out, err = call(capsys, *arguments)
    assert code == 2 and out == ""
    assert err.startswith("andrea: ") and err.count("\n") == 1 and message in err, err
    assert sorted(here.parent.rglob("*")) == before


def test_an_unreadable_path(capsys, here):
    if os.geteuid() == 0:
        target = here / "loop"
        target.symlink_to(target)  # root may read everything, but nobody can follow this
        expected = "Too many levels of symbolic links"
    else:
        target = here / "secret.txt"
        target.write_text("text")
        target.chmod(0)
        expected = "Permission denied"
    code, _, err = call(capsys, "train", "../given/tiny.json", "--text", target)
    assert code == 2 and err.count("\n") == 1 and expected in err


def test_divergence_is_one_line_and_exit_code_1(capsys, here, monkeypatch):
    from andrea_lab.engine.engine import Engine

    step = Engine.step

    def poisoned(self, request):
        table = self.graph.weights["wte"]
        before = table.copy()
        table[...] = np.inf if request["step"] == 2 else before
        try:
            return step(self, request)
        finally:
            if request["step"] == 2:
                table[...] = before

    monkeypatch.setattr(Engine, "step", poisoned)
    code, _, err = trained(capsys, here, "--run", "r")
    assert code == 1 and err.count("\n") == 1 and "step 2: wte is not finite" in err and "lower train.lr" in err
    assert (here / "r" / "step_000001.bin").is_file()


def test_the_installed_command_ends_cleanly_on_ctrl_c(here):
    command = [sys.executable, "-m", "andrea_lab.cli", "train", "../given/tiny.json", "--text", "../given/text.txt"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [*command, "--run", "r", "--steps", "1000000"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        for line in process.stdout:
            if line.startswith("step"):
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0 and err == "" and "interrupted after" in out
    step, _ = single.read_header(max((here / "r").glob("step_*.bin")))
    entries = read_log(here / "r" / "r.loss.json").entries
    assert [entry["step"] for entry in entries] == list(range(1, step + 1))


def test_the_meter_averages_loss_speed_and_time_left():
    meter = Meter(steps=1000)
    first = meter.add({"step": 1, "loss": 5.0, "tokens": 2048, "ms": 500.0})
    assert first == "step    1/1000  loss 5.000  smoothed 5.000  4,096 tokens/s  8 min left"
    for step in range(2, 951):
        line = meter.add({"step": step, "loss": 2.0, "tokens": 2048, "ms": 250.0})
    assert line == "step  950/1000  loss 2.000  smoothed 2.000  8,192 tokens/s  12 s left"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("arguments", "into"), [("--version", "gone"), ("--version", "/dev/full"), ("--help", "gone")])
def test_a_reader_that_is_gone_gets_no_traceback_and_a_full_disk_one_line(arguments, into, unbuffered):
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered, "PYTHONPATH": str(ROOT)}
    if into == "gone":
        read, write = os.pipe()
        os.close(read)
    else:
        write = os.open(into, os.O_WRONLY)
    command = [sys.executable, "-m", "andrea_lab.cli", arguments]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=environment, text=True)
    os.close(write)
    if into == "gone":
        assert (done.returncode in (0, 1), done.stderr) == (True, "")
    else:
        assert (done.returncode, done.stderr.count("\n")) == (75, 1) and "No space left on device" in done.stderr
