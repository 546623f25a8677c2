"""A new run from one checkpoint of another: the same weights, m, v and step, another configuration.

The fork is made in a hidden neighbour folder and takes its name in one rename: it is there as a whole or not at all.
Its loss log begins with the entry of the step it was forked at, and its batches go on as its parent's would, so the two
can be compared step by step.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from andrea_lab import strict_json
from andrea_lab.checkpoint import rotation
from andrea_lab.checkpoint.files import REAL, Files, replace_with
from andrea_lab.checkpoint.single import PIECE, CheckpointError, step_of
from andrea_lab.checkpoint.sums import Sum, write_sum
from andrea_lab.checkpoint.verify import NON_FINITE, look, scan
from andrea_lab.run.directory import RunDirectory, RunError, free_name
from andrea_lab.run.losslog import encode, entries_after

STAGE = re.compile(r"\..+\.([0-9]{1,9})\.fork\.tmp")
ORIGIN = {"from": str, "step": int, "sha256": str, "changes": dict}
NAMED = 8  # steps that a message lists


def fork(run_dir: Path | str, step: int, into: Path | str, config_json: str, *, files: Files = REAL) -> RunDirectory:
    """Make the run `into`, new, from the checkpoint of `step` in `run_dir`; returns it.

    config_json: the fork's config.json, whose "model" must be the parent's. The new folder gets the checkpoint and its
    sum, the config, the loss log with the step's entry, and fork.json: {"from", "step", "sha256", "changes"}, with
    "changes" as {"train.lr": [parent's, fork's], ...}. The checkpoint is pinned in the parent, "fork into DIR".

    Raises RunError for a name that is taken, a step that is not there or another model, CheckpointError for a
    checkpoint that does not load, OSError when the disk fails; then nothing is left behind.
    """
    parent, child = RunDirectory.open(run_dir), RunDirectory(Path(into).absolute())
    if os.path.lexists(child.path):
        raise RunError(f"{into}: found it taken, expected a new name, such as {free_name(Path(into))}")
    weights = _weights(parent, step)
    changes = _changes(parent, config_json)
    with _pinned(parent, step, f"fork into {into}", files), _staged(child.path, files) as stage:
        found = look(weights, files=files)
        if found.verdict == NON_FINITE:
            raise CheckpointError(f"{weights}: {found.reason}", NON_FINITE)
        _copy(weights, stage / weights.name, found.own, files)
        if found.sum is not None:
            write_sum(stage / weights.name, found.sum.alone(), files)
        if (entry := _entry(parent, step, found.sum)) is not None:
            _write(stage / child.log.name, encode(entry) + "\n", files)
        about = {"from": _from(parent, child), "step": step, "sha256": found.own.sha256, "changes": changes}
        _write(stage / child.fork.name, json.dumps(about, indent=2) + "\n", files)
        _write(stage / child.config.name, config_json, files)
    return RunDirectory(into)


def origin(run: RunDirectory) -> dict[str, Any] | None:
    """What fork.json says, None for a run that is no fork. Raises RunError for a file that cannot be believed."""
    try:
        with REAL.open(run.fork) as file:
            found = strict_json.parse(file.readall())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{run.fork}: found {error.strerror or error}, expected a fork's origin") from None
    except ValueError:
        raise RunError(f"{run.fork}: found text that is no JSON, expected a fork's origin") from None
    if not isinstance(found, dict) or any(type(found.get(key)) is not kind for key, kind in ORIGIN.items()):
        raise RunError(f"{run.fork}: found other fields, expected {', '.join(ORIGIN)}")
    return found


def differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, list[Any]]]:
    """("train.lr", [old, new]), ... of every leaf in which two JSON objects differ; None stands for a missing one."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        if old != new:
            yield path, [old, new]
        return
    for key in dict.fromkeys([*old, *new]):
        yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))


def _weights(parent: RunDirectory, step: int) -> Path:
    """The parent's file of a step. Raises RunError naming the steps that are there."""
    there = [step_of(path.name) for path in scan(parent.path)]
    if step not in there:
        first = "" if len(there) <= NAMED else f"{len(there) - NAMED} earlier ones, "
        listed = ", ".join(map(str, there[-NAMED:])) or "none"
        raise RunError(f"{parent.path}: step: found {step}, expected one that was saved: {first}{listed}")
    return parent.weights(step)


def _changes(parent: RunDirectory, config_json: str) -> dict[str, list[Any]]:
    try:
        old = json.loads(parent.config.read_bytes())
    except (ValueError, RecursionError):
        raise RunError(f"{parent.config}: found text that is no JSON, expected the run's configuration") from None
    changes = dict(differences(old, json.loads(config_json)))
    if other := [key for key in changes if key.startswith("model")]:
        raise RunError(f"{other[0]}: found a change, expected the model of {parent.path}: only train fields may differ")
    return changes


def _from(parent: RunDirectory, child: RunDirectory) -> str:
    """The parent as seen from the fork, so that both can be moved together."""
    try:
        return Path(os.path.relpath(parent.path.resolve(), child.path.parent.resolve() / child.path.name)).as_posix()
    except ValueError:  # on another drive
        return str(parent.path.resolve())


def _entry(parent: RunDirectory, step: int, about: Sum | None) -> dict[str, Any] | None:
    """The entry of the step: from the sum, else from the parent's log, else none."""
    if about is not None and about.entry is not None:
        return about.entry
    return entries_after(parent.log, step - 1).get(step)


def _copy(source: Path, target: Path, expected: Sum, files: Files) -> None:
    """Copy the checkpoint; raises CheckpointError unless what is written has the digest that was found before."""
    digest = hashlib.sha256()

    def fill(write: Callable[[memoryview], None]) -> None:
        piece = memoryview(bytearray(PIECE))
        with files.open(source) as file:
            while got := files.read(file, piece):
                digest.update(piece[:got])
                write(piece[:got])
        if digest.hexdigest() != expected.sha256:
            raise CheckpointError(f"{source}: found other bytes than a moment ago, expected a file nobody writes to")

    replace_with(target, fill, files=files, size=expected.nbytes)


def _write(path: Path, text: str, files: Files) -> None:
    replace_with(path, lambda write: write(memoryview(text.encode())), files=files)


@contextmanager
def _pinned(run: RunDirectory, step: int, why: str, files: Files) -> Iterator[None]:
    """Pin the checkpoint before anything is read, so that no rotation takes it; take the pin back on an error."""
    before = step in rotation.pins(run.path)
    try:
        if not before:
            rotation.pin(run.path, step, why, files=files)
        yield
    except BaseException:
        if not before and step in rotation.pins(run.path):
            with suppress(OSError):
                rotation.unpin(run.path, step, files=files)
        raise


@contextmanager
def _staged(path: Path, files: Files) -> Iterator[Path]:
    """A folder to fill, which is renamed to `path` at the end of the block; on an error it is removed."""
    made = [folder for folder in path.parents if not folder.exists()]
    stage = at = path.with_name(f".{path.name}.{os.getpid()}.fork.tmp")
    try:
        for folder in reversed(made):
            files.make_folder(folder)
            files.sync_folder(folder.parent)
        _sweep(path.parent, files)
        files.make_folder(stage)
        yield stage
        files.rename(stage, path)
        at = path
        files.sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            _remove(at, files)
        for folder in made:
            with suppress(OSError):
                files.remove_folder(folder)
        raise


def _sweep(folder: Path, files: Files) -> None:
    """Remove what forks of dead processes, and failed ones of this process, left in a folder."""
    import psutil

    for name in os.listdir(folder):
        match = STAGE.fullmatch(name)
        if match and (int(match[1]) == os.getpid() or not psutil.pid_exists(int(match[1]))):
            with suppress(OSError):  # what somebody put there is no reason not to fork
                _remove(folder / name, files)


def _remove(stage: Path, files: Files) -> None:
    if stage.is_dir() and not stage.is_symlink():
        for file in stage.iterdir():
            files.remove(file)
        files.remove_folder(stage)
