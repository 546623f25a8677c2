"""What training shows while it runs: a bar on a terminal, some plain lines elsewhere, only warnings under --json."""

import pytest

from andrea_lab.commands.progress import followed
from tests.test_progress import on_terminal, screen

STEPS = """
from andrea_lab.commands.progress import followed
with followed(4, "the title", False) as hooks:
    def entry(step):
        hooks["on_entry"]({"step": step, "loss": 5.0 - step, "tokens": 1000, "ms": 500.0})
    drawn("compiling")
    entry(3)
    drawn("step 3/4")
    hooks["on_note"]("a note [b]")
    entry(4)
    drawn("saving")
print("after")
"""


def entry(step, loss=4.0):
    return {"step": step, "loss": loss, "tokens": 1000, "ms": 500.0}


def test_a_terminal_has_a_bar_that_goes_and_notes_that_stay():
    said, code = on_terminal(STEPS)
    assert code == 0
    assert "compiling the first step" in said and "step 3/4  loss 2.000" in said and "2,000 tokens/s" in said
    assert screen(said) == ["the title", "a note [b]", "after"]


def test_elsewhere_some_twenty_lines(capsys):
    with followed(200, "the title", False) as hooks:
        for step in range(101, 201):
            hooks["on_entry"](entry(step))
        hooks["on_note"]("a note")
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0] == "the title" and lines[-1] == "a note" and said.err == ""
    shown = [line.split()[1] for line in lines[1:-1]]
    assert shown == [f"{step}/200" for step in [101, *range(110, 201, 10)]]


ELSEWHERE = "import os; os.dup2(os.open(os.devnull, os.O_WRONLY), 2)"  # stderr is no terminal, stdout is one
FOUR = """
from andrea_lab.commands.progress import followed
with followed(4, "the title", False) as hooks:
    for step in range(1, 5):
        hooks["on_entry"]({"step": step, "loss": 5.0 - step, "tokens": 1000, "ms": 500.0})
"""


@pytest.mark.parametrize("work, more", [("", {"TERM": "dumb"}), ("", {"ANDREA_BARS": "0"}), (ELSEWHERE, {})])
def test_a_terminal_without_a_bar_gets_the_lines(work, more):
    said, code = on_terminal(work + FOUR, **more)
    title, *lines = said.splitlines()
    assert (code, title) == (0, "the title")
    assert [line.split()[1] for line in lines] == ["1/4", "2/4", "3/4", "4/4"]


def test_under_json_only_warnings_on_stderr(capsys):
    with followed(200, "the title", True) as hooks:
        assert hooks.keys() == {"on_note"}
        hooks["on_note"]("passed over\x1b[2J")
    assert capsys.readouterr() == ("", "andrea: passed over\ufffd[2J\n")


@pytest.mark.parametrize("hook, given", [("on_entry", entry(1)), ("on_note", "a note")])
def test_a_reader_that_is_gone_does_not_end_a_run(monkeypatch, hook, given):
    def gone(*_, **__):
        raise BrokenPipeError

    with followed(1, "the title", False) as hooks:
        monkeypatch.setattr("builtins.print", gone)
        hooks[hook](given)
