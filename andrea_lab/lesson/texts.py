"""Small things around a lesson's run: a folder that is always new, and text that is safe to print."""

import textwrap
from pathlib import Path

from andrea_lab.checkpoint.files import REAL, make_folders
from andrea_lab.paths import runs_dir


def fresh_run(name: str) -> Path:
    """A run directory called `name` that does not exist yet, in a new folder of its own under the runs' folder.

    Run a notebook twice and there are two runs; the log and whatever else is named after the run keep their names.
    """
    number = 1
    make_folders(runs_dir())
    while True:
        parent = runs_dir() / f"lesson-{number:03d}"
        try:
            REAL.make_folder(parent)
        except FileExistsError:
            number += 1
        else:
            return parent / name


def readable(text: str, width: int = 92) -> str:
    """`text` in lines of at most `width` characters, a / for a line end; what is not visible ASCII shows as a dot."""
    shown = "".join(c if " " <= c <= "~" else "·" for c in text.replace("\n", " / "))
    return "\n".join(textwrap.wrap(shown, width, replace_whitespace=False, break_on_hyphens=False))
