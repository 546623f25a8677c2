"""The feeds of the runs that somebody looks at now: made when first asked for, dropped when nobody asks any more."""

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from andrea_lab.view.feed import Feed

MOST = 48  # feeds kept; a million records are about 40 MB
IDLE = 60.0  # seconds without a question after which one is dropped
PATIENCE = 0.5  # seconds given to one answer for reading a log that is long


@dataclass
class _Kept:
    feed: Feed
    name: str
    asked: float


class Feeds:
    """Feeds by run id. Safe from threads; `frame` reads files and may take a second, so it is called from a thread.

    Each feed has a name that no other feed of any server has: generations count from one in every feed, so a page that
    sees another name begins anew.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._lock = Lock()
        self._server, self._numbers = f"{os.getpid()}-{time.time_ns():x}", itertools.count()

    def __len__(self) -> int:
        return len(self._kept)

    def frame(self, run_id: str, path: Path, generation: int, first: int) -> tuple[str, bytes]:
        """(name of the feed, frame from record `first`); from the start when `generation` is not the present one."""
        kept = self._get(run_id, path)
        until = self._clock() + PATIENCE
        while kept.feed.read() and self._clock() < until:
            pass
        known = generation == kept.feed.generation and first <= kept.feed.records
        return kept.name, kept.feed.frame(first if known else 0)

    def tidy(self) -> None:
        """Drop the feeds that nobody asked for of late."""
        with self._lock:
            self._drop(IDLE, MOST)

    def _get(self, run_id: str, path: Path) -> _Kept:
        with self._lock:
            kept = self._kept.pop(run_id, None)
            if kept is None:
                self._drop(IDLE, MOST - 1)
                kept = _Kept(Feed(path, name=run_id), f"{self._server}-{next(self._numbers)}", 0.0)
            kept.asked = self._clock()
            self._kept[run_id] = kept  # the last in the dictionary is the one asked for last
            return kept

    def _drop(self, idle: float, most: int) -> None:
        now = self._clock()
        for run_id, kept in list(self._kept.items()):
            if now - kept.asked > idle or len(self._kept) > most:
                del self._kept[run_id]
