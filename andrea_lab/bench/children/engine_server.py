"""The measured process of our engine: real steps through its verb, and where their time goes."""

from statistics import median

import numpy as np

from andrea_lab.bench import products
from andrea_lab.bench.children.serve import peak_mib, serve
from andrea_lab.engine.engine import Engine
from andrea_lab.model.config import parse
from kernels.blas import one_thread
from kernels.target import copy_to_host, run

PHASES = (  # beginnings of launch names, in the order in which they are tried
    ("gemm", "gemm"),
    ("k_matmul", "gemm"),
    ("k_gelu", "gelu"),
    ("k_layernorm", "layernorm"),
    ("k_xent", "loss"),
    ("k_sum", "loss"),
    ("k_attn", "attention"),
    ("k_flash", "attention"),
    ("k_adamw", "adamw"),
)
NAMES = ("gemm", "attention", "gelu", "layernorm", "loss", "adamw", "rest")


class Ours:
    """The requests of this process; `load` comes first."""

    def load(self, config: dict, threads: int, batches: int) -> dict:
        """Make the engine. Steps go round the first `batches` draws of the first source."""
        self.config = parse(config, "bench step")
        self.threads, self.batches = threads, batches
        self.engine = Engine(self.config, target="cpu", threads=threads)
        self.source = next(iter(self.engine.batches.sources))
        return {"source": self.source, "params": self.engine.layout.n_params}

    def export(self, file: str) -> dict:
        """Write weights and token ids for the peer."""
        train = self.config.train
        shape = (self.batches, train.batch, train.context)
        tokens, targets = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        for draw in range(self.batches):
            self.engine.batches.fill(self.source, train.seed, draw, tokens[draw], targets[draw])
        weights = {f"w:{name}": copy_to_host(w) for name, w in self.engine.graph.weights.items()}
        np.savez(file, tokens=tokens, targets=targets, **weights)
        return {}

    def step(self, count: int) -> dict:
        """`count` steps. Returns ms, losses, gradient norms and learning rates, a list each."""
        results = []
        for _ in range(count):
            step = self.engine.done + 1
            draw = (step - 1) % self.batches
            results.append(self.engine.step({"step": step, "source": self.source, "draw": draw}))
        keys = {"ms": "ms", "losses": "loss", "norms": "grad_norm", "rates": "lr"}
        return {name: [r[key] for r in results] for name, key in keys.items()}

    def phases(self, count: int) -> dict:
        """Median ms of each kind of launch over `count` steps, and of every launch's name."""
        seen: dict[str, list[float]] = {}
        for _ in range(count):
            timer: dict[str, float] = {}
            with one_thread():
                for launches in (self.engine._microbatch, self.engine._norm, self.engine._update):
                    run(launches, timer=timer)
            for name, value in timer.items():
                seen.setdefault(name, []).append(value * 1e3)
        launches = {name: median(values) for name, values in seen.items()}
        phases = dict.fromkeys(NAMES, 0.0)
        for name, ms in launches.items():
            phases[next((phase for start, phase in PHASES if name.startswith(start)), "rest")] += ms
        return {"phases": phases, "launches": launches}

    def gemm(self, rounds: int) -> dict:
        """The matrix products of a step and nothing else: their time at the rate they reach alone."""
        train = self.config.train
        with one_thread():
            found = products.alone(self.config.model, train.batch * train.context, rounds)
        return found | {"gemm_ms": found["gemm_ms"] * train.microbatches}

    def memory(self) -> dict:
        """Peak resident size so far, and the planned arena, MiB."""
        return {"peak_mib": peak_mib(), "arena_mib": self.engine.arena.nbytes / (1 << 20)}


if __name__ == "__main__":
    ours = Ours()
    serve(
        {
            "load": ours.load,
            "export": ours.export,
            "step": ours.step,
            "phases": ours.phases,
            "gemm": ours.gemm,
            "memory": ours.memory,
        }
    )
