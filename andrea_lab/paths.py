"""Where the laboratory's texts, configurations and runs are. Nothing else looks for them.

The packages are used from a checkout: `data/` and `runs/` stand beside `andrea_lab/`, also after an editable install.
`ANDREA_DATA` and `ANDREA_RUNS` name other places. How far a learner has come is kept in the user's own data folder,
outside the checkout; `ANDREA_PROGRESS` names another one.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class PathError(FileNotFoundError):
    """A folder the laboratory needs is not where it was looked for. The message is one line."""

    def __str__(self) -> str:
        return str(self.args[0])


def data_dir() -> Path:
    """Return the folder that holds `sources/` and `experiments/`. Raises PathError."""
    named = os.environ.get("ANDREA_DATA")
    if named:
        path = Path(named).expanduser().resolve()
        if not path.is_dir():
            raise PathError(f"ANDREA_DATA: expected a folder, found {_what(path)}: {path}")
        return path
    path = ROOT / "data"
    if not path.is_dir():
        raise PathError(
            f"data: expected the folder {path}, found {_what(path)}; "
            "work from a checkout, install it with `pip install -e .`, or set ANDREA_DATA"
        )
    return path


def sources_dir() -> Path:
    """Return the folder of the vendored texts. Raises PathError."""
    return _inside_data("sources")


def experiments_dir() -> Path:
    """Return the folder of the experiment configurations. Raises PathError."""
    return _inside_data("experiments")


def runs_dir() -> Path:
    """Return the folder under which runs are kept; it may not exist yet, and is not made here. Raises PathError."""
    named = os.environ.get("ANDREA_RUNS")
    path = Path(named).expanduser().resolve() if named else ROOT / "runs"
    if path.exists() and not path.is_dir():
        raise PathError(f"{'ANDREA_RUNS' if named else 'runs'}: expected a folder, found {_what(path)}: {path}")
    return path


def progress_dir() -> Path:
    """Return the folder of the score card; it may not exist yet, and is not made here."""
    named = os.environ.get("ANDREA_PROGRESS")
    if named:
        return Path(named).expanduser().resolve()
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "andrea-lab" / "progress"


def _inside_data(name: str) -> Path:
    path = data_dir() / name
    if not path.is_dir():
        raise PathError(f"data: expected the folder {path}, found {_what(path)}")
    return path


def _what(path: Path) -> str:
    return "a file" if path.is_file() else "no such folder" if not path.exists() else "something else"
