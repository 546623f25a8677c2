"""The dashboard as one file: scripts, styles and every record of its runs in it, so that it needs no server."""

from collections.abc import Iterator
from pathlib import Path

from andrea_lab.checkpoint.files import replace_with
from andrea_lab.progress import Advance, progress
from andrea_lab.run.directory import RunError
from andrea_lab.view.dashboard import listing, page
from andrea_lab.view.feed import Feed


def save_page(folder: Path, file: Path, names: list[str]) -> list[str]:
    """Write the page of the runs called `names`, or of all, to `file`; returns their ids.

    Raises RunError for a folder without runs or a name that is none of them, OSError.
    """
    listing.check_folder(folder)
    runs, _ = listing.find(folder)
    if not runs:
        raise RunError(f"{folder}: found no runs, expected a folder of runs, or one run")
    for name in names:
        if name not in runs:
            known = ", ".join(list(runs)[:10]) + (", ..." if len(runs) > 10 else "")
            raise RunError(f"--run: found {name!r}, expected one of {known}")
    shown = {run_id: path for run_id, path in runs.items() if not names or run_id in names}
    rows = listing.Rows().read(shown)
    with progress("reading runs", len(shown), "runs") as advance:
        pieces = page.saved(folder.resolve().name, rows, _frames(shown, advance))
        replace_with(file, lambda write: [write(memoryview(piece)) for piece in pieces])
    return list(shown)


def _frames(runs: dict[str, Path], advance: Advance) -> Iterator[tuple[str, bytes]]:
    """(id, frame) of every record, run by run. A run that grows meanwhile is shown as it is when it is read."""
    for run_id, path in runs.items():
        advance(0, note=run_id)
        feed = Feed(path, name=run_id)
        feed.catch_up()
        for frame in feed.frames():
            yield run_id, frame
        advance()
