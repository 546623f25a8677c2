"""`andrea bench step`: a training step of our engine against the same step in PyTorch, each in a process of its own.

Both start from the same weights, see the same tokens and use the same rates; the losses and gradient norms of the first
steps must agree before anything is timed. Then the processes take turns. A pair of turns gives one ratio; the figure is
the median over the pairs of several starts, because one process may be lucky with its memory for as long as it lives.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import inf, isnan
from pathlib import Path
from statistics import median

from andrea_lab import paths
from andrea_lab.bench import machine, tables
from andrea_lab.bench.server import CHILDREN, BenchError, Server
from andrea_lab.model.config import Config, load_config

AGREE = 1e-4  # largest difference of a loss between the two sides over the first CHECKED steps
NORMS_AGREE = 1e-3  # the same for gradient norms, relative
CHECKED = 5
WARM = 2
BATCHES = 8  # different batches; steps go round them
PRESET = "ANDREA-12M"
PEERS = ("torch",)
OURS = [sys.executable, "-m", "andrea_lab.bench.children.engine_server"]


@dataclass(frozen=True)
class Effort:
    """How long to measure: starts of both processes, pairs of turns in each, timed steps of a turn."""

    starts: int = 3
    pairs: int = 4
    steps: int = 2
    wait: float = 5.0  # seconds to wait for a quiet moment before a turn, at most
    rounds: int = 7  # of the matrix products alone, and of the phases


QUICK = Effort(starts=1, pairs=2, steps=1, wait=0.0, rounds=1)


@dataclass
class Measured:
    """What came out of all starts: one entry a pair, except where said."""

    ours: list[float] = field(default_factory=list)  # ms
    peer: list[float] = field(default_factory=list)
    others: list[float | None] = field(default_factory=list)  # the busier turn of the pair
    memory: list[tuple[float | None, float | None]] = field(default_factory=list)  # MiB, one a start
    about: dict = field(default_factory=dict)


def run(
    *,
    vs: str = "torch",
    batch: int = 4,
    context: int = 256,
    threads: int | None = None,
    peer_python: str | None = None,
    config: Config | None = None,
    quick: bool = False,
    effort: Effort | None = None,
    peer_command: list[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict:
    """Measure both sides and return the figures.

    vs: the peer; "torch" is PyTorch, eager. threads: of both sides (default: all cores). peer_python: an interpreter
    that has torch (default: this one). config: the model (default: ANDREA-12M). quick: few steps, which proves the
    agreement and says nothing about speed. peer_command: another peer that speaks the same protocol.
    Raises BenchError when the peer is missing or the sides do not agree, ConfigError for a batch or context that does
    not fit the model.
    """
    if vs not in PEERS:
        raise BenchError(f"vs: found {vs!r}, expected {' or '.join(PEERS)}")
    config = config or load_config(PRESET, paths.experiments_dir())
    config = config.with_train(batch=batch, context=context, microbatches=1, warmup=0)
    threads = threads or machine.default_threads()
    effort = effort or (QUICK if quick else Effort())
    python = peer_python or sys.executable
    command = peer_command or [python, str(CHILDREN / "torch_server.py")]
    say = progress or (lambda text: None)
    measured = Measured()
    for start in range(effort.starts):
        say(f"start {start + 1} of {effort.starts}")
        with ExitStack() as stack:
            env = machine.environment(threads)
            peer = stack.enter_context(Server(vs, command, env))
            _greet(peer, python)
            ours = stack.enter_context(Server("andrea-lab", OURS, env))
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="andrea-bench-"))
            measured.about |= _load(ours, peer, config, threads, Path(folder) / "start.npz")
            measured.about |= _agree(ours, peer)
            _alternate(ours, peer, effort, measured, say)
            measured.memory.append((ours.ask("memory")["peak_mib"], peer.ask("memory")["peak_mib"]))
            if start == effort.starts - 1:
                say("phases")
                measured.about |= ours.ask("phases", count=effort.rounds) | ours.ask("gemm", rounds=effort.rounds)
    return _result(config, threads, vs, measured, effort, quick)


def _greet(peer: Server, python: str) -> None:
    missing = peer.ask("hello").get("missing")
    if missing:
        raise BenchError(
            f"{peer.name}: found no module {missing!r} in {python}, expected it there: "
            "run `make env EXTRAS=bench`, or name another interpreter by --peer-python"
        )


def _load(ours: Server, peer: Server, config: Config, threads: int, file: Path) -> dict:
    """Give both sides the same weights and tokens."""
    about = ours.ask("load", config=config.model_dump(), threads=threads, batches=BATCHES)
    ours.ask("export", file=str(file))
    m, t = config.model, config.train
    model = {"vocab": m.vocab, "context": m.context, "width": m.width, "heads": m.heads, "layers": m.layers}
    train = {name: getattr(t, name) for name in ("lr", "beta1", "beta2", "eps", "decay", "clip")}
    answer = peer.ask("load", file=str(file), model=model | {"tied": m.tie_embeddings}, train=train, threads=threads)
    return {"source": about["source"], "params": about["params"], "peer": answer}


def _agree(ours: Server, peer: Server) -> dict:
    """Raise BenchError unless losses and gradient norms of the first steps agree."""
    a = ours.ask("step", count=CHECKED)
    b = peer.ask("step", rates=a["rates"])
    losses = _largest(abs(x - y) for x, y in zip(a["losses"], b["losses"], strict=True))
    norms = _largest(abs(x - y) / y for x, y in zip(a["norms"], b["norms"], strict=True))
    if not losses <= AGREE or not norms <= NORMS_AGREE:
        raise BenchError(
            f"agreement: after {CHECKED} steps losses differ by {losses:.1e} and gradient norms by {norms:.1e}, "
            f"expected at most {AGREE:.0e} and {NORMS_AGREE:.0e}"
        )
    rate = a["rates"][-1]
    ours.ask("step", count=WARM)
    peer.ask("step", rates=[rate] * WARM)
    return {"loss_difference": losses, "norm_difference": norms, "losses": a["losses"], "rate": rate}


def _largest(differences: Iterable[float]) -> float:
    """The largest; infinity when one is not a number, which max() would pass over."""
    return max(inf if isnan(d) else d for d in differences)


def _alternate(ours: Server, peer: Server, effort: Effort, measured: Measured, say: Callable[[str], None]) -> None:
    """Pairs of turns, every other one reversed; in a turn one step warms up, the median of the others counts."""
    rate, pids = measured.about["rate"], (ours.pid, peer.pid)
    for pair in range(effort.pairs):
        say(f"pair {pair + 1} of {effort.pairs}")
        ms, load = {}, []
        for side in (ours, peer) if pair % 2 == 0 else (peer, ours):
            machine.wait_quiet(pids, effort.wait)
            watch = machine.Watch(pids)
            steps = effort.steps + 1
            answer = ours.ask("step", count=steps) if side is ours else peer.ask("step", rates=[rate] * steps)
            load.append(watch.others())
            ms[side.name] = median(answer["ms"][1:])
        measured.ours.append(ms[ours.name])
        measured.peer.append(ms[peer.name])
        measured.others.append(None if None in load else max(load))


def _result(config: Config, threads: int, vs: str, m: Measured, effort: Effort, quick: bool) -> dict:
    tokens = config.train.batch * config.train.context
    ratios = [peer / ours for ours, peer in zip(m.ours, m.peer, strict=True)]
    quiet = [r for r, load in zip(ratios, m.others, strict=True) if load is not None and load < machine.QUIET]
    ours, peer = median(m.ours), median(m.peer)
    memory = [max((pair[side] for pair in m.memory if pair[side] is not None), default=None) for side in (0, 1)]
    return {
        "bench": "step",
        "machine": machine.describe(threads),
        "config": config.name,
        "vs": vs,
        "versions": m.about["peer"],
        "batch": config.train.batch,
        "context": config.train.context,
        "quick": quick,
        "starts": effort.starts,
        "pairs": len(ratios),
        "loss_difference": m.about["loss_difference"],
        "norm_difference": m.about["norm_difference"],
        "losses": m.about["losses"],
        "tokens_per_s": tokens / ours * 1e3,
        "peer_tokens_per_s": tokens / peer * 1e3,
        "ms": {"median": ours, "min": min(m.ours), "max": max(m.ours)},
        "peer_ms": {"median": peer, "min": min(m.peer), "max": max(m.peer)},
        "ratio": median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "ratio_quiet": median(quiet) if quiet else None,
        "quiet_pairs": len(quiet),
        "ratio_of_minima": min(m.peer) / min(m.ours),
        "others": m.others,
        "gemm_ms": m.about["gemm_ms"],
        "gemm_gflops": m.about["gemm_gflops"],
        "gemm_limit_share": m.about["gemm_ms"] / ours,
        "phases": m.about["phases"],
        "launches": m.about["launches"],
        "peak_mib": memory[0],
        "peer_peak_mib": memory[1],
        "rounds": [list(pair) for pair in zip(m.ours, m.peer, strict=True)],
    }


HEAD = ("one step", "andrea-lab", "PyTorch")


def _rows(r: dict) -> list[tuple[str, str, str]]:
    def spread(ms: dict) -> str:
        return f"{ms['median']:.0f} ({ms['min']:.0f} to {ms['max']:.0f})"

    def mib(value: float | None) -> str:
        return "unknown" if value is None else f"{value:.0f}"

    rows = [
        ("tokens/s", f"{r['tokens_per_s']:.0f}", f"{r['peer_tokens_per_s']:.0f}"),
        ("ms, median (range)", spread(r["ms"]), spread(r["peer_ms"])),
        ("peak memory of the process, MiB", mib(r["peak_mib"]), mib(r["peer_peak_mib"])),
        ("matrix products alone, ms", f"{r['gemm_ms']:.0f} ({r['gemm_limit_share']:.0%} of the step)", ""),
    ]
    return rows + [(f"phase {name}, ms", f"{ms:.1f}", "") for name, ms in r["phases"].items()]


def _title(r: dict) -> str:
    shape = f"{r['config']}, B = {r['batch']}, T = {r['context']}"
    return f"{shape} against {r['vs']} ({r['versions'].get('adamw', '')} AdamW); {tables.machine_line(r)}"


def _summary(r: dict) -> str:
    text = (
        f"ratio {r['ratio']:.2f} ({r['ratio_min']:.2f} to {r['ratio_max']:.2f}), median of {r['pairs']} pairs over "
        f"{r['starts']} starts; of the best turns {r['ratio_of_minima']:.2f}"
    )
    if r["ratio_quiet"] is not None:
        text += f"; {r['ratio_quiet']:.2f} in the {r['quiet_pairs']} quiet pairs"
    loads = [load for load in r["others"] if load is not None]
    if loads:
        text += f"; other processes took {min(loads):.0%} to {max(loads):.0%} of the machine"
    return text + f"; losses of the first {CHECKED} steps differ by {r['loss_difference']:.0e} at most"


def figures(result: dict) -> tables.Figures:
    """The figures as a table."""
    return tables.Figures(HEAD, _rows(result), _title(result), _summary(result))
