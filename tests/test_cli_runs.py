"""`andrea train`, `resume` and `signal` as a person or a service manager meets them: exit codes, streams, signals."""

import json
import os
import resource
import signal
import time

import pytest

from andrea_lab.cli import main
from andrea_lab.engine.engine import Engine
from andrea_lab.engine.signals import Aborted, Stopped
from andrea_lab.run.losslog import read_log
from tests.proxy.runs import PATIENCE, andrea, digests, ended, kill, log_of, small, wait_for_steps

LONG = 1_000_000


@pytest.fixture
def given(tmp_path, monkeypatch):
    """A folder with a tiny configuration on two texts, as working directory."""
    (tmp_path / "tiny.json").write_text(small(tmp_path, steps=12, save_every=5).to_json())
    (tmp_path / "long.json").write_text(small(tmp_path, steps=LONG, save_every=50, keep=2).to_json())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(capsys, *arguments) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def steps_logged(run) -> list[int]:
    return [entry["step"] for entry in read_log(log_of(run)).entries]


@pytest.fixture
def running(given):
    """A started `andrea train` that has done 20 steps and would go on for hours."""
    process = andrea("train", "long.json", "--run", "r", "--json")
    wait_for_steps(given / "r", 20, process)
    yield process
    process.kill()
    process.communicate(timeout=PATIENCE)


def test_until_then_resume_then_nothing_to_do(capsys, given):
    code, out, err = call(capsys, "train", "tiny.json", "--run", "r", "--until", 7, "--keep", 0)
    assert (code, err) == (0, "") and "tiny: 7 steps into r" in out and "finished after 7 steps" in out
    assert json.loads((given / "r" / "config.json").read_text())["train"]["keep"] == 0
    code, out, err = call(capsys, "resume", "r")
    assert (code, err) == (0, "")
    assert "resumed from step_000007.bin, step 7\n" in out and "step 12/12" in out and "finished after 12 steps" in out
    assert "replay audit: the log ended where the weights did, nothing to replay\n" in out
    code, out, err = call(capsys, "resume", "r")
    assert (code, err) == (0, "") and out.endswith(
        "nothing to do: r has its 12 steps; andrea resume r --steps N goes beyond them\n"
    )
    code, out, _ = call(capsys, "resume", "r", "--steps", 14, "--json")
    found = json.loads(out)
    assert (found["outcome"], found["steps"], found["resumed_from"], found["segment"]) == (
        "finished", 14, "step_000012.bin", 3
    )  # fmt: skip
    assert found["audit"] == {"logged": 0, "replayed": 0, "equal": 0, "different": 0, "first": None}


def test_a_damaged_newest_file_is_named_and_passed_over(capsys, given):
    call(capsys, "train", "tiny.json", "--run", "r")
    (given / "r" / "step_000012.bin").write_bytes(b"torn")
    code, out, err = call(capsys, "resume", "r")
    assert (code, err) == (0, "")
    assert "rejected step_000012.bin, torn: r/step_000012.bin: found 4 bytes" in out
    assert "resumed from step_000010.bin" in out and "replay audit: 2 of 2 replayed steps equal to the log" in out


def test_when_nothing_loads_it_is_refused_and_the_run_is_untouched(capsys, given):
    call(capsys, "train", "tiny.json", "--run", "r")
    for file in (given / "r").glob("step_*.bin"):
        file.write_bytes(b"torn")
    before = {file.name: file.read_bytes() for file in (given / "r").iterdir() if file.suffix != ".lock"}
    code, out, err = call(capsys, "resume", "r")
    assert (code, out) == (2, "") and err.startswith("andrea: r: found no checkpoint that loads (") and "4 bytes" in err
    assert {f.name: f.read_bytes() for f in (given / "r").iterdir() if f.suffix != ".lock"} == before


def test_sigterm_saves_and_exits_0_and_resume_goes_on(given, running):
    running.send_signal(signal.SIGTERM)
    code, out, err = ended(running)
    found = json.loads(out)
    assert (code, err) == (0, "") and found["outcome"] == "interrupted" and found["figure"] is None
    assert steps_logged(given / "r") == list(range(1, found["steps"] + 1))
    assert digests(given / "r", found["steps"])
    code, out, err = ended(andrea("resume", "r", "--steps", found["steps"] + 3))
    assert (code, err) == (0, "") and f"resumed from step_{found['steps']:06d}.bin" in out
    assert steps_logged(given / "r") == list(range(1, found["steps"] + 4))


def test_sigint_twice_aborts_with_130_and_saves_nothing_more(capsys, given, monkeypatch):
    """Both within one step, as the run itself sends them: sent from outside, a whole step may pass between the two."""
    load = Engine._load

    def pressed(self, *arguments):
        if self.done == 60:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
        return load(self, *arguments)

    monkeypatch.setattr(Engine, "_load", pressed)
    code, out, err = call(capsys, "train", "long.json", "--run", "r", "--json")
    assert (code, out) == (130, "") and err.startswith("andrea: aborted: ") and err.count("\n") == 1
    assert steps_logged(given / "r") == list(range(1, 61))
    assert [file.name for file in (given / "r").glob("step_*.bin")] == ["step_000050.bin"], "the save that was due"


def test_signals_by_command(given):
    """Two saves where none is ever due, then a stop; by signal and by control file."""
    (given / "quiet.json").write_text(small(given, steps=LONG, save_every=0).to_json())
    running = andrea("train", "quiet.json", "--run", "r", "--json")
    wait_for_steps(given / "r", 20, running)

    def wait_for_files(number):
        until = time.monotonic() + PATIENCE
        while len(list((given / "r").glob("step_*.bin"))) < number:
            assert time.monotonic() < until and running.poll() is None
            time.sleep(0.01)

    def ask(*wish):
        return ended(andrea("signal", "r", *wish))

    code, out, err = ask("save")
    assert (code, err) == (0, "") and out.startswith("sent SIGUSR1 to engine ")
    wait_for_files(1)
    code, out, err = ask("save", "--file")
    assert (code, err) == (0, "") and "control/save for engine " in out
    wait_for_files(2)
    code, out, err = ask("stop")
    assert (code, err) == (0, "") and out.startswith(f"sent SIGTERM to engine {running.pid} (since ")
    code, out, _ = ended(running)
    assert code == 0 and json.loads(out)["outcome"] == "interrupted"
    code, out, err = ask("stop")
    assert (code, out) == (2, "") and "r: found no engine at work" in err


def test_a_file_that_may_not_grow_is_exit_75_with_the_log_whole(given):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))  # the log fits, a weight file does not

    code, out, err = ended(andrea("train", "tiny.json", "--run", "r", "--json", preexec_fn=limit))
    assert (code, out) == (75, "") and err.count("\n") == 1 and "File too large" in err
    steps = steps_logged(given / "r")
    assert steps == list(range(1, len(steps) + 1)) and not list((given / "r").glob("step_*.bin"))
    assert not list((given / "r").glob(".*.tmp"))


@pytest.mark.parametrize("stream", ["stdout", pytest.param("stderr", marks=pytest.mark.full)])
def test_a_reader_that_is_gone_does_not_end_the_run(given, stream):
    call = ["resume", "r", "--json"] if stream == "stderr" else ["train", "tiny.json", "--run", "r"]
    if stream == "stderr":
        assert ended(andrea("train", "tiny.json", "--run", "r", "--until", 3))[0] == 0
    read, write = os.pipe()
    os.close(read)
    process = andrea(*call, **{stream: write})
    os.close(write)
    process.communicate(timeout=PATIENCE)
    assert steps_logged(given / "r") == list(range(1, 13)) and (given / "r" / "step_000012.bin").is_file()


def test_an_engine_that_is_killed_is_one_line_and_resume_goes_on(given):
    process = andrea("train", "long.json", "--run", "r", "--json", "--process")
    wait_for_steps(given / "r", 60, process)
    record = json.loads((given / "r" / "engine.lock").read_text())
    assert record["pid"] != process.pid
    os.kill(record["pid"], signal.SIGKILL)
    code, out, err = ended(process)
    assert (code, out) == (75, "") and "found its process ended by signal 9" in err and "Traceback" not in err
    last = steps_logged(given / "r")[-1]
    code, out, err = ended(andrea("resume", "r", "--steps", last + 3, "--json"))
    assert code == 0 and json.loads(out)["audit"]["different"] == 0


def test_an_engine_whose_proxy_is_killed_saves_and_the_next_resume_waits_for_it(given):
    process = andrea("train", "long.json", "--run", "r", "--json", "--process")
    wait_for_steps(given / "r", 60, process)
    kill(process)
    code, out, err = ended(andrea("resume", "r", "--steps", 1, "--json"))
    assert code == 0, err
    found = json.loads(out)
    assert found["outcome"] == "nothing to do"
    logged = steps_logged(given / "r")
    assert found["steps"] in (logged[-1], logged[-1] - 1) and logged == list(range(1, len(logged) + 1))


@pytest.mark.parametrize(
    ("raised", "code", "text"),
    [
        (Stopped("stopped before the first step: nothing was written"), 0, ""),
        (Aborted("aborted: nothing was saved"), 130, "andrea: aborted: nothing was saved\n"),
        (KeyboardInterrupt(), 130, "andrea: stopped by Ctrl-C; what was saved before is untouched\n"),
        (OSError(28, "No space left on device", "r.loss.json"), 75, "andrea: r.loss.json: No space left on device\n"),
        (OSError(2, "No such file or directory", "x"), 2, "andrea: x: No such file or directory\n"),
        (ZeroDivisionError("division by zero"), 1, "andrea: a fault of the program's own: ZeroDivisionError: "),
    ],
)
def test_each_end_has_its_exit_code(capsys, given, monkeypatch, raised, code, text):
    def fail(*arguments, **options):
        raise raised

    monkeypatch.setattr("andrea_lab.proxy.loop.train", fail)
    found, out, err = call(capsys, "train", "tiny.json", "--run", "r")
    assert found == code and err.startswith(text) and err.count("\n") == (code != 0)
    assert out == ("stopped before the first step: nothing was written\n" if code == 0 else "")
