"""The scripts and styles of the live loss view as text: for a widget, for a server and for a page saved as one file."""

from functools import cache
from pathlib import Path

LIVE = Path(__file__).parent / "live"
VENDORED = LIVE / "vendor" / "uplot"
# One after the other they are one module: each leaves names for those after it, the last exports.
SCRIPTS = (
    VENDORED / "uPlot.iife.min.js",
    LIVE / "runstore.js",
    LIVE / "words.js",
    LIVE / "draw.js",
    LIVE / "lossview.js",
    LIVE / "widget.js",
)
STYLES = (VENDORED / "uPlot.min.css", LIVE / "lossview.css")


@cache
def esm() -> str:
    """The module: exports `mount` for a page and, as default, `{render}` for a widget."""
    return _joined(SCRIPTS)


@cache
def css() -> str:
    """The styles that go with it; every rule of ours begins at the class `andrea-lossview` or `andrea-still`."""
    return _joined(STYLES)


def _joined(files: tuple[Path, ...]) -> str:
    return "\n".join(file.read_text(encoding="utf-8").rstrip() + "\n" for file in files)
