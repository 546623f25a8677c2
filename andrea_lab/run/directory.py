"""The run directory: everything one run owns, and nothing that belongs to another."""

import re
from contextlib import suppress
from pathlib import Path

from andrea_lab.checkpoint import single
from andrea_lab.checkpoint.files import REAL, TEMP, Files, replace_with, sweep
from andrea_lab.checkpoint.lock import LockError, RunLock
from andrea_lab.checkpoint.verify import candidates
from andrea_lab.checkpoint.wishes import control_folder

# What a start that failed or was killed may leave in a folder that holds no run: locks, temporary neighbours.
LEFTOVER = re.compile(r".+\.lock|" + TEMP.pattern)


class RunError(ValueError):
    """A run directory that cannot be used; the message is one line for the user."""


class RunDirectory:
    """Paths of one run. `name` begins the names of its sidecar files: the folder's own name.

    A folder that was renamed keeps the name its loss log has, so that the history goes on.
    """

    def __init__(self, path: Path | str):
        self.path = Path(path)
        self.name = self.path.resolve().name
        with suppress(OSError):  # of a folder that may not be entered no other name can be known
            if self.path.is_dir() and not self.log.exists():
                logs = list(self.path.glob("*.loss.json"))
                if len(logs) == 1:
                    self.name = logs[0].name.removesuffix(".loss.json")

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def log(self) -> Path:
        return self.path / f"{self.name}.loss.json"

    @property
    def samples(self) -> Path:
        return self.path / f"{self.name}.samples.json"

    @property
    def state(self) -> Path:
        return self.path / f"{self.name}.state.json"

    @property
    def segments(self) -> Path:
        return self.path / f"{self.name}.segments.json"

    @property
    def control(self) -> Path:
        return control_folder(self.path)

    @property
    def archive(self) -> Path:
        return self.path / "archive"

    @property
    def fork(self) -> Path:
        """Where a forked run says what it began from."""
        return self.path / "fork.json"

    def lock(self, role: str) -> RunLock:
        """The run's lock for "engine" or "proxy", not yet taken."""
        return RunLock(self.path, role)

    def weights(self, step: int) -> Path:
        return self.path / single.file_name(step)

    def newest_weights(self) -> Path:
        """The weight file of the highest step, by its name. Raises RunError when there is none."""
        files = candidates(self.path) if self.path.is_dir() else []
        if not files:
            raise RunError(f"{self.path}: found no weights, expected a run directory with a step_NNNNNN.bin")
        return files[0]

    @classmethod
    def create(cls, path: Path | str, config_json: str, files: Files = REAL) -> "RunDirectory":
        """Make the folder and its config.json. Raises RunError for a name that is taken, LockError for a folder that
        another start is just taking, OSError when the disk fails.

        A run is never written over: the folder must be new or empty. When anything fails, what this call made is gone.
        """
        run, made = cls(path), []
        check_free(run.path)
        try:
            _make_folders(run.path, made, files)
            with run.lock("proxy") as lock:  # another start may have found the new folder, still empty
                check_free(run.path)
                sweep(run.path, files)
                _write_config(run.config, config_json, files, lock.path if run.path in made else None)
        except (OSError, LockError):
            with suppress(OSError):
                for folder in reversed(made):
                    files.remove_folder(folder)
            raise
        return run

    @classmethod
    def open(cls, path: Path | str) -> "RunDirectory":
        """An existing run. Raises RunError when the folder holds no config.json."""
        run = cls(path)
        if not run.config.is_file():
            found = "a folder without config.json" if run.path.is_dir() else "no folder"
            raise RunError(f"{run.path}: found {found}, expected a run directory")
        return run


def _make_folders(path: Path, made: list[Path], files: Files) -> None:
    """Make `path` and what is missing above it; each made folder goes on the list."""
    for folder in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        try:
            files.make_folder(folder)
        except FileExistsError:  # another start was faster
            if folder == path:
                raise _taken(path) from None
            continue
        made.append(folder)
        files.sync_folder(folder.parent)


def _write_config(path: Path, text: str, files: Files, lock: Path | None) -> None:
    """Write config.json; when that fails, remove it and `lock`, the file of the lock that is held in a new folder."""
    try:
        replace_with(path, lambda write: write(memoryview(text.encode())), files=files)
    except OSError:
        for left in filter(None, (path, lock)):
            with suppress(OSError):
                files.remove(left)
        raise


def check_free(path: Path) -> None:
    """Raise RunError unless a run may be created at `path`: the name is new, or a folder without a run's files."""
    if path.is_dir():
        if not all(LEFTOVER.fullmatch(file.name) for file in path.iterdir()):
            raise _taken(path)
    elif path.exists():
        raise RunError(f"{path}: found a file, expected a folder or a new name")


def _taken(path: Path) -> RunError:
    return RunError(f"{path}: found an existing run, expected a new name: choose another with --run {free_name(path)}")


def free_name(path: Path) -> Path:
    """`path` itself if nothing has that name, else the first of path-2, path-3, ... that is free."""
    number, candidate = 2, path
    while candidate.exists():
        candidate = path.with_name(f"{path.name}-{number}")
        number += 1
    return candidate
