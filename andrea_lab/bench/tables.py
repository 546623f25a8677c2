"""One table, twice: for the terminal and, in Markdown, for the README."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table


def rich(head: Sequence[str], rows: Sequence[Sequence[str]], title: str, caption: str) -> Table:
    """A table for the terminal: the first column to the left, numbers to the right."""
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left", title_style="bold")
    for i, name in enumerate(head):
        table.add_column(name, justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], title: str, caption: str) -> str:
    """The same as Markdown text: title, table, caption, with a line end after the last."""
    lines = [title, "", _line(head), _line(["---", *["---:"] * (len(head) - 1)])]
    lines += [_line(row) for row in rows]
    return "\n".join([*lines, "", caption]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def machine_line(result: dict) -> str:
    """Processor, threads, versions, and the settings that were taken away, in one line."""
    m = result["machine"]
    text = f"{m['processor']}, {m['threads']} of {m['cores']} cores, NumPy {m['numpy']}, Numba {m['numba']}"
    if m["unset"]:
        text += f"; measured without {', '.join(m['unset'])}"
    return text + ("; a quick run, its times mean nothing" if result["quick"] else "")
