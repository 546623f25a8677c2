"""Lines of JSON on a pipe, and exceptions carried over them."""

import json
import math
import os
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab.checkpoint.lock import LockError
from andrea_lab.checkpoint.save import SaveError
from andrea_lab.checkpoint.single import CheckpointError
from andrea_lab.engine import lines as module
from andrea_lab.engine.carried import CARRIED, from_plain, known, to_plain
from andrea_lab.engine.errors import EngineError, TrainingStopped, wanted
from andrea_lab.engine.lines import Lines, from_line, send, to_line
from andrea_lab.engine.signals import Aborted, Stopped
from andrea_lab.model.config import ConfigError
from andrea_lab.text import TextError
from kernels.target import KernelError, KernelRefused

keys = st.text(max_size=4)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
values = leaves | st.lists(leaves, max_size=3) | st.dictionaries(keys, leaves, max_size=3)


@given(st.dictionaries(keys, values, max_size=4))
def test_what_goes_out_comes_back(value):
    line = to_line(value)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert from_line(line) == value


def test_what_json_does_not_have_travels_marked():
    line = to_line({"loss": math.nan, "more": [math.inf, {"norm": -math.inf}], "ok": 1.5})
    assert b"NaN" not in line and b"Infinity" not in line
    found = from_line(line)
    assert math.isnan(found["loss"]) and found["more"] == [math.inf, {"norm": -math.inf}] and found["ok"] == 1.5


GARBAGE = [b"", b"{", b"[]", b"1", b"null", b"\xff\xfe", b'{"a": NaN}', b'{"a": Infinity}', b"[" * 100_000, b"\0"]


@pytest.mark.parametrize("line", GARBAGE, ids=lambda line: repr(line[:12]))
def test_garbage_is_one_line_of_complaint(line):
    with pytest.raises(EngineError, match="line: found .*expected a JSON object") as caught:
        from_line(line)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_a_complaint(line):
    with suppress(EngineError):
        assert isinstance(from_line(line), dict)


def read(fd: int) -> list[bytes]:
    lines = Lines(fd)
    found = []
    while (line := lines.get(30)) is not None:
        found.append(line)
    assert lines.get(0) is None, "the end stays the end"
    return found


@given(st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=8), st.data())
def test_lines_come_whole_however_the_pipe_cuts_them(sent, data):
    stream = b"".join(line + b"\n" for line in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    out, into = os.pipe()
    try:
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            os.write(into, stream[start:end])
    finally:
        os.close(into)
    assert read(out) == sent
    os.close(out)


def test_a_line_without_an_end_is_a_line_and_one_that_is_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(module, "LONGEST", 100)
    out, into = os.pipe()
    os.write(into, b"x" * 60_000 + b"\n" + b'{"do": "poll"}\n{"do"')
    os.close(into)
    long, good, last = read(out)
    os.close(out)
    with pytest.raises(EngineError, match="found more than 100 bytes"):
        from_line(long)
    assert from_line(good) == {"do": "poll"} and last == b'{"do"'


def test_waiting_for_a_line_ends_in_time():
    out, into = os.pipe()
    lines = Lines(out)
    with pytest.raises(TimeoutError):
        lines.get(0.01)
    send(into, {"a": 1})
    assert lines.get(30) == b'{"a": 1}'
    os.close(into)
    assert lines.get(30) is None
    os.close(out)


ERRORS = [
    EngineError("step: found 1, expected 2"),
    ConfigError("train.lr: found -1"),
    TextError("text"),
    KernelError("kernel"),
    LockError("RUN: found engine 12"),
    CheckpointError("step_000001.bin: torn", "torn"),
    SaveError("disk full", 28, committed=True),
    Aborted("aborted"),
    Stopped("stopped"),
    MemoryError("too much"),
    OSError(28, "No space left on device", "/x"),
    FileNotFoundError(2, "No such file or directory", "/y"),
    TrainingStopped(7, "layer0.q", "lower lr", {"step": 7, "loss": math.nan, "grad_norm": math.inf, "want": []}),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_exceptions_are_carried_by_type_with_their_fields(error):
    found = from_plain(from_line(to_line(to_plain(error))))
    assert type(found) is type(error) and str(found) == str(error)
    assert to_line(vars(found)) == to_line(vars(error)), "the same fields, not-a-number included"
    if isinstance(error, OSError):
        assert (found.errno, found.filename) == (error.errno, error.filename)


def test_a_subtype_is_carried_as_its_nearest_type_and_a_stranger_as_a_runtime_error():
    assert type(from_plain(to_plain(KernelRefused("f.py:3: rule")))) is KernelError
    assert known(ZeroDivisionError()) is None
    found = from_plain(to_plain(ZeroDivisionError("float division\nby zero")))
    assert type(found) is RuntimeError and str(found) == "ZeroDivisionError: float division"
    hidden = EngineError("x")
    hidden.array = object()
    assert to_plain(hidden)["fields"] == {}
    assert len({kind.__name__ for kind in CARRIED}) == len(CARRIED)


WRONG = [
    ({}, int, "nothing, expected a whole number"),
    ({"n": None}, int, "nothing, expected a whole number"),
    ({"n": True}, int, "True, expected a whole number"),
    ({"n": 1.0}, int, "1.0, expected a whole number"),
    ({"n": "1"}, float, "'1', expected a number"),
    ({"n": 1}, str, "1, expected text"),
    ({"n": [1]}, dict, r"\[1\], expected an object"),
    ({"n": 0}, bool, "0, expected true or false"),
]


@pytest.mark.parametrize(("request_", "kind", "text"), WRONG)
def test_a_field_of_another_kind_is_refused(request_, kind, text):
    with pytest.raises(EngineError, match=f"verb: n: found {text}"):
        wanted(request_, "verb", "n", kind)


def test_fields_that_fit():
    request = json.loads('{"n": 3, "x": 2, "s": "t", "d": {}, "b": false}')
    assert wanted(request, "v", "n", int) == 3 and wanted(request, "v", "x", float) == 2.0
    assert isinstance(wanted(request, "v", "x", float), float)
    assert wanted(request, "v", "s", str) == "t" and wanted(request, "v", "b", bool) is False
    assert wanted(request, "v", "missing", dict, {"a": 1}) == {"a": 1}
