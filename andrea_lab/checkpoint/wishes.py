"""What the engine at work on a run can be asked for: the wishes, their signals, their control files.

Who asks and who is asked are in different packages; what they must agree on is here.
"""

from contextlib import suppress
from pathlib import Path

from andrea_lab.checkpoint.files import REAL, Files, replace_with

SIGNALS = {"save": "SIGUSR1", "stop": "SIGTERM", "abort": "SIGINT"}  # an abort is two of them within 2 s
WISHES = tuple(SIGNALS)


def control_folder(run_dir: Path | str) -> Path:
    """The folder of control files of a run directory: a file `save`, `stop` or `abort` in it is a wish."""
    return Path(run_dir) / "control"


def leave_file(run_dir: Path | str, wish: str, files: Files = REAL) -> Path:
    """Leave a control file for the engine's next poll point; returns it. Raises OSError."""
    folder = control_folder(run_dir)
    with suppress(FileExistsError):
        files.make_folder(folder)
    replace_with(folder / wish, lambda write: None, files=files)
    return folder / wish
