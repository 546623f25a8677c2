"""`andrea bench kernels`: our kernels on the CPU target against NumPy and against hand-written Numba loops.

Every side is compared with the float64 reference before it is timed. vs_numpy and vs_hand say how many times as fast
ours is; above 1 ours is faster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from andrea_lab.bench import machine, tables, timing
from andrea_lab.bench.server import BenchError, Server

COMMAND = [sys.executable, "-m", "andrea_lab.bench.children.cases_server"]
ROUNDS = 15


def run(
    *,
    threads: int | None = None,
    rounds: int | None = None,
    quick: bool = False,
    only: Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict:
    """Measure the cases in a process of their own and return the figures.

    threads: for all sides (default: all cores). quick: tiny arrays and few rounds, which proves the results and says
    nothing about speed. only: names, or beginnings of names, of the cases to take. progress: is told what is measured.
    Raises BenchError when a side's result is wrong or `only` fits no case.
    """
    threads = threads or machine.default_threads()
    rounds = rounds or (2 if quick else ROUNDS)
    say = progress or (lambda text: None)
    measured, others = [], []
    with Server("kernels", COMMAND, machine.environment(threads)) as child:
        names = _chosen(child.ask("setup", threads=threads, quick=quick)["cases"], only)
        for name in names:
            say(name)
            if not quick:
                machine.wait_quiet([child.pid], 2.0)
            watch = machine.Watch([child.pid])
            measured.append(child.ask("measure", name=name, rounds=rounds, pause=0.0 if quick else 0.05))
            others.append(watch.others())
    return _result([_figures(m, o) for m, o in zip(measured, others, strict=True)], threads, rounds, quick)


def _chosen(names: list[str], only: Sequence[str] | None) -> list[str]:
    if not only:
        return names
    chosen = [name for name in names if any(name.startswith(wanted) for wanted in only)]
    if not chosen:
        raise BenchError(f"only: found {', '.join(only)}, expected the beginning of one of {', '.join(names)}")
    return chosen


def _figures(measured: dict, others: float | None) -> dict:
    ms = measured["ms"]
    return {
        "name": measured["name"],
        **{f"{side}_ms": ms[side] for side in ms},
        "vs_numpy": ms["numpy"] / ms["ours"],
        "vs_hand": ms["hand"] / ms["ours"],
        "error": max(measured["errors"].values()),
        "others": others,
    }


def _result(kernels: list[dict], threads: int, rounds: int, quick: bool) -> dict:
    against = {k["name"]: k for k in kernels}
    worst = min(kernels, key=lambda k: k["vs_hand"])
    gelu = [against[name]["vs_numpy"] for name in ("gelu_fwd", "gelu_bwd") if name in against]

    def blas(name: str) -> float | None:
        return against[name]["vs_numpy"] if name in against else None

    return {
        "bench": "kernels",
        "machine": machine.describe(threads),
        "rounds": rounds,
        "quick": quick,
        "geomean_vs_hand": timing.mean_ratio([k["vs_hand"] for k in kernels]),
        "worst_vs_hand": worst["vs_hand"],
        "worst": worst["name"],
        "gelu_vs_numpy": min(gelu) if gelu else None,
        "tiled_vs_blas": blas("matmul_tiled"),
        "blocked_vs_blas": blas("matmul_blocked"),
        "kernels": kernels,
    }


HEAD = ("kernel", "ours ms", "NumPy ms", "by hand ms", "over NumPy", "over hand")


def _rows(result: dict) -> list[tuple[str, ...]]:
    return [
        (
            k["name"],
            *(f"{k[side]:.3f}" for side in ("ours_ms", "numpy_ms", "hand_ms")),
            *(f"{k[ratio]:.2f}" for ratio in ("vs_numpy", "vs_hand")),
        )
        for k in result["kernels"]
    ]


def _summary(result: dict) -> str:
    parts = [
        f"over hand-written loops: geometric mean {result['geomean_vs_hand']:.2f}, "
        f"worst {result['worst_vs_hand']:.2f} ({result['worst']})"
    ]
    for key, text in (
        ("gelu_vs_numpy", "GELU {:.1f} x NumPy"),
        ("tiled_vs_blas", "tiled product {:.2f} of BLAS"),
        ("blocked_vs_blas", "blocked {:.2f} of BLAS"),
    ):
        if result[key] is not None:
            parts.append(text.format(result[key]))
    loads = [k["others"] for k in result["kernels"] if k["others"] is not None]
    if loads:
        parts.append(f"other processes took {min(loads):.0%} to {max(loads):.0%} of the machine")
    return "; ".join(parts)


def figures(result: dict) -> tables.Figures:
    """The figures as a table."""
    return tables.Figures(HEAD, _rows(result), tables.machine_line(result), _summary(result))
