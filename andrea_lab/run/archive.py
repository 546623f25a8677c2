"""What a change of policy puts away: the samples and the chooser's state. The loss log is never put away."""

import re
from contextlib import suppress
from pathlib import Path

from andrea_lab.checkpoint.files import REAL, Files
from andrea_lab.run.directory import RunDirectory, RunError

KINDS = ("samples", "state")  # the only files that can be archived; the loss log is the run's whole history
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def archive(run: RunDirectory, label: str, files: Files = REAL) -> list[Path]:
    """Move samples and state to `archive/NAME.<kind>.<label>.json`; returns where they are.

    Each moves in one rename, so a crash in between loses nothing: the same call again completes it, and once more does
    nothing. Raises RunError, before anything moves, when the label belongs to an earlier archive; OSError.
    """
    if not LABEL.fullmatch(label):
        raise RunError(f"label: found {label!r}, expected letters, digits, dots, dashes, underscores")
    moves = [(getattr(run, kind), run.archive / f"{run.name}.{kind}.{label}.json") for kind in KINDS]
    for old, new in moves:
        if old.exists() and new.exists():
            raise RunError(f"{new}: found an earlier archive of this name, expected a new label")
    if any(old.exists() for old, _ in moves):
        with suppress(FileExistsError):
            files.make_folder(run.archive)
        for old, new in moves:
            if old.exists():
                files.rename(old, new)
        files.sync_folder(run.archive)
        files.sync_folder(run.path)
    return [new for _, new in moves if new.exists()]
