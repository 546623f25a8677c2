"""What the notebooks share: comparisons of one line, exercises that judge and never block, figures in one style, runs.

from andrea_lab import lesson

lesson.check("k_layernorm_fwd", my_layernorm_fwd)     a kernel's verdict
lesson.hint, lesson.solution, lesson.skeleton         what stands beside an exercise
lesson.go_on_with("k_layernorm_fwd", mine)            the learner's kernel if it passed, else the package's
lesson.progress(notebook=4)                           the score card
lesson.agree("out", found, expected, tol=1e-5)        one line, or an exception
"""

from andrea_lab.lesson.aids import Solution, go_on_with, hint, ours, skeleton, solution, start
from andrea_lab.lesson.checks import CheckFailed, agree, exercise, relative_error
from andrea_lab.lesson.figures import BLUE, GREEN, INK, ORANGE, PURPLE, RED, SKY, figure, picture
from andrea_lab.lesson.judge import Result, check
from andrea_lab.lesson.scorecard import progress
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
    "Result",
    "Solution",
    "agree",
    "check",
    "exercise",
    "figure",
    "fresh_run",
    "go_on_with",
    "hint",
    "ours",
    "picture",
    "progress",
    "readable",
    "relative_error",
    "skeleton",
    "solution",
    "start",
]
