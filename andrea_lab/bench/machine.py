"""What a figure needs from the machine: its name, who else is using it, a quiet moment, a clean environment."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from pathlib import Path

from andrea_lab.paths import ROOT

UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # set on some machines; they make NumPy's BLAS pick slower kernels
QUIET = 0.08  # share of the machine that other processes may take in a quiet moment


def environment(threads: int) -> dict[str, str]:
    """The environment of a measured process: `threads` for every library, and no setting that slows the BLAS."""
    env = {name: value for name, value in os.environ.items() if name not in UNSET}
    env |= {name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    env["NUMBA_NUM_THREADS"] = str(max(threads, os.cpu_count() or 1))
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH")]))
    return env


def removed() -> list[str]:
    """The settings that `environment` takes away here, as NAME=value."""
    return [f"{name}={os.environ[name]}" for name in UNSET if name in os.environ]


def describe(threads: int) -> dict:
    """Processor, cores, threads used, versions, settings taken away: what stands beside every figure."""
    import numba
    import numpy

    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "numba": numba.__version__,
        "unset": removed(),
    }


def default_threads() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _ticks() -> tuple[int, int] | None:
    """(busy, all) clock ticks of the machine since it started, or None where the system does not tell."""
    try:
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    except (OSError, ValueError):
        return None
    busy = user + nice + system + irq + softirq + steal
    return busy, busy + idle + iowait


def _own_ticks(pids: Iterable[int]) -> int:
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total


class Watch:
    """Measures which share of the machine processes other than `pids` take between its making and `others()`."""

    def __init__(self, pids: Iterable[int]):
        self.pids = tuple(pids)
        self.start, self.own = _ticks(), _own_ticks(self.pids)

    def others(self) -> float | None:
        """A number from 0 to 1, or None where the system does not tell."""
        now = _ticks()
        if now is None or self.start is None:
            return None
        busy, total = now[0] - self.start[0], now[1] - self.start[1]
        return max(0.0, busy - (_own_ticks(self.pids) - self.own)) / total if total > 0 else 0.0


def wait_quiet(pids: Iterable[int], limit: float) -> None:
    """Return after a quarter of a second in which others took less than QUIET, and after `limit` seconds anyway."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        watch = Watch(pids)
        time.sleep(0.25)
        share = watch.others()
        if share is None or share < QUIET:
            return
