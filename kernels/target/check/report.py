"""What a check found, as data and as text: the same text in every process, three lines a fault."""

from .places import plural, short, where

WORDS = {
    "unsupported": "unsupported",
    "error": "error",
    "limits": "limits",
    "barrier": "barrier",
    "endless": "endless",
    "out_of_bounds": "out of bounds",
    "unset": "unset",
    "lost_update": "lost update",
    "race": "race",
    "same_value": "same value",
}
NOUN = {"out_of_bounds": "access", "unset": "read", "barrier": "block"}
MOST_FAULTS = 12


class Report:
    """The result of a check.

    ok: no fault at all. faults: every Fault, the gravest first. races, lost_updates, out_of_bounds,
    divergent_barriers, unset_reads, limits, endless, same_value: those of one kind (races holds lost updates and writes
    of one value too). orders: what other orders gave, an Orders. float64: (line, name) where float64 crept in. traffic:
    counts of accesses. completed: every thread came to its end, so the arguments hold the result.
    """

    def __init__(self, name, grid, block, faults=(), orders=None, float64=(), traffic=None, completed=False, note=""):
        self.name, self.grid, self.block, self.completed, self.note = name, grid, block, completed, note
        self.faults = tuple(sorted(faults, key=lambda f: f.order()))
        self.orders, self.float64_places, self.traffic = orders, tuple(float64), traffic

    @property
    def ok(self):
        return not self.faults

    @property
    def float64(self):
        return tuple((line, name) for _, line, name in self.float64_places)

    def first(self):
        """The gravest fault in one line."""
        return one_line(self.faults[0], self.grid) if self.faults else "no fault"

    def of(self, *kinds):
        return tuple(f for f in self.faults if f.kind in kinds)

    races = property(lambda self: self.of("race", "lost_update", "same_value"))
    lost_updates = property(lambda self: self.of("lost_update"))
    same_value = property(lambda self: self.of("same_value"))
    out_of_bounds = property(lambda self: self.of("out_of_bounds"))
    divergent_barriers = property(lambda self: self.of("barrier"))
    unset_reads = property(lambda self: self.of("unset"))
    limits = property(lambda self: self.of("limits"))
    endless = property(lambda self: self.of("endless"))
    unsupported = property(lambda self: self.of("unsupported"))
    errors = property(lambda self: self.of("error"))

    def __repr__(self):
        found = plural(len(self.faults), "fault") if self.faults else "no fault"
        lines = [f"check {self.name}, grid {_size(self.grid)}, block {_size(self.block)}: {found}"]
        for fault in self.faults[:MOST_FAULTS]:
            lines += told(fault, self.grid)
        if len(self.faults) > MOST_FAULTS:
            lines.append(f"... and {plural(len(self.faults) - MOST_FAULTS, 'fault')} more")
        lines += self._float64() + self._orders() + self._traffic()
        if self.note:
            lines.append(f"note    {self.note}")
        return "\n".join(lines)

    def _float64(self):
        words = "is float64; a literal is, unless it is typed: float32(0.5)"
        return [f"float64 {where(file, line)}: {name} {words}" for file, line, name in self.float64_places]

    def _orders(self):
        o = self.orders
        if o is None or (not o.ran and not o.note):
            return []
        if not o.ran:
            return [f"orders  {o.note}"]
        tried = f"{plural(o.ran + 1, 'order')} of the threads"
        if not o.differs:
            text = f"{tried} give the same bits"
        elif o.rounding_only:
            text = f"{tried} differ in {o.array} by the rounding of additions alone"
        else:
            index = ", ".join(map(str, o.index))
            a, b = (_number(v) for v in o.values)
            text = f"the result depends on the order: {o.array}[{index}] is {a} or {b} "
            text += f"({o.count:,} of {o.size:,} elements differ)"
        return [f"orders  {text}" + (f"; {o.note}" if o.note else "")]

    def _traffic(self):
        if self.traffic is None:
            return []
        lines = []
        for space in ("global", "shared"):
            for name, a in self.traffic.arrays.items():
                if a.space != space:
                    continue
                text = f"{space:<7} {name}: {plural(a.reads, 'read')}, {plural(a.writes, 'write')}"
                text += f", {plural(a.atomics, 'atomic')}" if a.atomics else ""
                if space == "global":
                    text += f"; {plural(a.sectors, 'sector')}, best {a.best_sectors:,}"
                else:
                    text += f"; {plural(a.bank_cycles, 'bank cycle')}, best {a.best_bank_cycles:,}"
                lines.append(text)
        return lines


def _size(shape):
    axes = 3 if shape[2] > 1 else 2 if shape[1] > 1 else 1
    return str(shape[0]) if axes == 1 else f"({', '.join(map(str, shape[:axes]))})"


def _number(v):
    return f"{v:.3g}" if isinstance(v, float) else str(v)


def told(fault, grid):
    """The three lines of a fault."""
    place = f"block {short(fault.block, grid)}: " if fault.block is not None else ""
    count = ""
    if fault.count > 1 and fault.kind not in ("limits", "endless"):
        noun = NOUN.get(fault.kind, "place")
        words = plural(fault.count, noun) if noun != "access" else f"{fault.count:,} accesses"
        count = f" [{words}]"
    return [
        f"{WORDS[fault.kind]}  {where(fault.file, fault.line)}: {fault.source}",
        f"    {place}{fault.message}{count}",
        f"    -> {fault.hint}",
    ]


def one_line(fault, grid):
    place = f"block {short(fault.block, grid)}: " if fault.block is not None else ""
    return f"{WORDS[fault.kind]} at {where(fault.file, fault.line)}: {place}{fault.message}"
