"""The loss curve of a finished run as a file."""

from pathlib import Path

from andrea_lab.checkpoint.files import replace_with
from andrea_lab.view.lossview import LossView


def save_curve(run_dir, path) -> Path:
    """Draw the loss curve of the run directory `run_dir` to the PNG file `path`, which is returned.

    Raises FileNotFoundError, naming the log that was looked for, where there is none.
    """
    view = LossView(run_dir)
    if not view.log.exists():
        raise FileNotFoundError(f"loss log: found no {view.log.name} in {view.run_dir}, expected a run directory")
    path = Path(path)
    picture = view.snapshot()
    replace_with(path, lambda write: write(memoryview(picture)), size=len(picture))
    return path
