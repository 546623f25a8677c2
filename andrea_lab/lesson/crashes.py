"""The crash explorer: every state in which a crash may leave a folder, and what a loader then makes of it.

A `Recorder` stands where the file system's seam stands and writes down what a protocol does. `explore` then stops the
protocol after each operation and makes every state that three models of a crash allow:

- KILL: the process dies. What it has done stays done; the write it was at may be cut short.
- ORDERED: the power fails. Bytes that were not synced are there, gone, torn or zero; of the names that were not
  synced, the first few were changed and the rest were not (a journal written in order).
- UNORDERED: as ORDERED, but of the names that were not synced any were changed and any were not.

A synced file keeps its bytes and a synced folder its names; syncing a file does nothing for its name. The states are
laid out as real files, and a judge says what survives.
"""

import os
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, combinations, product
from pathlib import Path

from andrea_lab.checkpoint.files import REAL, TEMP, Files, write_all

KILL, ORDERED, UNORDERED = MODELS = ("kill", "power, in order", "power, any order")
NEW, OLD, NOTHING, DAMAGED = OUTCOMES = ("new", "old", "nothing", "damaged")  # from best to worst
MEMORY = "/dev/shm"

Names = dict[str, int]  # what each name stands for: the number of a file
State = tuple[tuple[str, bytes], ...]  # (name, bytes) of every file, in order of name


@dataclass(frozen=True)
class Op:
    """One operation that was completed, on the file of this number and name."""

    kind: str
    file: int = 0
    name: str = ""
    new: str = ""
    data: bytes = b""
    size: int = 0

    def __str__(self) -> str:
        names = [short(name) for name in (self.name, self.new) if name]
        return " ".join([self.kind, " -> ".join(names), *([f"{len(self.data)} B"] if self.data else [])]).strip()


@dataclass(frozen=True)
class Log:
    """What a protocol found in its folder, and what it did there, in order."""

    before: dict[str, bytes]
    ops: tuple[Op, ...]


@dataclass(frozen=True)
class Crash:
    """One legal state after the first `point` operations, and what a judge says survives in it."""

    model: str
    point: int
    state: State
    outcome: str


@dataclass(frozen=True)
class Explored:
    """What became of a protocol: its operations and every state a crash may leave. Prints as a table.

    Point k is a crash after the first k operations; the last one comes after the protocol has said that all is well.
    """

    log: Log
    crashes: tuple[Crash, ...]

    def at(self, model: str, point: int) -> list[Crash]:
        """The states of one model at one point."""
        return [crash for crash in self.crashes if (crash.model, crash.point) == (model, point)]

    def worst(self, model: str, point: int) -> str:
        """The worst outcome of one model at one point."""
        return max((crash.outcome for crash in self.at(model, point)), key=OUTCOMES.index)

    def lost(self) -> int:
        """States from which neither the old nor the new checkpoint loads, all models together."""
        return sum(crash.outcome not in (OLD, NEW) for crash in self.crashes)

    def broken_promises(self) -> int:
        """States after a success that was announced, in which the new checkpoint does not load."""
        return sum(crash.outcome != NEW for crash in self.crashes if crash.point == len(self.log.ops))

    def show(self, model: str, point: int) -> str:
        """One crash as text: the operations that were done, then each state it may leave and what survives in it."""
        done = [f"done: {op}" for op in self.log.ops[:point]]
        states = {
            f"{crash.outcome:<9}" + ", ".join(f"{short(name)} {self._kind(data)}" for name, data in crash.state)
            for crash in self.at(model, point)
        }
        return "\n".join([*done, f"crash: {model}", *sorted(states)])

    def __repr__(self) -> str:
        lines = []
        for model in dict.fromkeys(crash.model for crash in self.crashes):
            mine = [crash for crash in self.crashes if crash.model == model]
            during, after = (
                [c.outcome for c in mine if (c.point == len(self.log.ops)) == end] for end in (False, True)
            )
            lines.append(f"{model:<18}{_counted(during):<40}after success: {_counted(after)}")
        return "\n".join(lines)

    def _kind(self, data: bytes) -> str:
        """How a file's bytes differ from the ones that were meant."""
        disk = _after(self.log, len(self.log.ops))
        meant = {disk.last(op.file) for op in self.log.ops if op.kind == "write"}
        if data in meant:
            return "new"
        if data in self.log.before.values():
            return "old"
        if not data:
            return "empty"
        return "cut short" if any(whole.startswith(data) for whole in meant) else "with zeros"


def _counted(outcomes: Iterable[str]) -> str:
    found = Counter(outcomes)
    return ", ".join(f"{found[outcome]} {outcome}" for outcome in OUTCOMES if found[outcome])


class Recorder(Files):
    """The real file system, with a log of every change made in one folder that holds no folders."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.before = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        self.ops: list[Op] = []
        self._files = _numbers(self.before)
        self._count = len(self._files)
        self._open: dict[int, tuple[int, str]] = {}
        self._lock = threading.Lock()

    @property
    def log(self) -> Log:
        return Log(self.before, tuple(self.ops))

    def create(self, path: Path) -> int:
        name = self._name(path)
        fd = super().create(path)
        with self._lock:
            self._count += 1
            self._files[name] = self._count
            self._open[fd] = self._count, name
            self.ops.append(Op("create", self._count, name))
        return fd

    def append(self, path: Path) -> int:
        if not path.exists():
            return self.create(path)
        name = self._name(path)
        fd = super().append(path)
        with self._lock:
            self._open[fd] = self._files[name], name
        return fd

    def write(self, fd: int, data: memoryview) -> int:
        done = super().write(fd, data)
        with self._lock:
            self.ops.append(Op("write", *self._open[fd], data=bytes(memoryview(data).cast("B")[:done])))
        return done

    def sync(self, fd: int) -> None:
        super().sync(fd)
        with self._lock:
            self.ops.append(Op("sync", *self._open[fd]))

    def datasync(self, fd: int) -> None:
        super().datasync(fd)
        with self._lock:
            self.ops.append(Op("sync", *self._open[fd]))

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        with self._lock:
            self.ops.append(Op("truncate", *self._open[fd], size=size))

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        with self._lock:
            file = self._files.pop(self._name(old))
            self._files[self._name(new)] = file
            self.ops.append(Op("rename", file, self._name(old), self._name(new)))

    def remove(self, path: Path) -> None:
        super().remove(path)
        with self._lock:
            self.ops.append(Op("remove", self._files.pop(self._name(path)), self._name(path)))

    def make_folder(self, path: Path) -> None:
        raise ValueError(f"found a new folder {path}, expected files alone: the explorer knows one folder")

    def remove_folder(self, path: Path) -> None:
        raise ValueError(f"found a removal of folder {path}, expected files alone: the explorer knows one folder")

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        if path != self.folder:
            raise ValueError(f"found a sync of {path}, expected one of {self.folder}: the explorer knows one folder")
        with self._lock:
            self.ops.append(Op("sync folder"))

    def _name(self, path: Path) -> str:
        if path.parent != self.folder:
            raise ValueError(f"{path}: found another folder, expected {self.folder}: the explorer knows one folder")
        return path.name


def short(name: str) -> str:
    """A file's name without what differs from run to run: the numbers in the name of a temporary neighbour."""
    return TEMP.sub(r".\1.tmp", name)


def record(folder: Path, protocol: Callable[[Files], object]) -> Log:
    """Run a protocol, a function of the seam that works in `folder`, and return what it did. Its errors go on."""
    files = Recorder(folder)
    protocol(files)
    return files.log


# ---------------------------------------------------------------- states


@dataclass
class _Disk:
    """After some operations: names surely changed, changes still on their way, and each file's bytes.

    sure: the bytes at the last sync of a file. later: what they were after each change since, oldest first.
    """

    names: Names
    pending: list[Op] = field(default_factory=list)
    sure: dict[int, bytes] = field(default_factory=dict)
    later: dict[int, list[bytes]] = field(default_factory=dict)

    def last(self, file: int) -> bytes:
        """The bytes as the running system sees them."""
        return (self.later.get(file) or [self.sure.get(file, b"")])[-1]

    def maybe(self, file: int) -> set[bytes]:
        """Every content that may be on the disk: as synced, as after any change since, torn, or with zeros in it."""
        sure, last = self.sure.get(file, b""), self.last(file)
        found = {sure, *self.later.get(file, [])}
        if found != {last}:
            kept = len(sure) if last.startswith(sure) else 0
            half = (kept + len(last)) // 2
            found |= {last[:half], last[:half].ljust(len(last), b"\0"), last[:kept].ljust(len(last), b"\0")}
        return found


def states(log: Log, model: str, point: int) -> set[State]:
    """Every state in which a crash of this model may leave the folder after the first `point` operations."""
    disk = _after(log, point)
    if model == KILL:
        names = _changed(disk.names, disk.pending)
        cut = _cut_short(disk, log.ops[point]) if point < len(log.ops) else []
        return {_state(names, {file: disk.last(file) for file in names.values()} | part) for part in ({}, *cut)}
    found = set()
    for chosen in _prefixes(disk.pending) if model == ORDERED else _subsets(disk.pending):
        names = _changed(disk.names, chosen)
        files = sorted(names.values())
        for contents in product(*(disk.maybe(file) for file in files)):
            found.add(_state(names, dict(zip(files, contents, strict=True))))
    return found


def explore(log: Log, judge: Callable[[Path], str], models: Iterable[str] = MODELS) -> Explored:
    """Lay out every state after every operation and ask the judge about each.

    The judge is given a folder of its own and may change it; each distinct state is shown to it once.
    """
    verdicts: dict[State, str] = {}
    crashes = []
    with scratch() as top:
        for model in models:
            for point in range(len(log.ops) + 1):
                for state in sorted(states(log, model, point), key=repr):
                    if state not in verdicts:
                        folder = top / f"{len(verdicts)}"
                        lay_out(state, folder)
                        verdicts[state] = judge(folder)
                    crashes.append(Crash(model, point, state, verdicts[state]))
    return Explored(log, tuple(crashes))


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for a while; in memory where the system has such a place, for states are many and soon gone."""
    with tempfile.TemporaryDirectory(prefix="andrea-crash-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as top:
        yield Path(top)


def lay_out(state: State, folder: Path) -> None:
    """Make a folder that holds the files of a state."""
    REAL.make_folder(folder)
    for name, data in state:
        fd = REAL.create(folder / name)
        try:
            write_all(REAL, fd, memoryview(data))
        finally:
            REAL.close(fd)


def _numbers(before: Iterable[str]) -> Names:
    return {name: number for number, name in enumerate(before, 1)}


def _after(log: Log, point: int) -> _Disk:
    """The disk after the first `point` operations."""
    names = _numbers(log.before)
    disk = _Disk(dict(names), sure={number: log.before[name] for name, number in names.items()})
    for op in log.ops[:point]:
        if op.kind == "write":
            disk.later.setdefault(op.file, []).append(disk.last(op.file) + op.data)
        elif op.kind == "truncate":
            disk.later.setdefault(op.file, []).append(disk.last(op.file)[: op.size].ljust(op.size, b"\0"))
        elif op.kind == "sync":
            disk.sure[op.file] = disk.last(op.file)
            disk.later.pop(op.file, None)
        elif op.kind == "sync folder":
            disk.names = _changed(disk.names, disk.pending)
            disk.pending = []
        else:
            disk.pending.append(op)
    return disk


def _changed(names: Names, ops: Iterable[Op]) -> Names:
    """The names after these changes, those left out being left out."""
    names = dict(names)
    for op in ops:
        if op.kind in ("rename", "remove") and names.get(op.name) == op.file:
            del names[op.name]
        if op.kind != "remove":
            names[op.new or op.name] = op.file
    return names


def _cut_short(disk: _Disk, op: Op) -> Iterator[dict[int, bytes]]:
    """The file of a write that was cut in the middle, or just before its end."""
    if op.kind == "write":
        for cut in {len(op.data) // 2, len(op.data) - 1}:
            yield {op.file: disk.last(op.file) + op.data[:cut]}


def _prefixes(ops: list[Op]) -> Iterator[list[Op]]:
    return (ops[:n] for n in range(len(ops) + 1))


def _subsets(ops: list[Op]) -> Iterator[tuple[Op, ...]]:
    return chain.from_iterable(combinations(ops, n) for n in range(len(ops) + 1))


def _state(names: Names, contents: dict[int, bytes]) -> State:
    return tuple((name, contents[file]) for name, file in sorted(names.items()))
