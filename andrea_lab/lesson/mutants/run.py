"""Judging many mutants, in processes of their own: one that hangs is stopped, one that crashes takes nobody along.

Neither counts as killed. The check target has a budget of its own for endless loops, and code that could crash does
not get past it: whoever hangs or crashes has come through a hole, or sits on a slow machine.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any

from andrea_lab.lesson.mutants.bank import Mutant
from andrea_lab.lesson.mutants.changes import CLASSES
from andrea_lab.lesson.mutants.equivalents import reason
from andrea_lab.lesson.mutants.judge import Verdict, judge

SECONDS = 600.0  # for one mutant; what takes longer is judged to hang


def run(
    mutants: Iterable[Mutant],
    jobs: int = 2,
    seconds: float = SECONDS,
    on_verdict: Callable[[Mutant, Verdict], None] | None = None,
    work: Callable[[Mutant], Verdict] = judge,
) -> dict[Mutant, Verdict]:
    """The verdict of each, in the order given; on_verdict is told of each as it comes.

    jobs: processes at once. work: what a process does with a mutant, a function that can be sent there.
    """
    left, verdicts = list(mutants)[::-1], {}
    order = left[::-1]
    workers = [_Worker(work) for _ in range(max(1, min(jobs, len(left))))]
    try:
        while len(verdicts) < len(order):
            for worker in workers:
                if worker.mutant is None and left:
                    worker.give(left.pop())
            busy = [w for w in workers if w.mutant is not None]
            wait([w.pipe for w in busy], timeout=1.0)
            for worker in busy:
                mutant, verdict = worker.answer(seconds)
                if verdict is not None:
                    verdicts[mutant] = verdict
                    if on_verdict is not None:
                        on_verdict(mutant, verdict)
    finally:
        for worker in workers:
            worker.end()
    return {mutant: verdicts[mutant] for mutant in order}


class _Worker:
    """A process that judges one mutant at a time, begun again when it is lost."""

    def __init__(self, work: Callable[[Mutant], Verdict]):
        self.work = work
        self.mutant: Mutant | None = None
        self.process: Any = None

    def give(self, mutant: Mutant) -> None:
        if self.process is None:
            main = sys.modules["__main__"]
            if not hasattr(main, "__spec__"):
                main.__spec__ = None  # IPython's stand-in has none, and multiprocessing looks at it
            self.pipe, theirs = multiprocessing.Pipe()
            process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, self.work), daemon=True)
            with _deaf():
                process.start()
            self.process = process
            theirs.close()
        self.mutant, self.since = mutant, time.monotonic()
        self.pipe.send(mutant)

    def answer(self, seconds: float) -> tuple[Mutant | None, Verdict | None]:
        """(the mutant in hand, its verdict or None while there is none)."""
        mutant = self.mutant
        try:
            if self.pipe.poll():
                self.mutant = None
                return mutant, self.pipe.recv()
        except (EOFError, OSError):
            self.end()
            return mutant, Verdict(False, "crash")
        if time.monotonic() - self.since > seconds:
            self.end()
            return mutant, Verdict(False, "time")
        return mutant, None

    def end(self) -> None:
        """Stop the process; the next mutant gets a new one."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
        self.process = self.mutant = None


@contextmanager
def _deaf() -> Iterator[None]:
    """A process begun inside never hears of Ctrl-C, which a terminal sends to all: it is ended by the one that began
    it, without a word of its own."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Any, work: Callable[[Mutant], Verdict]) -> None:
    """The life of a worker: judge until nobody asks any more."""
    import warnings

    warnings.simplefilter("ignore")
    while True:
        try:
            mutant = pipe.recv()
        except EOFError:
            return
        pipe.send(work(mutant))


def tally(verdicts: dict[Mutant, Verdict]) -> dict[str, dict[str, int]]:
    """class -> {total, killed, equivalent}; equivalent counts those on the list that nothing killed."""
    found = {cls: {"total": 0, "killed": 0, "equivalent": 0} for cls in CLASSES}
    for mutant, verdict in verdicts.items():
        row = found[mutant.cls]
        row["total"] += 1
        row["killed"] += verdict.killed
        row["equivalent"] += not verdict.killed and reason(mutant) is not None
    return found
