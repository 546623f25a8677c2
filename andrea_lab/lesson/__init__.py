"""What the notebooks share: checks of one line, exercises that never block, figures in one style, fresh runs."""

from andrea_lab.lesson.checks import CheckFailed, agree, exercise, relative_error
from andrea_lab.lesson.figures import BLUE, GREEN, INK, ORANGE, PURPLE, RED, SKY, figure, picture
from andrea_lab.lesson.texts import fresh_run, readable

__all__ = [
    "BLUE",
    "GREEN",
    "INK",
    "ORANGE",
    "PURPLE",
    "RED",
    "SKY",
    "CheckFailed",
    "agree",
    "exercise",
    "figure",
    "fresh_run",
    "picture",
    "readable",
    "relative_error",
]
