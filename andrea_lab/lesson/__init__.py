"""What the notebooks share: comparisons of one line, exercises that judge and never block, figures in one style, runs.

    from andrea_lab import lesson

    lesson.check("k_layernorm_fwd", my_layernorm_fwd)     a kernel's verdict
    lesson.hint, lesson.solution, lesson.skeleton         what stands beside an exercise
    lesson.go_on_with("k_layernorm_fwd", mine)            the learner's kernel if it passed, else the package's
    lesson.progress(notebook=4)                           the score card
    lesson.agree("out", found, expected, tol=1e-5)        one line, or an exception

What needs every kernel, or a drawing library, is loaded when it is first asked for.
"""

from andrea_lab.lesson.checks import CheckFailed, agree, exercise, relative_error
from andrea_lab.lesson.texts import fresh_run, readable

_FIGURES = ("BLUE", "GREEN", "INK", "ORANGE", "PURPLE", "RED", "SKY", "figure", "picture")
_EXERCISES = ("Result", "Solution", "check", "go_on_with", "hint", "ours", "progress", "skeleton", "solution", "start")

__all__ = ["CheckFailed", "agree", "exercise", "fresh_run", "readable", "relative_error", *_FIGURES, *_EXERCISES]


def __getattr__(name: str):
    if name in _FIGURES:
        from andrea_lab.lesson import figures

        return getattr(figures, name)
    if name in _EXERCISES:
        from andrea_lab.lesson import aids

        return getattr(aids, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_FIGURES, *_EXERCISES])
