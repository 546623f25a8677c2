"""The loss curve of a finished run as a file."""

from pathlib import Path

from andrea_lab.view.lossview import LossView


def save_curve(run_dir, path) -> Path:
    """Draw the loss curve of the run directory `run_dir` to the PNG file `path`, which is returned.

    Raises FileNotFoundError, naming the log that was looked for, where there is none.
    """
    return LossView(run_dir).save(path)
