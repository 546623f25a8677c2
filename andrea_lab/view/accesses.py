"""What pictures of kernels need of a recorded trace: its accesses as arrays, and what each costs the memory."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

SECTOR = 32  # bytes of global memory that come at once
BANKS = 32  # shared memory answers one word of each bank in a cycle
ACCESSES = ("read", "write", "atomic")
VERBS = {"read": "reads", "write": "writes", "atomic": "adds to"}


@dataclass(frozen=True)
class Step:
    """One access of one warp: lane `lanes[i]` touches the element `cells[i]` (flat index) of `array`."""

    what: str
    array: str
    line: int
    source: str
    space: str
    owner: int  # number of the trace it comes from
    interval: int  # how many barriers came before it
    lanes: np.ndarray
    cells: np.ndarray

    @property
    def elements(self) -> int:
        """How many different elements are touched."""
        return len(np.unique(self.cells))

    def sectors(self, itemsize: int) -> np.ndarray:
        """The numbers of the 32-byte sectors that hold the elements."""
        return np.unique(self.cells * itemsize // SECTOR)

    def banks(self) -> np.ndarray:
        """How many different words are asked of each bank of shared memory."""
        return np.bincount(np.unique(self.cells) % BANKS, minlength=BANKS)

    def cycles(self) -> int:
        """Cycles of shared memory: the most different words that lie in one bank."""
        return int(self.banks().max())


def named(traces) -> dict[str, list]:
    """The traces of a picture by name: {name: [trace, ...]}; the name of a single one is ''."""
    groups = traces if isinstance(traces, Mapping) else {"": traces}
    return {str(name): list(got) if isinstance(got, list | tuple) else [got] for name, got in groups.items()}


def lanes_of(traces) -> int:
    """How many lanes the largest of the warps has."""
    met = (max((max(e.lanes) for e in trace.events if e.lanes), default=0) + 1 for trace in traces)
    return max(max(met), *(len(getattr(trace, "threads", ())) for trace in traces))


def require_events(who: str, traces: list, name: str = "") -> None:
    """Raise ValueError in one line where there is no trace, or one in which nothing happens."""
    of = f" of {name!r}" if name else ""
    if not traces:
        raise ValueError(f"{who}: found no trace{of}, expected one or more of kernels.trace")
    for trace in traces:
        if not hasattr(trace, "events"):
            raise ValueError(f"{who}: trace{of} is {type(trace).__name__}, expected the result of kernels.trace")
        if not len(trace.events):
            faults = getattr(getattr(trace, "report", None), "faults", ())
            why = f"; the run ended with: {faults[0].message}" if faults else ""
            raise ValueError(f"{who}: the trace{of} holds no event, expected a block and a warp that touch memory{why}")


def arrays_of(trace) -> list[str]:
    """The names of the arrays a trace touches, in the order of their first access."""
    return list(dict.fromkeys(event.array for event in trace.events if event.what in ACCESSES))


def steps(who: str, traces: list, array: str, name: str = "") -> list[Step]:
    """Every access to `array` in the traces, in order, or ValueError naming the arrays there are."""
    require_events(who, traces, name)
    found = [step for owner, trace in enumerate(traces) for step in _of(trace, owner, array)]
    if not found:
        there = dict.fromkeys(known for trace in traces for known in arrays_of(trace))
        of = f" of {name!r}" if name else ""
        raise ValueError(f"{who}: array {array!r} is not in the trace{of}, found {', '.join(there) or 'none'}")
    return found


def _of(trace, owner: int, array: str):
    """The accesses of one trace to one array."""
    interval = 0
    for event in trace.events:
        interval += event.what == "barrier"
        if event.what in ACCESSES and event.array == array and len(event.lanes):
            kind = (event.what, array, event.line, source(trace, event.line), event.space, owner, interval)
            yield Step(*kind, np.array(event.lanes), np.array(event.indices))


def source(trace, line: int) -> str:
    """The text of a line of the traced kernel, or '' where it is unknown."""
    return str(trace.lines.get(line, "")).split("#")[0].strip()


def shortened(text: str, most: int) -> str:
    """The text, cut to `most` characters."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
