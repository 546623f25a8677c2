"""Run directories made by hand, without an engine: a configuration, a loss log and weight files of random numbers."""

from pathlib import Path

import numpy as np

from andrea_lab.checkpoint.save import save
from andrea_lab.model.layout import layout
from andrea_lab.run.directory import RunDirectory
from andrea_lab.run.losslog import encode
from tests.engine.tiny import config

N = layout(config().model).n_params
TENSORS = [(tensor.name, tensor.offset, tensor.size) for tensor in layout(config().model)]


def entry(step: int, loss: float, **more) -> dict:
    known = {"step": step, "segment": 1, "policy": "p", "source": "noise", "draw": step - 1, "tokens": 32}
    numbers = {"loss": float(str(np.float32(loss))), "grad_norm": 1.5, "clip": 0.5, "lr": 0.001, "ms": 2.0}
    return known | numbers | more


def arrays(seed: int, n: int = N) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    w, m = (rng.standard_normal(n, np.float32) for _ in range(2))
    return w, m, rng.random(n, np.float32)


def logged(folder: Path, losses: dict[int, float], **train) -> RunDirectory:
    """A run with a configuration and a log of {step: loss}."""
    folder.mkdir(parents=True)
    run = RunDirectory(folder)
    run.config.write_text(config(**train).to_json())
    run.log.write_text("".join(encode(entry(step, loss)) + "\n" for step, loss in losses.items()))
    return run


def saved(folder: Path, *steps: int, **train) -> RunDirectory:
    """A run with a log up to the last step and a weight file of each of `steps`, the step being its seed."""
    run = logged(folder, {step: 5.5 - step / 100 for step in range(1, max(steps) + 1)}, **train)
    for step in steps:
        save(folder, step, *arrays(step), entry=entry(step, 5.5 - step / 100), tensors=TENSORS)
    return run


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
