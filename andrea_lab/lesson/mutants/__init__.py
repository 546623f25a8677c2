"""The mutant bank: every shipped kernel with one thing wrong, to see that what judges a learner's kernel sees it.

bank()                        every mutant of every kernel and of every device function
judge(mutant)                 does anything that a learner's kernel meets tell it from a right kernel?
run(mutants, jobs=2)          the verdicts, judged in processes of their own with a time limit
"""

from andrea_lab.lesson.mutants.bank import Mutant, bank, sample, subjects
from andrea_lab.lesson.mutants.changes import CLASSES
from andrea_lab.lesson.mutants.equivalents import EQUIVALENTS, NEVER, reason
from andrea_lab.lesson.mutants.judge import Verdict, judge, prove
from andrea_lab.lesson.mutants.run import run, tally

__all__ = [
    "CLASSES",
    "EQUIVALENTS",
    "NEVER",
    "Mutant",
    "Verdict",
    "bank",
    "judge",
    "prove",
    "reason",
    "run",
    "sample",
    "subjects",
    "tally",
]
