"""thread_map: which thread touches which element, drawn from recorded accesses.

The colour of an element is the lane that touches it. What a warp asks of global memory arrives in sectors of 32 bytes;
the part of a sector nobody asked for is drawn grey, so a strided access is a picture of what it wastes.
"""

import math
from collections.abc import Mapping

import numpy as np

from andrea_lab.view.accesses import Step, lanes_of, named, steps
from andrea_lab.view.cells import ramps
from andrea_lab.view.panels import draw_panels
from andrea_lab.view.strips import draw_strips
from andrea_lab.view.style import Picture


def thread_map(
    traces,
    array: str,
    shape=None,
    words: str | None = None,
    *,
    what: str | None = None,
    line: int | str | None = None,
    count: int | None = None,
    whole: bool = True,
    itemsize: int = 4,
) -> Picture:
    """Which lane touches which element of `array`, from what `kernels.trace` recorded.

    traces: one trace; a list of traces (warps or blocks, one colour each); or a dict of either by name, to compare.
    shape: the shape of the array, or a dict of shapes by the same names; by default what the trace recorded. Of an
    array with one axis every access is drawn, from first to last; of another, the first `count` accesses (as many as
    fit, 2 at most) and, unless `whole` is False, all together. what: 'read', 'write' or 'atomic', to see these alone.
    line: a line number or a piece of its text, to see that line alone. itemsize: bytes of an element. words: in place
    of the picture; by default they say what was counted.

    Raises ValueError in one line for an array that is not in the trace, an empty trace, a shape that does not fit.
    """
    if count is not None and count < 0:
        raise ValueError(f"thread_map: count is {count}, expected 0 or more accesses to be shown")
    members = named(traces)
    if not members:
        raise ValueError("thread_map: found no trace, expected one or more of kernels.trace")
    groups = {name: steps("thread_map", of, array, name) for name, of in members.items()}
    shapes = _shapes(shape, members, array)
    for name, found in groups.items():
        top, size = max(int(step.cells.max()) for step in found), math.prod(shapes[name])
        if top >= size:
            raise ValueError(f"thread_map: shape {shapes[name]} has {size} elements, found element {top} of {array}")
        chosen = _chosen(found, array, what, line)
        groups[name] = chosen if whole else _first(chosen, max(1, count or 1))
    axes = {len(shape) for shape in shapes.values()}
    if len(axes) > 1:
        raise ValueError(f"thread_map: shapes {', '.join(map(str, shapes.values()))}, expected as many axes in each")
    every = [trace for of in members.values() for trace in of]
    names = _names(max(members.values(), key=len))
    colours = ramps(len(names), lanes_of(every))
    draw = draw_strips if axes == {1} else draw_panels
    return draw(groups, array, shapes, (names, colours), count, itemsize, words)


def _shapes(shape, groups, array) -> dict[str, tuple]:
    """The shape of the array in each kernel."""
    if shape is None:
        shape = {name: traces[0].shapes[array] for name, traces in groups.items()}
    if isinstance(shape, Mapping) and set(map(str, shape)) != set(groups):
        raise ValueError(f"thread_map: shapes of {', '.join(map(str, shape))}, expected those of {', '.join(groups)}")
    each = {str(name): of for name, of in shape.items()} if isinstance(shape, Mapping) else dict.fromkeys(groups, shape)
    return {name: tuple(int(n) for n in np.atleast_1d(of)) for name, of in each.items()}


def _names(traces) -> list[str]:
    """What the traces are called in the legend: by block, by warp, or by both, as they differ."""
    blocks, warps = ([getattr(trace, field, 0) for trace in traces] for field in ("block", "warp"))
    if len(set(warps)) == 1:
        return [f"block {block}" for block in blocks]
    if len(set(blocks)) == 1:
        return [f"warp {warp}" for warp in warps]
    return [f"block {block}, warp {warp}" for block, warp in zip(blocks, warps, strict=True)]


def _chosen(found: list[Step], array: str, what, line) -> list[Step]:
    """The accesses of one kind and one line, or ValueError naming those there are."""
    kinds = dict.fromkeys(step.what for step in found)
    if what is not None and what not in kinds:
        raise ValueError(f"thread_map: what is {what!r}, found {', '.join(kinds)} of {array}")
    kept = [s for s in found if what in (None, s.what)]
    if line is not None:
        there = dict.fromkeys(f"{s.line} ({s.source})" for s in kept)
        kept = [s for s in kept if (s.line == line if isinstance(line, int) else line in s.source)]
        if not kept:
            raise ValueError(f"thread_map: no access to {array} on line {line!r}, found {', '.join(there)}")
    return kept


def _first(found: list[Step], count: int) -> list[Step]:
    """The first accesses of each kind in each trace."""
    met, kept = {}, []
    for step in found:
        met[step.owner, step.what] = met.get((step.owner, step.what), 0) + 1
        if met[step.owner, step.what] <= count:
            kept.append(step)
    return kept
