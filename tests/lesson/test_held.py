"""Programs held in the middle of a step: where a signal meets them, and how they end."""

import pytest

from andrea_lab.lesson.held import play

STEPS = """\
import signal, sys
def hold(step):
    print("step", step, flush=True)
    sys.stdin.readline()
"""
LOOP = """\
for step in range(1, 5):
    hold(step)
    print("did", step, flush=True)
"""


def test_a_program_goes_on_as_often_as_it_is_let():
    assert play(STEPS + LOOP, 2, "SIGTERM").split("\n") == ["did 1", "did 2", "in step 3: SIGTERM", "ended by SIGTERM"]


def test_after_the_plan_it_runs_to_its_end():
    assert play(STEPS + LOOP, 1) == "did 1\ndid 2\ndid 3\ndid 4\nended with exit code 0"


def test_a_handler_runs_where_the_program_is_held():
    handler = "signal.signal(signal.SIGTERM, lambda *_: print('heard in', step, flush=True))\n"
    lines = play(STEPS + handler + LOOP, 3, "SIGTERM").split("\n")
    assert lines[3:] == ["in step 4: SIGTERM", "heard in 4", "did 4", "ended with exit code 0"]


def test_an_exception_gives_its_last_line():
    assert play("raise OSError('no disk')") == "OSError: no disk\nended with exit code 1"


def test_a_plan_may_be_longer_than_the_program():
    lines = play(STEPS + LOOP, 9, "SIGTERM").split("\n")
    assert lines[4:] == ["SIGTERM comes too late", "ended with exit code 0"]


def test_a_signal_nobody_has_is_refused_before_anything_starts():
    with pytest.raises(ValueError, match="found 'SIGNOTHING', expected one of this system's"):
        play("print('started')", "SIGNOTHING")
