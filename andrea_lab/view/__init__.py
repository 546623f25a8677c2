"""Pictures of runs, read from their run directories: live, as a page, as a still; and pictures of kernels."""

from andrea_lab.view.lossview import LossView

__all__ = ["LossView"]
