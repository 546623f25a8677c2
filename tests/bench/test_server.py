"""The protocol between a benchmark and its measured processes."""

import sys

import pytest

from andrea_lab.bench import machine
from andrea_lab.bench.server import BenchError, Server

CHILD = """
import os, sys, time
from andrea_lab.bench.children.serve import report, serve

def work(n):
    print("libraries print")
    os.write(1, b"and not only through Python\\n")
    for i in range(n):
        report(f"{i}")
    return {"n": n}

def die():
    print("out of luck", file=sys.stderr)
    sys.stderr.flush()
    os._exit(3)

serve({"work": work, "fail": lambda: 1 / 0, "die": die, "sleep": lambda: time.sleep(60), "nothing": lambda: None})
"""


@pytest.fixture
def server():
    with Server("child", [sys.executable, "-c", CHILD], machine.environment(1)) as made:
        yield made


def test_answers_and_progress(server):
    told = []
    assert server.ask("work", n=3, progress=told.append) == {"n": 3}
    assert told == ["0", "1", "2"]
    assert server.ask("nothing") == {}


def test_a_failure_is_one_line_and_not_the_end(server):
    with pytest.raises(BenchError, match="^child: fail: ZeroDivisionError: division by zero$"):
        server.ask("fail")
    with pytest.raises(BenchError, match="found 'no', expected one of work, fail"):
        server.ask("no")
    assert server.ask("work", n=0) == {"n": 0}


def test_a_death_is_reported_with_the_last_words(server):
    with pytest.raises(BenchError, match="stopped during 'die': out of luck"):
        server.ask("die")
    with pytest.raises(BenchError, match="out of luck"):
        server.ask("work", n=1)


def test_silence_ends(server):
    with pytest.raises(BenchError, match="no answer to 'sleep' within 0.2 s"):
        server.ask("sleep", timeout=0.2)
    server.process.kill()


def test_an_interpreter_that_is_not_there():
    with pytest.raises(BenchError, match="/no/python does not start: No such file"):
        Server("torch", ["/no/python"], {})


def test_the_environment_is_clean_and_says_so(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OPENBLAS_L2_SIZE", "1024")
    env = machine.environment(2)
    assert "OPENBLAS_CORETYPE" not in env and "OPENBLAS_L2_SIZE" not in env
    assert env["OPENBLAS_NUM_THREADS"] == env["OMP_NUM_THREADS"] == "2"
    assert machine.describe(2)["unset"] == ["OPENBLAS_CORETYPE=Haswell", "OPENBLAS_L2_SIZE=1024"]


def test_the_watch_sees_others_and_not_the_watched():
    watch = machine.Watch([])
    assert 0.0 <= watch.others() <= 1.0
