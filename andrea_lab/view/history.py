"""What counts of a run's records: one record a step, and the branches that were left when the run went back.

A log is only appended to. When a run goes back to a checkpoint and repeats steps, a record at step s makes void every
earlier record of step s or later: those are another past, and what follows no longer stands on them.
"""

from itertools import chain

import numpy as np

from andrea_lab.run.average import averaged, keep_of
from andrea_lab.view.records import Columns


def standing(steps: np.ndarray) -> np.ndarray:
    """Of records in file order, by their steps: a mask of those that no later record makes void."""
    if not len(steps):
        return np.zeros(0, bool)
    least = np.minimum.accumulate(steps[::-1])[::-1]  # of this record and all later ones
    return np.append(steps[:-1] < least[1:], True)


class History:
    """A run as pictures take it: arrays of one number a step, steps rising. It never changes.

    columns: records in file order, by name. sources: the names that the column "source" counts. span: steps that
    `smoothed` looks back.
    """

    def __init__(self, columns: Columns, sources: list[str], span: int = 20):
        if span < 1:
            raise ValueError(f"smooth: found {span}, expected a number of steps >= 1")
        self.sources, self.span = sources, span
        self._columns = columns
        self._stands = standing(columns["step"])
        self._at = np.flatnonzero(self._stands)
        self._smoothed: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self._at)

    @property
    def void(self) -> int:
        """How many records no longer count."""
        return len(self._stands) - len(self._at)

    def steps(self) -> np.ndarray:
        return self._columns["step"][self._at]

    def values(self, name: str) -> np.ndarray:
        """One column as float64: loss, grad_norm, clip, lr, tokens, ms."""
        return self._columns[name][self._at].astype(np.float64)

    def source_ids(self) -> np.ndarray:
        return self._columns["source"][self._at]

    def smoothed(self, span: int | None = None) -> np.ndarray:
        """The debiased exponential moving average of the loss over `span` steps, its own where none is given.

        Losses that are not finite are passed over.
        """
        span = span or self.span
        if span not in self._smoothed:
            pairs = chain.from_iterable(averaged(self.values("loss").tolist(), keep_of(span)))
            # One number after the other: an array made of a list of pairs keeps other threads, such as a training
            # loop, waiting for half a second over a million steps.
            total, weight = np.fromiter(pairs, np.float64, 2 * len(self)).reshape(-1, 2).T
            self._smoothed[span] = np.divide(total, weight, out=np.full(len(self), np.nan), where=weight > 0)
        return self._smoothed[span]

    def resumes(self) -> np.ndarray:
        """The steps at which a new segment of the run begins, the first segment left out."""
        segments = self._columns["segment"][self._at]
        return self.steps()[1:][np.diff(segments) > 0]

    def rewound(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """(steps, losses) of each branch that was left: records that are void and follow each other, in file order."""
        at = np.flatnonzero(~self._stands)
        if not len(at):
            return []
        steps = self._columns["step"][at]
        cuts = np.flatnonzero((np.diff(at) > 1) | (np.diff(steps) <= 0)) + 1
        losses = self._columns["loss"][at].astype(np.float64)
        return list(zip(np.split(steps, cuts), np.split(losses, cuts), strict=True))
