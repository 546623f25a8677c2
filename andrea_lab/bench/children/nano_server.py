"""The measured process of `bench nano`: a whole training run in a folder of its own."""

import tempfile
import time
from pathlib import Path

from andrea_lab.bench.children.serve import peak_mib, report, serve
from andrea_lab.model.config import parse
from andrea_lab.proxy import loop


def train(config: dict, threads: int, batches: int) -> dict:
    """Train from the first weights to the last step. `seconds` are the loop's, `total` is with everything."""
    made = parse(config, "bench nano")
    steps = made.train.steps

    def on_entry(entry: dict) -> None:
        if entry["step"] % 10 == 0 or entry["step"] == steps:
            report(f"step {entry['step']} of {steps}, loss {entry['loss']:.3f}")

    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="andrea-bench-") as folder:
        result = loop.train(
            made,
            Path(folder) / "nano",
            target="cpu",
            threads=threads,
            on_entry=on_entry,
            held_out_batches=batches,
        )
    return {
        "outcome": result.outcome,
        "steps": result.steps,
        "tokens": result.tokens,
        "loss": result.loss,
        "seconds": result.seconds,
        "total": time.perf_counter() - start,
        "held_out": result.held_out,
        "peak_mib": peak_mib(),
    }


if __name__ == "__main__":
    serve({"train": train})
