"""traffic_bars: what kernels read and write, and what the memory moves for it, against the least possible."""

from collections.abc import Mapping

from matplotlib.ticker import MaxNLocator

from andrea_lab.view.palette import BLUE, GRID, INK, ORANGE, PURPLE
from andrea_lab.view.style import Picture, figure, picture

COUNTED = {
    "global": ("sectors", "best_sectors", "sectors of 32 bytes", "moved"),
    "shared": ("bank_cycles", "best_bank_cycles", "bank cycles", "taken"),
}
ACCESS = {"reads": BLUE, "writes": ORANGE, "atomics": PURPLE}
MOVED, NEEDED = "#b9c4cc", "#3d4f5c"
LINEAR = 2000  # up to this ratio of the largest to the smallest number a linear axis shows both


def traffic_bars(traffics, space: str = "global", words: str | None = None, *, arrays=None) -> Picture:
    """Reads, writes and atomics of kernels side by side, and the sectors (bank cycles) these cost against the ideal.

    traffics: {name: traffic of a report of `kernels.check`}; the reports themselves do too. space: 'global' or
    'shared'. arrays: names of the arrays to count; by default all of that space. The ideal is what the same accesses
    would cost if the lanes of each warp read neighbours (global) or different banks (shared).

    Raises ValueError in one line for another space, no kernel, or an array that is not there.
    """
    if space not in COUNTED:
        raise ValueError(f"traffic_bars: space is {space!r}, expected global or shared")
    if not isinstance(traffics, Mapping) or not traffics:
        what = "no kernel" if isinstance(traffics, Mapping) else type(traffics).__name__
        raise ValueError(f"traffic_bars: found {what}, expected a dict of traffic by the kernel's name")
    totals = {name: _total(name, getattr(t, "traffic", t), space, arrays) for name, t in traffics.items()}
    kinds = [kind for kind in ACCESS if any(total[kind] for total in totals.values())] or ["reads"]
    rows = len(totals)
    fig, (left, right) = figure(1, 2, width=8.4, height=0.75 + rows * (0.16 + 0.2 * max(2, len(kinds))), sharey=True)
    _bars(left, totals, [(kind, ACCESS[kind], 0.8 / len(kinds)) for kind in kinds], "elements, all threads together")
    moved, least, label, done = COUNTED[space]
    _ideal(right, totals, moved, least, label, done)
    left.set_yticks(range(rows), totals)
    left.set_ylim(rows - 0.45, -0.55)
    return picture(fig, words or _sentence(totals, space, moved, least, label))


def _total(name, traffic, space, arrays) -> dict:
    """The sums over the arrays of a space."""
    if not hasattr(traffic, "arrays"):
        raise ValueError(f"traffic_bars: {name!r} is {type(traffic).__name__}, expected the traffic of kernels.check")
    there = {array: t for array, t in traffic.arrays.items() if t.space == space}
    missing = [array for array in arrays or () if array not in there]
    if missing:
        found = ", ".join(there) or "none"
        raise ValueError(f"traffic_bars: array {missing[0]!r} is not among the {space} ones of {name!r}, found {found}")
    counted = [t for array, t in there.items() if arrays is None or array in arrays]
    return {field: sum(getattr(t, field) for t in counted) for field in (*ACCESS, *COUNTED[space][:2])}


def _scale(axes, values):
    """A linear axis where it shows the smallest number too, else a logarithmic one."""
    positive = [v for v in values if v]
    largest = max(positive, default=1)
    axes.grid(axis="x", color=GRID, lw=0.8)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    if positive and largest > LINEAR * min(positive):
        axes.set_xscale("log")
        axes.set_xlim(min(positive) / 3, largest * (largest / min(positive)) ** 0.45)
        return "; logarithmic"
    axes.set_xlim(0, largest * 1.6)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    return ""


def _bars(axes, totals, kinds, label):
    """A bar for each kind of access, its number at the end."""
    remark = _scale(axes, [total[kind] for total in totals.values() for kind, *_ in kinds])
    for n, total in enumerate(totals.values()):
        for k, (kind, colour, thick) in enumerate(kinds):
            y = n + (k - (len(kinds) - 1) / 2) * thick
            axes.barh(y, total[kind], height=thick * 0.9, color=colour, label=kind if n == 0 else None)
            start = total[kind] if total[kind] else axes.get_xlim()[0]
            _number(axes, start, y, f"{total[kind]:,} {kind}")
    axes.set_xlabel(label + remark)


def _ideal(axes, totals, moved, least, label, done):
    """What is moved, in it what is needed."""
    remark = _scale(axes, [total[field] for total in totals.values() for field in (moved, least)])
    for n, total in enumerate(totals.values()):
        axes.barh(n - 0.19, total[moved], height=0.36, color=MOVED)
        axes.barh(n + 0.19, total[least], height=0.36, color=NEEDED)
        times = total[moved] / total[least] if total[least] else 1
        _number(
            axes, total[moved], n - 0.19, f"{total[moved]:,} {done}" + (f", {times:.3g} × ideal" if times > 1 else "")
        )
        _number(axes, total[least], n + 0.19, f"{total[least]:,} ideal")
    axes.set_xlabel(label + remark)


def _number(axes, x, y, text):
    place = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": 8, "color": INK}
    axes.annotate(text, (x, y), **place)


def _sentence(totals, space, moved, least, label) -> str:
    parts = []
    for name, total in totals.items():
        kinds = ", ".join(f"{total[kind]:,} {kind}" for kind in ACCESS if total[kind])
        parts.append(f"{name}, {kinds or 'nothing'} in {total[moved]:,} {label} (ideal {total[least]:,})")
    return f"Traffic of {space} memory: {'; '.join(parts)}."
