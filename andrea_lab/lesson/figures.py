"""Figures of the notebooks, in the style of all pictures of the lab."""

from andrea_lab.view.palette import BLUE, GREEN, INK, ORANGE, PURPLE, RED, SKY
from andrea_lab.view.style import Picture, figure, picture

__all__ = ["BLUE", "GREEN", "INK", "ORANGE", "PURPLE", "RED", "SKY", "Picture", "figure", "picture"]
