"""The catalogue of exercises: one file each, named after the exercise's id.

How to write one
----------------
Copy `k_layernorm_fwd.py`. A file holds, in this order:

1. A docstring of one line, the imports, the constants the kernel uses (they travel with the learner's text).
2. The solution, a kernel under `@kernel`, named as the learner's cell names it (`my_...`). What the learner is to write
   stands between two comments, once or several times:

       # yours: the variance, then rstd, about 12 lines
       acc = float32(0.0)
       ...
       # end

   The skeleton is made from it: the first comment stays, the lines up to `# end` become `...`. Print it for the
   notebook's cell with `print(lesson.skeleton("k_layernorm_fwd"))`; the notebook must hold it word for word, and the
   names it uses must be in reach there (imports, constants).
3. `EXERCISE = Exercise(...)` with its statement (word for word in the notebook too), three hints (a nudge, the method,
   nearly the code), the explanation below the folded solution, and the known wrong solutions, each with the reason it
   must get. Most are edits of the solution: `Wrong("missing barrier", edits=(without("cuda.syncthreads()", 2),))`.

The exercise is judged on the cases of a shipped kernel: the one called `id`, or the one `kernel=` names. The
learner's kernel takes the same arguments in the same order. If it is launched otherwise than the shipped one (another
block, say), give `launch=lambda case: (grid, block)`. If no shipped kernel has these arguments, give `cases=`, a
function of a seed that returns a list of `andrea_lab.lesson.cases.Case`.

`mistakes=` is for formulas that deserve their own sentence: a function of the case that gives, in float64, what the
mistaken kernel would compute. The common faults need nothing: they are known to `lesson.check` for every kernel. The
reasons it knows are listed in `andrea_lab/lesson/reasons.py`.

Add the module to MODULES below. `tests/lesson/exercises` then checks that the solution passes, that every wrong
solution is turned down with its reason, that the skeleton is "not attempted", and that the notebook holds what it
should.

In the notebook:

    from andrea_lab import lesson

    (a cell with the skeleton)
    lesson.check("k_layernorm_fwd", my_layernorm_fwd)                 # the verdict, as the cell's last line
    lesson.hint("k_layernorm_fwd", tier=1)
    lesson.solution("k_layernorm_fwd")                                # folded
    k = lesson.go_on_with("k_layernorm_fwd", my_layernorm_fwd)        # the learner's if it passed, else the package's
    lesson.progress(notebook=4)                                       # this notebook's part of the score card
"""

from __future__ import annotations

from andrea_lab.lesson.exercises import (
    attention_window,
    k_adamw,
    k_layernorm_bwd,
    k_layernorm_fwd,
    k_softmax_bwd,
    k_softmax_fwd,
    rms_norm_bwd,
)
from andrea_lab.lesson.parts import Exercise

MODULES = (k_layernorm_fwd, k_layernorm_bwd, rms_norm_bwd, k_softmax_fwd, attention_window, k_softmax_bwd, k_adamw)


class UnknownExerciseError(KeyError):
    """No exercise and no kernel of that name. The message is one line."""

    def __str__(self) -> str:
        return str(self.args[0])


CATALOGUE: dict[str, Exercise] = {
    module.EXERCISE.id: module.EXERCISE for module in sorted(MODULES, key=lambda m: (m.EXERCISE.notebook, m.__name__))
}


def find(name: str) -> Exercise:
    """The exercise of that id. Raises UnknownExerciseError."""
    if name not in CATALOGUE:
        raise UnknownExerciseError(f"exercise: found {name!r}, expected one of {', '.join(CATALOGUE)}")
    return CATALOGUE[name]
