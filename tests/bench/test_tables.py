"""A benchmark's table keeps its numbers whole, however narrow the terminal."""

import io

from rich.console import Console

from andrea_lab.bench.tables import Figures

FIGURES = Figures(
    ("what", "ours ms", "beside"), [("a launch with a long name " * 4, "1,234.56", "0.61")], "title", "end"
)


def test_names_give_way_and_numbers_do_not():
    console = Console(file=io.StringIO(), width=48)
    console.print(FIGURES.rich())
    text = console.file.getvalue()
    assert "1,234.56" in text and "0.61" in text and "ours ms" in text and "…" not in text


def test_markdown_is_a_title_a_table_and_a_caption():
    lines = FIGURES.markdown().splitlines()
    assert lines[0] == "title" and lines[-1] == "end" and lines[3] == "| --- | ---: | ---: |"
    assert lines[2] == "| what | ours ms | beside |" and lines[4].endswith("| 1,234.56 | 0.61 |")
