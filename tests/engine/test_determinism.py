"""The bits of a run do not depend on the number of threads."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from andrea_lab.engine.batches import Batches
from andrea_lab.engine.engine import Engine
from andrea_lab.model.config import load_config
from kernels.target import set_threads, threads
from tests.engine.tiny import RandomBatches

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "data" / "experiments"


def digests(workers: list[int], **shape) -> list[dict[str, str]]:
    """sha256 of w, m and v after the same steps, once for each number of threads."""
    return [digest(number, **shape) for number in workers]


def digest(workers: int, name: str, steps: int, **train) -> dict[str, str]:
    config = load_config(name, EXPERIMENTS).with_train(steps=steps, warmup=1, **train)
    batches = Batches(config) if name == "ANDREA-nano" else RandomBatches(config.model.vocab)
    before = threads()
    try:
        made = Engine(config, threads=workers, batches=batches)
        source = next(iter(batches.sources))
        for step in range(1, steps + 1):
            made.step({"step": step, "source": source, "draw": step - 1})
        return {k: hashlib.sha256(made.arena.view(k).tobytes()).hexdigest() for k in ("weights", "m", "v")}
    finally:
        set_threads(before)


def elsewhere(workers: list[int], **shape) -> list[dict[str, str]]:
    """The same in another process whose BLAS believes in another processor."""
    code = "import json, sys; from tests.engine.test_determinism import digests; "
    code += "a = json.loads(sys.argv[1]); print(json.dumps(digests(**a)))"
    arguments = json.dumps({"workers": workers} | shape)
    environment = os.environ | {"OPENBLAS_CORETYPE": "Haswell", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, arguments]
    out = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def judge(found: list[dict[str, str]]) -> None:
    assert len(set(found[0].values())) == 3, "w, m and v are three different vectors"
    assert all(one == found[0] for one in found)


SHORT = {"name": "ANDREA-nano", "steps": 3, "batch": 4, "context": 64}
NANO = {"name": "ANDREA-nano", "steps": 40}
LARGER = {"name": "ANDREA-12M", "steps": 5, "batch": 2, "context": 128, "microbatches": 2}


@pytest.mark.parametrize("run", [digests, elsewhere])
def test_three_steps_of_nano_with_1_2_3_threads(run):
    judge(run([1, 2, 3], **SHORT))


def test_ours_has_the_same_bits_wherever_blas_believes_to_be():
    judge(digests([1], gemm="kernels", **SHORT) + elsewhere([3], gemm="kernels", **SHORT))


@pytest.mark.full
@pytest.mark.parametrize("shape", [NANO, LARGER], ids=lambda shape: shape["name"])
@pytest.mark.parametrize("run", [digests, elsewhere])
def test_whole_runs_with_1_2_3_threads(run, shape):
    judge(run([1, 2, 3], **shape))


def test_another_seed_has_other_bits():
    with pytest.raises(AssertionError):
        judge(digests([1], **SHORT) + digests([1], seed=2, **SHORT))
