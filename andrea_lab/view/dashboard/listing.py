"""The runs under a folder, and one row about each, read from the ends of its files however long they are."""

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from andrea_lab.checkpoint.files import REAL
from andrea_lab.run.directory import RunDirectory, RunError
from andrea_lab.run.lines import good
from andrea_lab.run.losslog import decode
from andrea_lab.view.facts import Facts
from andrea_lab.view.records import LARGEST

DEEPEST = 3  # levels of folders below the one that is shown
MOST_RUNS = 1000
MOST_FOLDERS = 10_000  # looked into in one go
END = 64 * 1024  # bytes read of a log's end; an entry has about 250


def check_folder(folder: Path) -> None:
    """Raise RunError unless `folder` is a folder that can be listed."""
    if not folder.is_dir():
        found = "a file" if folder.exists() else "no folder"
        raise RunError(f"{folder}: found {found}, expected a folder of runs, or one run")
    os.listdir(folder)


def find(folder: Path) -> tuple[dict[str, Path], int]:
    """({id: run directory}, how many were left out), ids sorted. An id is the path below `folder`, parts joined by "/".

    A folder that is itself a run is one run under its own name. Links are not followed, hidden folders not entered, and
    a folder whose name is no text is left out, as is what goes beyond MOST_RUNS or MOST_FOLDERS.
    """
    root = folder.resolve()
    subfolders, is_run = _look(root)
    if is_run:
        return {root.name: root}, 0
    found: dict[str, Path] = {}
    left_out = looked = 0
    level = subfolders
    for depth in range(DEEPEST):
        below: list[Path] = []
        for path in level:
            run_id = path.relative_to(root).as_posix()
            looked += 1
            if looked > MOST_FOLDERS or len(found) >= MOST_RUNS or not _is_text(run_id):
                left_out += 1
                continue
            subfolders, is_run = _look(path)
            if is_run:
                found[run_id] = path
            elif depth + 1 < DEEPEST:
                below += subfolders
        level = below
    return dict(sorted(found.items())), left_out


def _look(folder: Path) -> tuple[list[Path], bool]:
    """The folders in a folder, sorted, and whether it is a run: it holds a config.json or a loss log."""
    subfolders, is_run = [], False
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith("."):
                        subfolders.append(Path(entry.path))
                elif entry.name == "config.json" or entry.name.endswith(".loss.json"):
                    is_run = is_run or entry.is_file(follow_symlinks=False)
    except OSError:  # gone meanwhile, or not ours to read
        return [], False
    return sorted(subfolders), is_run


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass
class _Known:
    """What was read of a run: its files beside the log, and the log's last entry as of `stamp`."""

    run: RunDirectory
    facts: Facts
    stamp: tuple[int, ...] = ()
    entry: dict[str, Any] = field(default_factory=dict)


class Rows:
    """Rows of runs; what did not change on the disk is not read again. Not safe from threads."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def read(self, runs: dict[str, Path]) -> list[dict[str, Any]]:
        """[{id, name, state, step, steps, loss, changed}] in the order of `runs`.

        state: as the facts of frames have it. step, loss: of the last entry of the log; loss may be "nan", "inf" or
        "-inf". steps: planned. changed: seconds since 1970. None for what is not known.
        """
        self._known = {run_id: self._known.get(run_id) or _new(path) for run_id, path in runs.items()}
        return [{"id": run_id} | _row(known) for run_id, known in self._known.items()]


def _new(path: Path) -> _Known:
    run = RunDirectory(path)
    return _Known(run, Facts(run))


def _row(known: _Known) -> dict[str, Any]:
    stamp = _stamp(known.run.log)
    if not stamp:  # not there yet, or no more: it may be made under another name
        known.run = known.facts.run = RunDirectory(known.run.path)
    if stamp != known.stamp:
        known.stamp, known.entry = stamp, last_entry(known.run.log) or {}
    known.facts.look()
    changed, step = stamp[2] / 1e9 if stamp else None, known.entry.get("step")
    begun = {} if step is None else {1: step}
    told = known.facts.told(0, None, changed or 0.0, begun)
    row = {"name": known.run.path.name, "state": told["state"], "step": step, "steps": told["steps"]}
    return row | {"loss": _loss(known.entry.get("loss")), "changed": changed}


def last_entry(log: Path) -> dict[str, Any] | None:
    """The last whole entry in the last END bytes of a log; None without one, whatever the file is."""
    entries = good(reversed(_end(log).split(b"\n")[:-1]), decode)
    return next((entry for entry in entries if 0 <= entry["step"] <= LARGEST), None)


def _end(path: Path) -> bytes:
    try:
        with REAL.open(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - END))
            return file.read(END)
    except OSError:
        return b""


def _loss(value: Any) -> float | str | None:
    """A number as JSON has it; one that is not finite by its name."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else str(float(value))
    except OverflowError:
        return None


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes when a file does; empty where there is no such file."""
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns
