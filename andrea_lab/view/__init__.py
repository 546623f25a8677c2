"""Pictures of a run, read from its run directory: the live loss view and the curve as a file."""

from andrea_lab.view.figure import save_curve
from andrea_lab.view.lossview import LossView

__all__ = ["LossView", "save_curve"]
