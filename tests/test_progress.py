"""How far a long piece of work is: a bar on a terminal or in a notebook, nothing elsewhere, nothing left behind."""

import os
import pty
import subprocess
import sys
import threading
import types

import ipykernel
import pytest

from andrea_lab import progress as module
from andrea_lab.paths import ROOT
from andrea_lab.progress import Advance, progress

WORK = """
import sys, time
from andrea_lab import progress as module
from andrea_lab.progress import progress
module.LATE = float(sys.argv[1])
module.REDRAW = 0.05
seen, words = [], module.Advance.words
def noted(advance):
    seen.append(words(advance))
    return seen[-1]
module.Advance.words = noted
def drawn(text):
    "Wait until a bar with these words is on the screen: they are asked for again after they were drawn."
    end = time.monotonic() + 60
    while sum(text in one for one in seen) < 2 and time.monotonic() < end: time.sleep(0.01)
"""
BARS = {"PYTHONPATH": str(ROOT), "TERM": "xterm", "ANDREA_BARS": "1"}


def on_terminal(work, late=0.0, **more):
    """What a script prints on a terminal of 100 columns, and its exit code; `more` for its environment."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, **BARS, "COLUMNS": "100", **more}
    command = [sys.executable, "-c", WORK + work, str(late)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            said += piece
        os.close(ours)
    return said.decode(), process.returncode


def screen(said):
    """The lines that stay on a terminal, which knows only what rich uses of it."""
    lines, row, at = [""], 0, 0
    while said:
        if said.startswith("\x1b["):
            code = next(n for n, c in enumerate(said[2:], 2) if c.isalpha())
            if said[code] == "K":
                lines[row], at = "", 0
            elif said[code] == "A":
                row -= int(said[2:code] or 1)
            said = said[code + 1 :]
            continue
        letter, said = said[0], said[1:]
        if letter == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif letter == "\r":
            at = 0
        else:
            lines[row] = lines[row][:at] + letter + lines[row][at + 1 :]
            at += 1
    return [line for line in lines if line]


SHOWN = """
with progress("reading weights", 300e6, "B") as advance:
    advance(150e6)
    drawn("150 of 300 MB")
    advance.say("a [bold]line")
    advance(150e6)
print("after")
"""


def test_a_terminal_shows_a_bar_and_keeps_only_what_was_said():
    said, code = on_terminal(SHOWN)
    assert code == 0
    assert "reading weights" in said and "150 of 300 MB" in said and "MB/s" in said and "left" in said
    assert screen(said) == ["a [bold]line", "after"]


def test_short_work_leaves_no_trace():
    said, _ = on_terminal("with progress('short', 3) as advance: advance(3)\nprint('after')", late=60)
    assert said == "after\r\n"


def test_a_bar_appears_though_the_work_never_calls():
    said, _ = on_terminal("with progress('thinking') as advance: drawn(' s')\nprint('after')")
    assert "thinking" in said and screen(said) == ["after"]


def test_work_that_was_interrupted_says_how_far_it_came():
    work = """
with progress("judging", 10, "mutants") as advance:
    advance(4)
    drawn("4 of 10")
    raise KeyboardInterrupt
"""
    said, code = on_terminal(work)
    assert code != 0
    assert screen(said)[0] == "judging: interrupted at 40 %"


def test_stdout_is_the_same_with_and_without_a_bar():
    ours, theirs = pty.openpty()
    environment = {**os.environ, **BARS}
    command = [sys.executable, "-c", WORK + SHOWN, "0"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True)
    os.close(theirs)
    os.close(ours)
    assert done.stdout == "a [bold]line\nafter\n"


@pytest.mark.parametrize("where", ["behind a pipe", "switched off", "dumb"])
def test_there_is_no_bar_where_none_is_wanted(monkeypatch, where):
    monkeypatch.setattr(sys, "stderr", types.SimpleNamespace(isatty=lambda: where != "behind a pipe"))
    monkeypatch.setenv("ANDREA_BARS", "0" if where == "switched off" else "1")
    monkeypatch.setenv("TERM", "dumb" if where == "dumb" else "xterm")
    with progress("work") as advance:
        assert type(advance) is Advance


@pytest.fixture
def terminal(monkeypatch):
    """A stderr that says it is a terminal, and a bar that would appear only after an hour."""
    stream = types.SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(module, "sys", types.SimpleNamespace(stderr=stream, modules=sys.modules))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("ANDREA_BARS", raising=False)
    monkeypatch.setattr(module, "LATE", 3600.0)


def test_only_one_bar_is_shown_at_a_time(terminal):
    with progress("outer") as outer, progress("inner") as inner:
        assert type(outer) is module._Terminal and type(inner) is Advance
    with progress("next") as following:
        assert type(following) is module._Terminal


def test_another_thread_shows_none_and_json_none(terminal):
    kinds = []

    def work():
        with progress("work") as advance:
            kinds.append(type(advance))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    with progress("work", silent=True) as advance:
        kinds.append(type(advance))
    assert kinds == [Advance, Advance]


def test_no_thread_is_left_behind(terminal):
    def drawing():
        return [thread for thread in threading.enumerate() if thread.name == "progress bar"]

    for _ in range(3):
        with pytest.raises(ValueError, match="no"), progress("work"):
            assert len(drawing()) == 1
            raise ValueError("no")
    assert not drawing()


def test_all_that_threads_count_is_counted():
    with progress("work", 4000) as advance:
        threads = [threading.Thread(target=lambda: [advance() for _ in range(1000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert advance.done == 4000


@pytest.mark.parametrize(
    "total, unit, done, seconds, words",
    [
        (40e6, "B", 10e6, 5, "10 of 40 MB, 2 MB/s, 15 s left   note"),
        (10, "cases", 0, 5, "0 of 10 cases   note"),
        (10, "cases", 10, 5, "10 of 10 cases, 2 cases/s   note"),
        (1000, "", 1, 60, "1 of 1,000, 999 min left   note"),
        (None, "", 0, 7, "7 s   note"),
        (None, "steps", 3, 2, "3 steps, 1.5 steps/s, 2 s   note"),
        (10, None, 3, 2, "note"),
    ],
)
def test_the_words_say_how_much_how_fast_and_how_long(monkeypatch, total, unit, done, seconds, words):
    advance = Advance("work", total, unit)
    monkeypatch.setattr(module.time, "monotonic", lambda: advance.start + seconds)
    advance(done, "note")
    assert advance.words() == words


@pytest.fixture
def notebook(monkeypatch):
    """A notebook that notes what is shown in it, and a clock of our own."""
    state = types.SimpleNamespace(now=0.0, shown=[])
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "ipykernel", ipykernel)
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr("IPython.display.display", state.shown.append)
    monkeypatch.delenv("ANDREA_BARS", raising=False)
    monkeypatch.setattr(module.time, "monotonic", lambda: state.now)
    return state


def test_a_notebook_shows_a_widget_once_the_work_is_long(notebook):
    with progress("checking", 4, "cases") as advance:
        advance()
        assert notebook.shown == []
        notebook.now = 2.0
        advance()
        (box,) = notebook.shown
        assert repr(box) == "[progress: checking]"
        label, bar, words = box.children
        assert (label.value, bar.value, words.value) == ("checking", 0.5, "2 of 4 cases, 1 cases/s, 2 s left")
        advance()
        assert bar.value == 0.5, "drawn again at most four times a second"
        notebook.now = 3.0
        advance()
        assert bar.value == 1.0
    assert len(notebook.shown) == 1 and box.layout.display == "none"


def test_a_notebook_says_that_work_was_interrupted(notebook):
    with pytest.raises(KeyboardInterrupt), progress("checking", 4, "cases") as advance:
        notebook.now = 2.0
        advance(1)
        advance(2)
        raise KeyboardInterrupt
    (box,) = notebook.shown
    assert (box.children[1].bar_style, box.children[1].value) == ("danger", 0.75)
    assert box.children[2].value == "checking: interrupted at 75 %"
    assert box.layout.display is None


def test_a_thread_of_a_notebook_changes_traits_but_shows_nothing(notebook):
    with progress("checking", 4) as advance:
        notebook.now = 2.0
        thread = threading.Thread(target=advance)
        thread.start()
        thread.join()
        assert notebook.shown == []
        notebook.now = 3.0
        advance()
        notebook.now = 4.0
        thread = threading.Thread(target=advance)
        thread.start()
        thread.join()
        assert notebook.shown[0].children[1].value == 0.75
