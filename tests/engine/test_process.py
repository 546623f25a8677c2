"""The engine as a process: what it does when its proxy, its pipes or itself come to harm, and on signals."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from andrea_lab.checkpoint.lock import holder
from andrea_lab.checkpoint.save import SaveError
from andrea_lab.checkpoint.sums import read_sum
from andrea_lab.checkpoint.verify import examine
from andrea_lab.engine.client import EngineDied, EngineProcess
from andrea_lab.engine.engine import Engine
from andrea_lab.engine.lines import LONGEST
from andrea_lab.engine.signals import Aborted, Signals, Stopped
from tests.engine.tiny import sums

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds that no test needs
ENTRY = ["step", "segment", "policy", "source", "draw", "tokens", "loss", "grad_norm", "clip", "lr", "ms"]


def until(condition, what: str):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.02)
    return found


def step(engine, **more) -> dict:
    number = engine.done + 1
    return engine.step({"step": number, "source": "sums", "draw": number - 1} | more)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix in (".bin", ".sum", ".tmp"))


@pytest.fixture
def start(tmp_path):
    """A function that starts an engine on tmp_path/run; what it started is gone at the end."""
    started = []
    (tmp_path / "run").mkdir()

    def make(signals=None, **train) -> EngineProcess:
        started.append(EngineProcess(sums(tmp_path, **train), tmp_path / "run", signals=signals))
        return started[-1]

    yield make
    for engine in started:
        if engine._process.poll() is None:
            engine._process.kill()
        engine._let_go()


# ---------------------------------------------------------------------------------------------------- the raw protocol


class Raw:
    """The process itself, spoken to in bytes."""

    def __init__(self, **options):
        command = [sys.executable, "-m", "andrea_lab.engine.process"]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(command, cwd=ROOT, bufsize=0, **pipes, **options)

    def say(self, line: bytes) -> dict:
        self.tell(line)
        return json.loads(self.process.stdout.readline())

    def tell(self, line: bytes) -> None:
        while line:
            line = line[self.process.stdin.write(line) :]

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        """Close the pipes that are open, which ends it."""
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()
        self.process.wait(PATIENCE)


def construct(folder: Path, **train) -> bytes:
    made = {"config": sums(folder, **train).model_dump(), "run_dir": str(folder / "run"), "resume": False}
    return json.dumps(made).encode() + b"\n"


GARBAGE = [
    b"\n",
    b"step\n",
    b"[1]\n",
    b"\xff\xfe\x00\n",
    b'{"do": "step", "step": NaN}\n',
    b"[" * 50_000 + b"\n",
    b'{"do": "' + b"x" * (LONGEST + 5) + b'"}\n',
    b"{}\n",
    b'{"do": null}\n',
    b'{"do": ["step"]}\n',
    b'{"do": "__init__"}\n',
    b'{"do": "' + b"y" * 100_000 + b'"}\n',
    b'{"do": "step"}\n',
    b'{"do": "step", "step": 1e999, "source": "sums", "draw": 0}\n',
    b'{"do": "save", "step": 0, "entry": 5}\n',
    b'{"do": "load", "path": "/nowhere/step_000001.bin"}\n',
    b'{"do": "load"}\n',
    b'{"do": "evaluate", "source": "sums", "batches": -1}\n',
]


def test_garbage_is_answered_and_lost_readers_do_not_keep_it_from_saving(tmp_path):
    (tmp_path / "run").mkdir()
    with Raw() as raw:
        ready = raw.say(construct(tmp_path))
        assert ready["ready"]["sources"] == ["sums"] and ready["done"] == 0 and ready["want"] == []
        for line in GARBAGE:
            answer = raw.say(line)
            assert set(answer) == {"error", "id", "done", "want", "save_errors"}, line[:60]
            error = answer["error"]
            assert error["type"] in ("EngineError", "CheckpointError", "TextError"), error
            assert len(error["message"]) < 400 and "\n" not in error["message"] and "expected" in error["message"], (
                error
            )
        asked = b'{"do": "step", "step": 1, "source": "sums", "draw": 0, "id": {"any": [1]}}\n'
        answer = raw.say(asked)
        assert answer["answer"]["step"] == answer["done"] == 1 and answer["id"] == {"any": [1]}

        raw.process.stderr.close()  # nobody reads its words any more
        raw.process.stdout.close()  # nor its answers
        raw.tell(asked.replace(b": 1, ", b": 2, "))
        assert raw.process.wait(PATIENCE) == 0, "it leaves, although the requests have not ended"
        assert files(tmp_path / "run") == ["step_000002.bin", "step_000002.bin.sum"]


def test_a_first_line_that_makes_no_engine_ends_it_with_exit_code_2(tmp_path):
    with Raw() as raw:
        error = raw.say(b'{"config": {"name": "x"}}\n')["error"]
        assert error["type"] == "ConfigError" and "config: model: found nothing" in error["message"]
        assert raw.process.wait(PATIENCE) == 2


@pytest.mark.full
def test_requests_from_a_file_are_all_served_before_it_saves_and_ends(tmp_path):
    """The input ends at once, but whoever wrote it is alive: `cat requests | python -m andrea_lab.engine.process`."""
    (tmp_path / "run").mkdir()
    lines = construct(tmp_path)
    for number in (1, 2, 3):
        lines += json.dumps({"do": "step", "step": number, "source": "sums", "draw": number}).encode() + b"\n"
    command = [sys.executable, "-m", "andrea_lab.engine.process"]
    done = subprocess.run(command, cwd=ROOT, input=lines, capture_output=True, timeout=PATIENCE)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [answer.get("done") for answer in answers] == [0, 1, 2, 3, None]
    assert answers[-1]["gone"]["file"] == "step_000003.bin"


def test_a_stop_before_the_first_line_ends_it_cleanly():
    with Raw() as raw:
        with_handler = f"/proc/{raw.process.pid}/status"
        caught = 1 << (signal.SIGTERM - 1)
        until(lambda: _mask(with_handler) & caught, "it never heard signals")
        raw.process.send_signal(signal.SIGTERM)
        assert raw.process.wait(PATIENCE) == 0
        assert raw.process.stdout.read() == b"" == raw.process.stderr.read()


def _mask(path: str) -> int:
    lines = Path(path).read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("SigCgt")), 16)


@pytest.mark.full
def test_a_stop_while_kernels_are_compiled_ends_it_cleanly(tmp_path):
    (tmp_path / "run").mkdir()
    cache = tmp_path / "cache"
    with Raw(env=os.environ | {"ANDREA_CACHE": str(cache)}) as raw:
        raw.tell(construct(tmp_path))
        until(lambda: cache.is_dir() and any(cache.rglob("*.bin")), "it never compiled anything")
        raw.process.send_signal(signal.SIGTERM)
        answer = json.loads(raw.process.stdout.readline())
        assert answer["error"]["type"] == "Stopped" and raw.process.wait(PATIENCE) == 0
        assert not list((tmp_path / "run").iterdir())


# ---------------------------------------------------------------------------------------------------- the proxy dies

PROXY = """
import os, signal, sys, time
from pathlib import Path
from andrea_lab.engine.client import EngineProcess
from andrea_lab.engine.signals import Signals
from tests.engine.tiny import sums
folder = Path(sys.argv[1])
with Signals() as signals:
    engine = EngineProcess(sums(folder), folder / "run", signals=signals)
    request = {"segment": 2, "policy": "abc", "source": "sums"}
    engine.step(request | {"step": 1, "draw": 0})
    os.killpg(0, signal.SIGINT)  # a notebook's interrupt button
    told, own = list(signals.poll()), os.getsid(engine.pid) == engine.pid != os.getsid(0)
    signals.clear("stop")
    want = engine.step(request | {"step": 2, "draw": 1})["want"]
    worker = os.fork()
    if not worker:  # it inherits the ends of the pipes
        time.sleep(600)
        os._exit(0)
    engine._write(request | {"do": "step", "step": 3, "draw": 2})
    print(engine.pid, worker, own, told, want, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_engine_outlives_its_proxy_and_saves(tmp_path):
    (tmp_path / "run").mkdir()
    command = [sys.executable, "-W", "ignore", "-c", PROXY, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as proxy:
        pid, worker, *rest = proxy.stdout.readline().decode().split(maxsplit=2)
        try:
            assert rest == ["True ['stop'] []\n"], "the group's SIGINT reached the proxy and not the engine"
            assert proxy.wait(PATIENCE) == -signal.SIGKILL
            until(lambda: not psutil.pid_exists(int(pid)) or _dead(int(pid)), "the engine goes on alone")
        finally:
            os.kill(int(worker), signal.SIGKILL)
    found = examine(tmp_path / "run" / "step_000003.bin")
    assert (found.verdict, found.step) == ("committed", 3)
    entry = read_sum(tmp_path / "run" / "step_000003.bin").entry
    assert list(entry) == ENTRY
    assert {k: entry[k] for k in ENTRY[:5]} == {"step": 3, "segment": 2, "policy": "abc", "source": "sums", "draw": 2}
    assert holder(tmp_path / "run", "engine") is None
    again = Engine(sums(tmp_path), run_dir=tmp_path / "run", resume=True)
    assert again.done == 3 and again.loaded["entry"] == entry and again.loaded["verified"]
    again.close()


def _dead(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# ---------------------------------------------------------------------------------------------------- the engine dies


def test_an_engine_that_dies_is_told_with_its_last_words(start, tmp_path):
    engine = start()
    step(engine)
    os.kill(engine.pid, signal.SIGSEGV)
    with pytest.raises(EngineDied, match=r"ended by signal 11 \(its last words: Fatal Python error: Seg") as caught:
        step(engine)
    assert caught.value.code == -signal.SIGSEGV
    assert "File" in caught.value.words and "\n" not in str(caught.value), "where it was, and one line to show"
    for _ in range(2):
        with pytest.raises(EngineDied):
            engine.save({"step": 1, "entry": None})
    engine.close()
    assert files(tmp_path / "run") == []


# ---------------------------------------------------------------------------------------------------- signals


def interrupted(engine, call) -> None:
    """A call during which this process gets a KeyboardInterrupt while it waits for the answer."""

    def interrupt():
        raise KeyboardInterrupt

    engine._hand_on = interrupt
    with pytest.raises(KeyboardInterrupt):
        call()
    del engine._hand_on


def test_wishes_by_signal_and_by_control_file_reach_it_and_answers_are_not_mixed_up(start, tmp_path, monkeypatch):
    engine = start()
    interrupted(engine, lambda: engine.sample({"prompt": "", "tokens": 2000, "temperature": 1.0, "seed": 1}))
    for _ in range(3):
        engine.signal("save")
    assert step(engine)["want"] == ["save"] == engine.poll()
    engine.save({"step": 1, "entry": None})
    assert engine.poll() == [] and step(engine)["want"] == []
    with monkeypatch.context() as without:
        without.delattr(signal, "SIGUSR1")
        engine.signal("save")
    until(lambda: not list((tmp_path / "run" / "control").iterdir()), "it does not look for control files")
    os.kill(engine.pid, signal.SIGUSR1)
    os.kill(engine.pid, signal.SIGTERM)
    os.kill(engine.pid, signal.SIGTERM)
    assert step(engine)["want"] == ["save", "stop"]
    assert engine.save({"step": 3, "entry": None, "wait": False})["sha256"] is None
    engine.signal("stop")
    engine.close()
    assert engine._process.returncode == 0
    assert files(tmp_path / "run") == [f"step_00000{n}.bin{end}" for n in (1, 3) for end in ("", ".sum")]


def test_left_alone_with_a_wish_it_sees_to_it_itself(start, tmp_path):
    engine = start()
    step(engine, segment=5, policy="p")
    engine.signal("save")
    until(lambda: "step_000001.bin" in files(tmp_path / "run"), "SIGUSR1 alone saves nothing")
    assert step(engine)["want"] == [], "the wish was met"
    engine.signal("stop")
    assert engine._process.wait(PATIENCE) == 0
    with pytest.raises(EngineDied, match="with exit code 0, the last step saved in step_000002.bin"):
        step(engine)
    answer = engine.save({"step": 2, "entry": None})
    assert answer["file"] == "step_000002.bin" and len(answer["sha256"]) == 64
    engine.close()
    assert read_sum(tmp_path / "run" / "step_000001.bin").entry["segment"] == 5


def test_a_save_of_its_own_that_fails_is_exit_code_75(start, tmp_path):
    engine = start(grace=0.0)
    step(engine)
    engine.signal("stop")
    assert step(engine) == {"step": 2, "dropped": True, "want": ["stop"]}, "a grace of nothing drops the step"
    shutil.rmtree(tmp_path / "run")
    assert engine._process.wait(PATIENCE) == 75
    with pytest.raises((SaveError, OSError)):
        engine.save({"step": 1, "entry": None})
    assert b"engine: " in engine._words
    with pytest.raises(EngineDied, match="exit code 75"):
        step(engine)
    engine.close()


def test_an_abort_ends_it_without_a_save(start, tmp_path):
    signals = Signals()
    engine = start(signals)
    step(engine)
    engine.save({"step": 1, "entry": None})
    step(engine)
    signals.ask("abort")
    with pytest.raises(Aborted):
        engine.sample({"prompt": "", "tokens": 5000, "temperature": 1.0, "seed": 1})
    assert engine._process.wait(PATIENCE) == 130
    signals.clear("abort")
    with pytest.raises(Aborted):
        step(engine)
    engine.close()
    assert files(tmp_path / "run") == ["step_000001.bin", "step_000001.bin.sum"]


def test_a_stop_asked_of_the_proxy_while_the_engine_starts_ends_both(tmp_path):
    signals = Signals()
    signals.ask("stop")
    with pytest.raises(Stopped, match="nothing was written"):
        EngineProcess(sums(tmp_path), tmp_path / "run", signals=signals)
