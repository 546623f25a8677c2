"""The dashboard's page: as the server hands it out in parts, and as one file that needs no server."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from andrea_lab.view import assets

# What a saved page may do: run its own scripts and styles. It may ask nobody for anything.
ALONE = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:"
STYLES = re.compile(r'<link rel="stylesheet" href="static/lossview\.css">\s*<link [^>]*href="static/page\.css">')
SCRIPT = '<script type="module" src="static/page.js"></script>'
COMPONENT = '"./lossview.js"'  # what page.js imports


def served() -> list[tuple[str, str, str]]:
    """[(path, content type, text)] of everything that the server hands out besides runs."""
    return [
        ("/", "text/html", _text("live-loss-dashboard.html")),
        ("/static/lossview.js", "text/javascript", assets.esm()),
        ("/static/lossview.css", "text/css", assets.css()),
        ("/static/page.js", "text/javascript", _text("page.js")),
        ("/static/page.css", "text/css", _text("page.css")),
    ]


def saved(folder: str, rows: list[dict[str, Any]], frames: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """The pieces of one HTML file that shows runs as they are now.

    rows: as the listing gives them. frames: (id, frame) in the order in which they are to be read.
    """
    component = f'"data:text/javascript;base64,{_base64(assets.esm().encode())}"'
    script = _text("page.js").replace(COMPONENT, component)
    head, tail = _text("live-loss-dashboard.html").split(SCRIPT)
    style = f"<style>\n{assets.css()}\n{_text('page.css')}</style>"
    head = STYLES.sub(lambda _: f'<meta http-equiv="Content-Security-Policy" content="{ALONE}">\n{style}', head)
    about = json.dumps({"folder": folder, "control": False, "left_out": 0, "runs": rows}, allow_nan=False)
    yield head.encode()
    yield _data('type="application/json" id="saved"', about.replace("<", "\\u003c"))
    for run_id, frame in frames:
        number = next(n for n, row in enumerate(rows) if row["id"] == run_id)
        yield _data(f'type="application/octet-stream" data-frame="{number}"', _base64(frame))
    yield f'<script type="module">\n{script}</script>{tail}'.encode()


def _data(attributes: str, text: str) -> bytes:
    return f"<script {attributes}>{text}</script>\n".encode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _text(name: str) -> str:
    return (assets.LIVE / name).read_text(encoding="utf-8")
