"""The one way to say how far a long piece of work is: a bar on a terminal or in a notebook, nothing elsewhere.

    with progress("reading", total=nbytes, unit="B") as advance:
        for piece in pieces:
            advance(len(piece))

The bar appears when the work has taken LATE seconds, so that short work leaves no trace, and is drawn again REDRAW
seconds apart at most, however often `advance` is called. It goes when the work is done; work that an exception ended
leaves one line that says so. On a terminal the bar is on stderr: what stdout holds is the same with and without it.
Behind a pipe, in threads, inside another bar, and where ANDREA_BARS is 0, there is none.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LATE = 1.0  # seconds of work before a bar appears
REDRAW = 0.25  # seconds between two drawings
_one = threading.Lock()  # held by the bar that is shown


class Advance:
    """Counts work done: `advance(3)`, `advance(note="layer 2")`. May be called from any thread."""

    bar = False  # whether it shows one

    def __init__(self, what: str, total: float | None, unit: str | None):
        self.what, self.total, self.unit = what, total, unit
        self.done, self.note = 0, ""
        self.start = time.monotonic()
        self._lock = threading.Lock()

    def __call__(self, count: float = 1, note: str | None = None) -> None:
        with self._lock:
            self.done += count
            if note is not None:
                self.note = note
        self._drawn()

    def say(self, line: str) -> None:
        """Print a line on stdout, above the bar where there is one."""
        print(line, flush=True)

    def words(self) -> str:
        """How far the work is: "12 of 40 MB, 3.1 MB/s, 9 s left", with the note behind it; without a unit, the note."""
        if self.unit is None:
            return self.note
        seconds = max(time.monotonic() - self.start, 1e-9)
        done, total, unit = self.done, self.total, self.unit
        scale, unit = (1e6, "MB") if unit == "B" else (1, unit)
        parts = [f"{_count(done / scale)} of {_count(total / scale)} {unit}".rstrip()] if total else []
        if not total and done:
            parts = [f"{_count(done / scale)} {unit}".rstrip()]
        if done:
            parts += [f"{_count(done / scale / seconds)} {unit}/s"] * bool(unit)
        if total and 0 < done < total:
            parts.append(_clock(seconds * (total - done) / done) + " left")
        elif not total:
            parts.append(_clock(seconds))
        return "   ".join([", ".join(parts), self.note]).strip()

    def ended(self, error: BaseException | None) -> None:
        """The work is over."""

    def _drawn(self) -> None:
        """Something has changed."""


class _Terminal(Advance):
    """A bar of rich's. A thread of its own draws it: it appears in time though the work may not call for minutes."""

    bar = True

    def __init__(self, what, total, unit):
        super().__init__(what, total, unit)
        self._over, self._bar = threading.Event(), None
        self._drawing = threading.Lock()
        self._thread = threading.Thread(target=self._draw, daemon=True, name="progress bar")
        self._thread.start()

    def _draw(self) -> None:
        if self._over.wait(LATE):
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        short = Column(no_wrap=True, overflow="ellipsis")  # one line, however narrow the terminal
        words = TextColumn("{task.fields[words]}", markup=False, table_column=short)
        columns = TextColumn("{task.description}", markup=False), BarColumn(24), words
        with self._drawing:
            quiet = {"redirect_stdout": False, "redirect_stderr": False, "auto_refresh": False}
            bar = Progress(*columns, console=Console(file=sys.stderr), transient=True, **quiet)
            task = bar.add_task(self.what, total=self.total, words="")
            with suppress(OSError):
                bar.start()
            self._bar = bar
        while True:
            with self._drawing, suppress(OSError):
                bar.update(task, completed=self.done, total=self.total, words=self.words())
                bar.refresh()
            if self._over.wait(REDRAW):
                return

    def say(self, line):
        with self._drawing:
            if self._bar is not None and sys.stdout.isatty():
                self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
                return
        super().say(line)

    def ended(self, error):
        self._over.set()
        self._thread.join()
        if self._bar is None:
            return
        with suppress(OSError):
            self._bar.stop()
            if error is not None:
                print(_interrupted(self), file=sys.stderr)


class _Notebook(Advance):
    """A widget, of which only traits change after it was shown; the main thread, in whose cell it stands, shows it."""

    bar = True

    def __init__(self, what, total, unit):
        super().__init__(what, total, unit)
        self._box, self._last = None, 0.0

    def _drawn(self):
        now = time.monotonic()
        if now - self.start < LATE or now - self._last < REDRAW:
            return
        self._last = now
        if self._box is None:
            if threading.current_thread() is not threading.main_thread():
                return
            self._show()
        self._fill(self.words())

    def _fill(self, words: str) -> None:
        if self.total:
            self._bar.value = min(self.done / self.total, 1.0)
        self._label.value = words

    def _show(self) -> None:
        from IPython.display import display
        from ipywidgets import FloatProgress, Label

        self._bar = FloatProgress(value=0.0, max=1.0, bar_style="" if self.total else "info")
        self._label = Label()
        self._box = _box(self.what, [Label(self.what), self._bar, self._label])
        display(self._box)

    def ended(self, error):
        if self._box is None:
            return
        if error is None:
            self._box.layout.display = "none"
        else:
            self._bar.bar_style = "danger"
            self._fill(_interrupted(self))


def _box(what: str, parts: list):
    """A row of widgets that is the same text whatever they show."""
    from ipywidgets import HBox

    class Bar(HBox):
        def __repr__(self):
            return f"[progress: {what}]"

    return Bar(parts)


@contextmanager
def progress(
    what: str, total: float | None = None, unit: str | None = "", *, silent: bool = False
) -> Iterator[Advance]:
    """Show how far the work inside is, of which `advance` of the value is told.

    what: the work, in a few words. total: how much there is, None where nobody knows. unit: of what; "B" is shown in
    MB, None leaves the note alone to speak. silent: show nothing, as a command does under --json.
    """
    kind = Advance if silent else _kind()
    alone = kind is Advance or _one.acquire(blocking=False)
    advance = (kind if alone else Advance)(what, total, unit)
    try:
        yield advance
    except BaseException as error:
        advance.ended(error)
        raise
    else:
        advance.ended(None)
    finally:
        if alone and kind is not Advance:
            _one.release()


def _kind() -> type[Advance]:
    if os.environ.get("ANDREA_BARS") == "0" or threading.current_thread() is not threading.main_thread():
        return Advance
    if _in_notebook():
        return _Notebook
    stream = sys.stderr
    return _Terminal if stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb" else Advance


def _in_notebook() -> bool:
    if "ipykernel" not in sys.modules:
        return False
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


def _interrupted(advance: Advance) -> str:
    far = f" at {100 * advance.done / advance.total:.0f} %" if advance.total else ""
    return f"{advance.what}: interrupted{far}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _clock(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
