"""What the commands share: tables, sizes, JSON, and the value types of their options."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

# Square brackets are themselves: a run may be called a[b].
out = Console(highlight=False, markup=False, soft_wrap=True)


class Target(StrEnum):
    """Where kernels run."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


def choose(target: Target | None) -> None:
    """Make a target the one in use; None leaves ANDREA_TARGET or the default. Raises KernelError."""
    from kernels.target import use

    if target is not None:
        use(str(target))


def as_json(value: Any) -> None:
    """Print a value as JSON, the form for scripts."""
    print(json.dumps(value, indent=2, allow_nan=False))


def check_figure(path: Path | None) -> None:
    """Raise ConfigError where no picture could be written, before any work is done for it; None is no picture."""
    if path is not None:
        check_file("--figure", path, ".png")


def check_file(option: str, path: Path, ending: str) -> None:
    """Raise ConfigError where no file of this ending could be written, before any work is done for it."""
    from andrea_lab.model.config import ConfigError

    if path.suffix.lower() != ending or not path.parent.is_dir():
        expected = f"a name ending in {ending} in a folder that is there"
        raise ConfigError(f"{option}: found {str(path)!r}, expected {expected}")
    if path.is_dir():
        raise ConfigError(f"{option}: found the folder {str(path)!r}, expected the name of a file")


def table(title: str, *columns: str) -> Table:
    """An empty table; a column whose name begins with > is flushed right."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        right = column.startswith(">")
        made.add_column(column.removeprefix(">"), justify="right" if right else "left", overflow="fold")
    return made


def sizes(nbytes: int) -> tuple[str, str]:
    """A number of bytes in MB (10^6) and in MiB (2^20)."""
    return f"{nbytes / 10**6:,.2f}", f"{nbytes / 2**20:,.2f}"


def printable(text: str) -> str:
    """Text that cannot steer a terminal: control characters but newline and tab become U+FFFD."""
    return "".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text)
