"""One table, twice: for the terminal and, in Markdown, for the README."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class Figures:
    """What a benchmark found, in words; the first column is to the left, numbers to the right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str
    caption: str

    def rich(self) -> Table:
        """The table for the terminal."""
        table = Table(title=self.title, caption=self.caption, title_justify="left", caption_justify="left")
        table.title_style = "bold"
        for i, name in enumerate(self.head):
            table.add_column(name, justify="right" if i else "left", no_wrap=i > 0)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """The same as Markdown text: title, table, caption, with a line end after the last."""
        lines = [self.title, "", _line(self.head), _line(["---", *["---:"] * (len(self.head) - 1)])]
        lines += [_line(row) for row in self.rows]
        return "\n".join([*lines, "", self.caption]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def machine_line(result: dict) -> str:
    """Processor, threads, versions, and the settings that were taken away, in one line."""
    m = result["machine"]
    text = f"{m['processor']}, {m['threads']} of {m['cores']} cores, NumPy {m['numpy']}, Numba {m['numba']}"
    if m["unset"]:
        text += f"; measured without {', '.join(m['unset'])}"
    return text + ("; a quick run, its times mean nothing" if result["quick"] else "")
