"""Small runs for the tests of the loop: a configuration on two texts, runs in processes, what a run left behind."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from andrea_lab.checkpoint import single
from andrea_lab.model.config import Config
from andrea_lab.proxy.chooser import Uniform
from andrea_lab.run.losslog import read_log
from tests.engine.tiny import config

ROOT = Path(__file__).parents[2]
PATIENCE = 120  # seconds for a process to get somewhere
QUIET = {"held_out_batches": 0}  # options of a run that measures nothing at its end


class Killed(BaseException):
    """Stands for a kill inside this process: nothing of the program's catches it."""


class Learner(Uniform):
    """Chooses as Uniform does, and keeps a sum that depends on every entry it learnt from, in their order."""

    def learn(self, entry):
        super().learn(entry)
        self.sum = self.sum * 0.5 + entry["loss"]

    def state(self):
        return super().state() | {"sum": self.sum}

    def restore(self, state):
        dropped = super().restore(state)
        self.sum = state["sum"]
        return dropped

    def reset(self):
        super().reset()
        self.sum = 0.0


def small(folder: Path, **train) -> Config:
    """The tiny model on two texts, every matrix product by our own kernels."""
    sources = []
    for name in ("cat", "dog"):
        path = folder / f"{name}.txt"
        path.write_text(
            "\n\n".join(f"{n} {name}s sat on {n * n} mats; one of the {name}s slept. " * 9 for n in range(60))
        )
        sources.append(str(path))
    return config(**({"steps": 40, "save_every": 10, "sources": sources, "gemm": "kernels", "microbatches": 1} | train))


def die_at(step: int):
    """An on_entry hook that ends the run right after this step was logged, or the first one after it."""

    def hook(entry: dict) -> None:
        if entry["step"] >= step:
            raise Killed(step)

    return hook


def log_of(folder: Path) -> Path:
    return folder / f"{folder.name}.loss.json"


def canonical(folder: Path) -> list[dict]:
    """The last entry of every step, without the fields that may differ between two runs."""
    return [{k: v for k, v in e.items() if k not in ("segment", "ms")} for e in read_log(log_of(folder)).canonical()]


def digests(folder: Path, step: int) -> list[str]:
    """sha256 of w, m and v of a weight file."""
    found, *arrays = single.read(folder / single.file_name(step))
    assert found == step
    return [hashlib.sha256(array.tobytes()).hexdigest() for array in arrays]


def outcome(folder: Path, step: int) -> tuple[list[str], list[dict]]:
    """All that two runs of the same steps must agree on."""
    return digests(folder, step), canonical(folder)


def andrea(*arguments, **options) -> subprocess.Popen:
    """Start the command line in a process of its own."""
    command = [sys.executable, "-m", "andrea_lab.cli", *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, **(streams | options))


def wait_for_steps(folder: Path, steps: int, process: subprocess.Popen) -> None:
    """Wait until the log of a running process has so many lines."""
    path, until = log_of(folder), time.monotonic() + PATIENCE
    while not path.is_file() or path.read_bytes().count(b"\n") < steps:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, f"{path} has not reached {steps} lines"
        time.sleep(0.005)


def ended(process: subprocess.Popen) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a process that ends by itself."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return process.returncode, out, err


def kill(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
