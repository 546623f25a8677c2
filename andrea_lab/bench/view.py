"""`andrea bench view`: what it costs to watch a run: time of its steps, bytes of an update, memory, a long log opened,
a long run redrawn where there is a browser.

The view is attached as in a notebook, with its thread; its messages are made and signed as a kernel would, and counted
instead of sent. Steps with and without a view take turns, so that a busy machine weighs on both.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from andrea_lab import paths
from andrea_lab.bench import machine, redraw, tables, timing
from andrea_lab.bench.checkpoint_sides import ENTRY
from andrea_lab.bench.server import BenchError
from andrea_lab.checkpoint.files import REAL, write_all
from andrea_lab.model.config import Config, load_config
from andrea_lab.proxy import loop
from andrea_lab.run.losslog import encode
from andrea_lab.view import LossView
from andrea_lab.view.feed import Feed
from andrea_lab.view.frame import RECORD

PRESET = "ANDREA-nano"
WARM = 3  # steps of a turn that do not count
SHARE = 0.01  # of the training time may go into watching it
UPDATE, GROWTH, OPEN = 4096, 2.0, 1.0  # bytes; MiB beyond the records; times reading the log as JSON
REDRAW = 500  # ms


@dataclass(frozen=True)
class Effort:
    """How much to measure: rounds with and without a view, their steps, lines of a long log, updates."""

    rounds: int = 8
    steps: int = 60
    lines: int = 1_000_000
    openings: int = 3
    redraws: int = 10
    updates: int = 10_000


QUICK = Effort(rounds=1, steps=5, lines=2_000, openings=1, redraws=2, updates=200)


class Wire:
    """Takes the place of a widget's channel: makes each message as a kernel would and counts its bytes."""

    comm_id, kernel = "bench", True

    def __init__(self):
        from jupyter_client.session import Session

        self.session, self.bytes = Session(key=b"bench"), []

    def send(self, data=None, metadata=None, buffers=None):
        message = self.session.msg("comm_msg", {"comm_id": self.comm_id, "data": data}, metadata=metadata)
        parts = [*self.session.serialize(message), *(buffers or [])]
        self.bytes.append(sum(map(len, parts)))

    def on_msg(self, callback):
        """Nobody sends anything back."""

    def close(self, *_, **__):
        """Nothing is held open."""


def run(*, config: Config | None = None, quick: bool = False, progress: Callable[[str], None] | None = None) -> dict:
    """Measure every line and return the figures.

    config: the run that is watched (default: ANDREA-nano). quick: a few steps, which prove that what is timed is right.
    Raises BenchError when the view shows something else than what was logged.
    """
    say, effort = progress or (lambda text: None), QUICK if quick else Effort()
    config = (config or load_config(PRESET, paths.experiments_dir())).with_train(steps=effort.steps, save_every=0)
    watch = machine.Watch([os.getpid()])
    with tempfile.TemporaryDirectory(prefix="andrea-bench-") as made:
        folder = Path(made)
        lines = [*_steps(config, folder, effort, say), *_updates(folder / "updates", effort, say)]
        lines.append(_openings(folder / "long", effort, say))
    missing = redraw.missing()
    if missing is None:
        lines.append(_redraws(effort, say))
    return {
        "bench": "view",
        "machine": machine.describe(machine.default_threads()),
        "config": config.name,
        "quick": quick,
        "others": watch.others(),
        "missing": missing,
        "lines": lines,
    }


def _steps(config: Config, folder: Path, effort: Effort, say: Callable[[str], None]) -> list[dict]:
    """The time of a step with a view attached beside one without, and the processor time of the view's thread."""
    taken, shares = [], []

    def train() -> float:
        ends: list[float] = []
        taken.append(folder / f"run{len(taken)}")
        hooks = {"on_entry": lambda entry: ends.append(time.perf_counter())}
        if loop.train(config, taken[-1], held_out_batches=0, **hooks).outcome == "interrupted":
            raise KeyboardInterrupt  # the loop took it for a wish to stop its run
        return (ends[-1] - ends[WARM - 1]) / (len(ends) - WARM)

    def watched() -> float:
        view, spent = LossView(folder / f"run{len(taken)}"), []
        tick = view.widget.follower.tick
        view.widget.comm = wire = Wire()
        view.widget.follower.tick = lambda: _counted(tick, spent)
        began = time.perf_counter()
        try:
            found = train()
            shares.append(sum(spent) / (time.perf_counter() - began))
            view.update(final=True)
            if len(view.history) != config.train.steps or not wire.bytes:
                raise BenchError(f"view: found {len(view.history)} steps, expected {config.train.steps}")
        finally:
            view.widget.close()
        return found

    say("compile")
    train()
    say(f"{effort.rounds} rounds of {effort.steps} steps with and without a view")
    found = timing.by_turns({"ours": watched, "beside": train}, effort.rounds)
    step = {"name": "a step, watched : not watched", **_row("ms", _ms(found["ours"]), None)}
    step |= _ratio(_ms(found["ours"]), _ms(found["beside"]), 1 + SHARE)
    share = _row("%", [100 * share for share in shares], 100 * SHARE)
    return [step, {"name": "the view's processor time, of the training time", **share}]


def _counted(tick: Callable[[], float], spent: list[float]) -> float:
    """One look of the view's thread, its processor time noted."""
    began = time.thread_time()
    try:
        return tick()
    finally:
        spent.append(time.thread_time() - began)


def _updates(folder: Path, effort: Effort, say: Callable[[str], None]) -> list[dict]:
    """Updates of one step each: bytes and time of one, and what they leave in memory beside the records."""
    say(f"{effort.updates:,} updates")
    REAL.make_folder(folder)
    log = REAL.create(folder / f"{folder.name}.loss.json")
    view = LossView(folder)
    follower = view.widget.follower
    follower.stop()  # its looks are made here
    follower.join()
    view.widget.comm = wire = Wire()
    process, step = psutil.Process(), 0

    def update(count: int) -> float:
        nonlocal step
        began = time.perf_counter()
        for _ in range(count):
            step += 1
            write_all(REAL, log, memoryview((encode(ENTRY | {"step": step}) + "\n").encode()))
            follower.tick()
        return (time.perf_counter() - began) / count

    try:
        update(max(effort.updates // 10, 10))  # what is made once
        before, sent = process.memory_info().rss, len(wire.bytes)
        wire.bytes[:] = [median(wire.bytes)]
        took = update(effort.updates)
        grown = (process.memory_info().rss - before - RECORD * effort.updates) / 2**20
    finally:
        REAL.close(log)
        view.widget.close()
    if view.feeds[0].records != step or not sent:
        raise BenchError(f"view: found {view.feeds[0].records} records, expected {step}")
    return [
        {"name": "an update of one step", **_row("bytes", wire.bytes, UPDATE)},
        {"name": "an update of one step, taken from the log", **_row("ms", [1e3 * took], None)},
        {"name": f"memory after {effort.updates:,} updates, beside the records", **_row("MiB", [grown], GROWTH)},
    ]


def _openings(folder: Path, effort: Effort, say: Callable[[str], None]) -> dict:
    """A long log opened, beside reading its lines as JSON one by one."""
    say(f"open a log of {effort.lines:,} lines")
    REAL.make_folder(folder)
    path = folder / f"{folder.name}.loss.json"
    head, tail = (part.encode() for part in (encode(ENTRY) + "\n").split(str(ENTRY["step"]), 1))
    fd = REAL.create(path)
    for at in range(0, effort.lines, 10_000):
        steps = range(at + 1, min(at + 10_000, effort.lines) + 1)
        write_all(REAL, fd, memoryview(b"".join(b"%b%d%b" % (head, step, tail) for step in steps)))
    REAL.close(fd)

    def ours() -> float:
        feed = Feed(folder)
        held = timing.seconds(feed.catch_up)
        if feed.records != effort.lines:
            raise BenchError(f"view: found {feed.records} records, expected {effort.lines}")
        return held

    def plain() -> None:
        with open(path, "rb") as file:
            for line in file:
                json.loads(line)

    found = timing.by_turns({"ours": ours, "beside": lambda: timing.seconds(plain)}, effort.openings)
    row = {"name": f"open a log of {effort.lines:,} lines : json.loads", **_row("s", found["ours"], None)}
    return row | _ratio(found["ours"], found["beside"], OPEN)


def _redraws(effort: Effort, say: Callable[[str], None]) -> dict:
    """A long run redrawn in a browser, whole, beside a chart of its losses alone, which is given each of them."""
    found = redraw.measure(effort.lines, effort.redraws, say)
    name = f"redraw {effort.lines:,} steps : the losses alone, by the bare chart"
    row = _ratio(_ms(found["ours"]), _ms(found["beside"]), None) | _row("ms", _ms(found["ours"]), REDRAW)
    return {"name": name, **row, "points": median(found["points"])}


def _row(unit: str, values: list[float], aim: float | None) -> dict:
    """The median of what was measured, in this unit, and whether it is within the aim."""
    value = float(median(values))
    return {"value": value, "unit": unit, "aim": aim, "met": None if aim is None else value <= aim}


def _ratio(ours: list[float], beside: list[float], aim: float | None) -> dict:
    """The median of the other side, and ours over it in each round; with an aim, whether their median is within it."""
    ratios = [a / b for a, b in zip(ours, beside, strict=True)]
    found = {"beside": median(beside), "ratio": median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}
    return found if aim is None else found | {"aim": aim, "met": median(ratios) <= aim, "by_ratio": True}


def _ms(seconds: list[float]) -> list[float]:
    return [1e3 * each for each in seconds]


HEAD = ("what : beside what", "value", "beside", "ratio (range)", "aim", "met")


def _rows(result: dict) -> list[tuple[str, ...]]:
    rows = []
    for x in result["lines"]:
        value, aim = _number(x["value"], x["unit"]), "" if x["aim"] is None else f"{x['aim']:g}"
        met = {True: "yes", False: "no", None: ""}[x["met"]]
        beside = ratio = ""
        if "beside" in x:
            beside = _number(x["beside"], x["unit"])
            ratio = f"{x['ratio']:.3f} ({x['ratio_min']:.3f} to {x['ratio_max']:.3f})"
        if aim and not x.get("by_ratio"):
            aim += f" {x['unit']}"
        rows.append((x["name"], value, beside, ratio, aim, met))
    return rows


def _number(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:.2f} {unit}"


def _title(r: dict) -> str:
    return f"{r['config']} with a view attached; {tables.machine_line(r)}"


def _summary(r: dict) -> str:
    text = (
        "medians. A step: mean of a turn, with the thread of the view reading and sending four times a second, beside "
        "the same run without; a ratio is the median over rounds in which both took their turn. An update: its message "
        "with all facts, signed. A redraw: all strips, script alone"
    )
    if r["missing"]:
        text += f", left out: found no {r['missing']}"
    if r["others"] is not None:
        text += f"; other processes took {r['others']:.0%} of the machine"
    return text


def figures(result: dict) -> tables.Figures:
    """The figures as a table."""
    return tables.Figures(HEAD, _rows(result), _title(result), _summary(result))
