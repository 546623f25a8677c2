"""`andrea bench checkpoint`: what keeping a run safe costs, each line beside the least that the work can take.

A stall beside a plain copy, a save beside the slower of write and digest, an appended line beside a bare append: all by
turns in the same run, so that a slow disk or a busy machine weighs on both. Every line has an aim. torch.save stands
beside our save where an interpreter has it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import psutil

from andrea_lab import paths
from andrea_lab.bench import machine, tables, timing
from andrea_lab.bench.checkpoint_sides import ENTRY, State
from andrea_lab.bench.server import CHILDREN, BenchError, Server
from andrea_lab.checkpoint.files import REAL, write_all
from andrea_lab.checkpoint.load import load
from andrea_lab.checkpoint.single import file_name
from andrea_lab.checkpoint.verify import scan
from andrea_lab.model.config import Config, load_config
from andrea_lab.run.losslog import LossLog, encode, last_entry

PRESET = "ANDREA-12M"
PEER = CHILDREN / "torch_saver.py"
AIMS = {"stall": 1.5, "save": 1.3, "load": 1.3, "append": 2.0}  # times what stands beside it
OPEN_MS, SCAN_S = 50.0, 0.5


@dataclass(frozen=True)
class Effort:
    """How much to measure: pairs of a stall, rounds of a save and of a load, turns and lines of appends, and sizes."""

    stalls: int = 40
    rounds: int = 12
    turns: int = 20
    lines: int = 50
    log: int = 1_000_000
    checkpoints: int = 2_000
    looks: int = 11  # times the log is opened and the folder scanned


QUICK = Effort(stalls=2, rounds=1, turns=2, lines=5, log=2_000, checkpoints=50, looks=2)


def run(
    *,
    peer_python: str | None = None,
    folder: str | None = None,
    config: Config | None = None,
    quick: bool = False,
    effort: Effort | None = None,
    peer_command: list[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict:
    """Measure every line and return the figures.

    peer_python: an interpreter that has torch (default: this one, and without torch the line is left out). folder: a
    place on the disk to measure (default: where the runs are). config: the model (default: ANDREA-12M). quick: a few
    rounds, which prove that what is timed is right. peer_command: another peer that speaks the same protocol.
    Raises BenchError when a save does not read back as it was, or a peer that was asked for is missing.
    """
    say, effort = progress or (lambda text: None), effort or (QUICK if quick else Effort())
    config = config or load_config(PRESET, paths.experiments_dir())
    place = Path(folder) if folder else paths.runs_dir() if paths.runs_dir().is_dir() else None
    if place is not None and not place.is_dir():
        raise BenchError(f"folder: found no folder {place}, expected one on the disk to measure")
    command = peer_command or [peer_python or sys.executable, str(PEER)]
    with ExitStack() as stack:
        made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="andrea-bench-", dir=place)))
        (made / "run").mkdir()
        state = State(config, made / "run")
        stack.callback(state.saver.close)
        peer = stack.enter_context(Server("torch", command, machine.environment(machine.default_threads())))
        version = _greet(peer, state.n, wanted=bool(peer_python or peer_command))
        watch = machine.Watch([os.getpid(), peer.pid])
        say("proof")
        _prove(state)
        lines = [_stalls(state, effort, say), *_saves(state, effort, say, peer if version else None)]
        lines += [_loads(state, effort, say), _appends(made / "append.json", effort, say)]
        lines += [_openings(made / "long.json", effort, say), _scans(made / "many", effort, say)]
        others = watch.others()
    return {
        "bench": "checkpoint",
        "machine": machine.describe(machine.default_threads()),
        "file_system": _file_system(place or Path(tempfile.gettempdir())),
        "config": config.name,
        "params": state.n,
        "nbytes": 8 + 12 * state.n,
        "torch": version,
        "quick": quick,
        "others": others,
        "lines": lines,
    }


def _greet(peer: Server, n: int, wanted: bool) -> str | None:
    """The peer's version once it has its tensors; None when it has no torch and nobody asked for it."""
    hello = peer.ask("hello")
    if "missing" not in hello:
        peer.ask("load", n=n)
        return hello["torch"]
    if wanted:
        raise BenchError(f"torch: found no module {hello['missing']!r}, expected it there: name another --peer-python")
    return None


def _prove(state: State) -> None:
    """Raise BenchError unless both kinds of save give a file with the digest they tell, which loads as it was."""
    for wait in (True, False):
        state.save(wait)
        saved = state.saver.wait()
        loaded = load(state.newest, *state.others)
        whole = hashlib.sha256(state.newest.read_bytes()).hexdigest()
        same = all(np.array_equal(a, b) for a, b in zip(state.arrays, state.others, strict=True))
        if not (saved.sha256 == loaded.sha256 == whole and loaded.verified and same):
            raise BenchError(f"{state.newest.name}: found other bytes than were saved, expected the same")
    state.clear()


def _stalls(state: State, effort: Effort, say: Callable[[str], None]) -> dict:
    say("stall of a save in the background")

    def stall() -> float:
        held = state.save(wait=False)
        state.saver.wait()
        state.clear()
        return held

    state.copy()
    found = timing.by_turns({"ours": stall, "beside": lambda: timing.seconds(state.copy)}, effort.stalls)
    line = _line("background save", "a copy", found["ours"], found["beside"], AIMS["stall"])
    p95 = line["p95_ms"] / line["beside_ms"]
    return line | {"p95_ratio": p95, "met": p95 <= line["aim"]}


def _saves(state: State, effort: Effort, say: Callable[[str], None], peer: Server | None) -> list[dict]:
    say("save, waiting for it")

    def save() -> float:
        held = state.save(wait=True)
        state.clear()
        return held

    def write() -> float:
        held = timing.seconds(state.write)
        state.clear()
        return held

    sides = {"ours": save, "write": write, "digest": lambda: timing.seconds(state.digest)}
    if peer is not None:
        sides["torch"] = lambda: peer.ask("save", file=str(state.folder / "peer.pt"))["ms"] / 1e3
    found = timing.by_turns(sides, effort.rounds)
    beside = [max(pair) for pair in zip(found["write"], found["digest"], strict=True)]
    line = _line("save", "write or sha256", found["ours"], beside, AIMS["save"])
    parts = {"write_ms": 1e3 * median(found["write"]), "digest_ms": 1e3 * median(found["digest"])}
    lines = [line | parts]
    if peer is not None:
        lines.append(_line("save", "torch.save", found["ours"], found["torch"], None))
    return lines


def _loads(state: State, effort: Effort, say: Callable[[str], None]) -> dict:
    say("load and verify")
    state.save(wait=True)
    sides = {
        "ours": lambda: timing.seconds(lambda: load(state.newest, *state.others)),
        "read": lambda: timing.seconds(state.read),
        "digest": lambda: timing.seconds(state.digest),
    }
    found = timing.by_turns(sides, effort.rounds)
    beside = [max(pair) for pair in zip(found["read"], found["digest"], strict=True)]
    line = _line("load", "read or sha256", found["ours"], beside, AIMS["load"])
    state.clear()
    return line | {"read_ms": 1e3 * median(found["read"]), "digest_ms": 1e3 * median(found["digest"])}


def _appends(path: Path, effort: Effort, say: Callable[[str], None]) -> dict:
    say("append to the loss log")
    data = memoryview((encode(ENTRY) + "\n").encode())
    log, bare = LossLog(path), REAL.append(path.with_name("bare.json"))

    def append() -> None:
        write_all(REAL, bare, data)
        REAL.datasync(bare)

    def one() -> dict[str, float]:
        sides = {"ours": lambda: timing.seconds(lambda: log.append(ENTRY)), "beside": lambda: timing.seconds(append)}
        return {name: median(times) for name, times in timing.by_turns(sides, effort.lines).items()}

    try:
        turns = [one() for _ in range(effort.turns)]
    finally:
        log.close()
        REAL.close(bare)
    ours, beside = ([turn[side] for turn in turns] for side in ("ours", "beside"))
    return _line("append", "a bare append", ours, beside, AIMS["append"])


def _openings(path: Path, effort: Effort, say: Callable[[str], None]) -> dict:
    say(f"open a log of {effort.log:,} lines")
    head, tail = (part.encode() for part in (encode(ENTRY) + "\n").split(str(ENTRY["step"]), 1))
    fd = REAL.create(path)
    for at in range(0, effort.log, 10_000):
        steps = range(at + 1, min(at + 10_000, effort.log) + 1)
        write_all(REAL, fd, memoryview(b"".join(b"%b%d%b" % (head, step, tail) for step in steps)))
    REAL.close(fd)

    def look() -> float:
        start = time.perf_counter()
        with LossLog(path):
            last = last_entry(path)
        held = time.perf_counter() - start
        if last is None or last["step"] != effort.log:
            raise BenchError(f"{path.name}: found {last}, expected the entry of step {effort.log}")
        return held

    times = [look() for _ in range(effort.looks)]
    return _alone(f"open a log of {effort.log:,} lines", times, OPEN_MS)


def _scans(folder: Path, effort: Effort, say: Callable[[str], None]) -> dict:
    say(f"scan {effort.checkpoints:,} checkpoints")
    folder.mkdir()
    for number in range(1, effort.checkpoints + 1):
        for ending in ("", ".sum"):
            REAL.close(REAL.create(folder / (file_name(100 * number) + ending)))

    def look() -> float:
        start = time.perf_counter()
        found = len(scan(folder))
        held = time.perf_counter() - start
        if found != effort.checkpoints:
            raise BenchError(f"scan: found {found} checkpoints, expected {effort.checkpoints}")
        return held

    return _alone(f"scan {effort.checkpoints:,} checkpoints", [look() for _ in range(effort.looks)], 1e3 * SCAN_S)


def _line(name: str, beside: str, ours: list[float], theirs: list[float], aim: float | None) -> dict:
    """One row: medians and ranges in ms, and the median and range of the ratios of the rounds."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        "name": name,
        **_spread("", ours),
        "beside": beside,
        **_spread("beside_", theirs),
        "ratio": median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "rounds": len(ratios),
        "aim": aim,
        "met": None if aim is None else median(ratios) <= aim,
    }


def _alone(name: str, times: list[float], aim: float) -> dict:
    """One row that has no peer: its aim is in ms."""
    found = _spread("", times)
    return {"name": name, **found, "rounds": len(times), "aim_ms": aim, "met": found["ms"] <= aim}


def _spread(prefix: str, times: list[float]) -> dict:
    ordered = sorted(1e3 * t for t in times)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return {
        f"{prefix}ms": median(ordered),
        f"{prefix}p95_ms": p95,
        f"{prefix}min_ms": ordered[0],
        f"{prefix}max_ms": ordered[-1],
    }


def _file_system(place: Path) -> str:
    """The kind of file system a folder is on, "unknown" where the system does not tell."""
    above = [str(folder) for folder in (place.resolve(), *place.resolve().parents)]
    known = {disk.mountpoint: disk.fstype for disk in psutil.disk_partitions(all=True) if disk.mountpoint in above}
    return known[max(known, key=len)] if known else "unknown"


HEAD = ("what : beside what", "ms", "beside, ms", "ratio (range)", "aim", "met")


def _rows(result: dict) -> list[tuple[str, ...]]:
    rows = []
    for x in result["lines"]:
        met = {True: "yes", False: "no", None: ""}[x["met"]]
        if "beside" not in x:
            rows.append((x["name"], _ms(x["ms"]), "", "", f"{x['aim_ms']:.0f} ms", met))
            continue
        name, beside, aim = f"{x['name']} : {x['beside']}", _ms(x["beside_ms"]), f"{x['aim'] or 0:g}"
        ratio = f"{x['ratio']:.2f} ({x['ratio_min']:.2f} to {x['ratio_max']:.2f})"
        if "p95_ratio" in x:  # the aim is for the slowest twentieth
            rows += [(name, _ms(x["ms"]), beside, ratio, "", "")]
            rows += [(f"{x['name']}, p95", _ms(x["p95_ms"]), beside, f"{x['p95_ratio']:.2f}", aim, met)]
        else:
            rows.append((name, _ms(x["ms"]), beside, ratio, aim if x["aim"] else "", met))
    return rows


def _ms(ms: float) -> str:
    return f"{ms:.0f}" if ms >= 10 else f"{ms:.2f}"


def _title(r: dict) -> str:
    peer = f", torch {r['torch']}" if r["torch"] else ""
    text = f"{r['config']}, {r['params']:,} parameters, {r['nbytes']:,} bytes on {r['file_system']}"
    return f"{text}; {tables.machine_line(r)}{peer}"


def _summary(r: dict) -> str:
    text = (
        "medians. background save: how long training stands still. save: with sha256 and read back, beside the slower "
        "of write + fsync and sha256, and beside torch.save + fsync. load: with sha256. append: a line of the loss log "
        "and fdatasync. A ratio is the median over rounds in which both took their turn; below 1 ours is the quicker"
    )
    if r["others"] is not None:
        text += f"; other processes took {r['others']:.0%} of the machine"
    return text


def figures(result: dict) -> tables.Figures:
    """The figures as a table."""
    return tables.Figures(HEAD, _rows(result), _title(result), _summary(result))
