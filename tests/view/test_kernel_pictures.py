"""Pictures of kernels: they count right, say what they show, come out the same twice, and answer bad input."""

import io
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image

from andrea_lab.view.kernel_pictures import thread_map, timeline, traffic_bars

MOST_BYTES = 25_000


@dataclass(frozen=True)
class Event:
    time: int
    line: int
    what: str
    array: str
    lanes: tuple
    indices: tuple
    space: str = "global"


@dataclass(frozen=True)
class Trace:
    events: tuple
    lines: dict
    threads: tuple = tuple(range(32))


@dataclass(frozen=True)
class ArrayTraffic:
    space: str
    reads: int = 0
    writes: int = 0
    atomics: int = 0
    sectors: int = 0
    best_sectors: int = 0
    bank_cycles: int = 0
    best_bank_cycles: int = 0


@dataclass(frozen=True)
class Traffic:
    arrays: dict


LANES = tuple(range(32))


def trace_of(*events, lines=None):
    """A trace of (line, what, array, lanes, indices, space) in order."""
    made = tuple(Event(time, *event) for time, event in enumerate(events))
    return Trace(made, lines or {event.line: f"line {event.line} of the kernel" for event in made})


def down(columns=64):
    """Each lane reads its own row: the accesses lie a row apart."""
    return trace_of(*((5, "read", "inp", LANES, tuple(lane * 64 + j for lane in LANES)) for j in range(columns)))


def along(row=0):
    """The lanes read neighbours of one row."""
    cells = [tuple(row * 64 + start + lane for lane in LANES) for start in (0, 32)]
    return trace_of(*((7, "read", "inp", LANES, at) for at in cells))


def tree():
    """The sum of 32 numbers in shared memory."""
    events = [(9, "write", "sums", LANES, LANES, "shared"), (10, "barrier", "", LANES, (), "")]
    half = 16
    while half:
        low = tuple(range(half))
        events.append((14, "read", "sums", low, low, "shared"))
        events.append((14, "read", "sums", low, tuple(n + half for n in low), "shared"))
        events.append((14, "write", "sums", low, low, "shared"))
        events.append((15, "barrier", "", LANES, (), ""))
        half //= 2
    return trace_of(*events)


def pixels(shown):
    """The colours of a picture's pixels, (height, width, 3)."""
    return np.array(Image.open(io.BytesIO(shown.png)).convert("RGB")).astype(int)


def share_of(shown, colour, reach=12):
    """How many pixels have about this colour."""
    return int((abs(pixels(shown) - colour).max(-1) <= reach).sum())


def test_a_strided_read_is_told_from_a_coalesced_one():
    shown = thread_map({"down": down(), "along": along()}, "inp", (32, 64))
    assert "down, first read: 32 elements, 32 sectors, 12.5 % used" in repr(shown)
    assert "along, first read: 32 elements, 4 sectors, 100 % used" in repr(shown)
    grey = (198, 198, 198)
    assert share_of(thread_map(down(), "inp", (32, 64)), grey) > 4000
    assert share_of(thread_map(along(), "inp", (32, 64)), grey) < 200


@pytest.mark.parametrize("pad, cycles", [(0, 32), (1, 1)])
def test_bank_conflicts_are_counted(pad, cycles):
    column = trace_of((3, "read", "tile", LANES, tuple(n * (32 + pad) for n in LANES), "shared"))
    assert f"32 elements, {cycles} bank cycle" in repr(thread_map(column, "tile", (32, 32 + pad)))
