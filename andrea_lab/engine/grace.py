"""Whether a step in progress can still be finished and saved before the grace that follows a stop is over."""

from collections.abc import Sequence
from math import ceil
from time import monotonic

LAST = 64  # steps that the estimate looks back
SLOW_DISK = 100e6  # bytes a second, to guess a save before the first was measured


class Grace:
    """Follows how long steps take. seconds: the grace, None for as much as is needed. nbytes: of a weight file.

    Weights change at the end of a step alone, so a step that does not fit can be dropped: the state of the last one
    is saved at once, and a resume repeats what was dropped, bit for bit.
    """

    def __init__(self, seconds: float | None, nbytes: int):
        self.seconds, self._nbytes = seconds, nbytes
        self._steps, self._count = [0.0] * LAST, 0

    def note(self, seconds: float) -> None:
        """A whole step took so long. Keeps the last 64; allocates nothing that stays."""
        self._steps[self._count % LAST] = seconds
        self._count += 1

    def over(
        self, since: float, elapsed: float, share: float, saves: Sequence[float] = (), pending: bool = False
    ) -> bool:
        """Whether to drop the step: the rest of it and a save would end later than `seconds` after the stop.

        since: when the stop came, of time.monotonic. elapsed: seconds the step has taken; share: how much of it that
        was, 0 to 1, which tells its length before any step was measured. saves: seconds that saves took; pending: one
        is under way, which has to end before the next begins.
        """
        if self.seconds is None:
            return False
        if self._count:
            step = p95(self._steps[: self._count])
        elif share > 0:
            step = elapsed / share
        else:
            return True  # nothing is known and nothing is lost
        save = p95(saves) if saves else self._nbytes / SLOW_DISK
        left = max(0.0, step - elapsed) + (2 * save if pending else save)
        return monotonic() - since + left > self.seconds


def p95(values: Sequence[float]) -> float:
    """The value that 95 in 100 do not exceed."""
    return sorted(values)[ceil(0.95 * len(values)) - 1]
