"""`andrea bench nano`: how long ANDREA-nano trains for the steps fixed in its configuration, and what it learns.

The loss is the same on every run; only the seconds are a measurement.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import mean

from andrea_lab import paths
from andrea_lab.bench import machine, tables
from andrea_lab.bench.server import BenchError, Server
from andrea_lab.model.config import Config, load_config

PRESET = "ANDREA-nano"
COMMAND = [sys.executable, "-m", "andrea_lab.bench.children.nano_server"]
HELD_OUT_BATCHES = 8


def run(
    *,
    threads: int | None = None,
    config: Config | None = None,
    quick: bool = False,
    progress: Callable[[str], None] | None = None,
) -> dict:
    """Train in a process and a temporary folder of their own and return the figures.

    threads: default all cores. config: the experiment (default: ANDREA-nano). quick: three steps, which only
    proves that it runs. Raises BenchError when the run does not finish.
    """
    config = config or load_config(PRESET, paths.experiments_dir())
    if quick:
        config = config.with_train(steps=3)
    threads = threads or machine.default_threads()
    with Server("nano", COMMAND, machine.environment(threads)) as child:
        watch = machine.Watch([child.pid])
        batches = 1 if quick else HELD_OUT_BATCHES
        found = child.ask("train", config=config.model_dump(), threads=threads, batches=batches, progress=progress)
        others = watch.others()
    if found["outcome"] != "finished":
        raise BenchError(
            f"nano: found a run {found['outcome']} at step {found['steps']}, expected {config.train.steps} steps"
        )
    return {
        "bench": "nano",
        "machine": machine.describe(threads),
        "config": config.name,
        "quick": quick,
        "steps": found["steps"],
        "seconds": found["seconds"],
        "total_seconds": found["total"],
        "steps_per_s": found["steps"] / found["seconds"],
        "tokens_per_s": found["tokens"] / found["seconds"],
        "loss": found["loss"],
        "held_out": found["held_out"],
        "held_out_mean": mean(found["held_out"].values()),
        "peak_mib": found["peak_mib"],
        "others": others,
    }


HEAD = ("ANDREA-nano", "value")


def _rows(r: dict) -> list[tuple[str, str]]:
    rows = [
        ("steps", str(r["steps"])),
        ("seconds", f"{r['seconds']:.1f}"),
        ("steps/s", f"{r['steps_per_s']:.2f}"),
        ("tokens/s", f"{r['tokens_per_s']:.0f}"),
        ("held-out loss, mean over the sources", f"{r['held_out_mean']:.3f}"),
    ]
    return rows + [(f"held-out loss, {name}", f"{loss:.3f}") for name, loss in r["held_out"].items()]


def _summary(r: dict) -> str:
    text = f"{r['total_seconds']:.1f} s with start, weight files and evaluation"
    if r["others"] is not None:
        text += f"; other processes took {r['others']:.0%} of the machine"
    return text


def figures(result: dict) -> tables.Figures:
    """The figures as a table."""
    return tables.Figures(HEAD, _rows(result), tables.machine_line(result), _summary(result))
