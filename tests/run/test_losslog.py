"""The loss log: every float32 survives, a crash tears at most the last line, nothing is ever rewritten."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from andrea_lab.run.losslog import LogError, LossLog, decode, encode, read_log, shortest

words = st.integers(0, 2**32 - 1)


def as_float(word: int) -> np.float32:
    return np.array([word], np.uint32).view(np.float32)[0]


@given(words)
@example(0x00000001)
@example(0x7F7FFFFF)
@example(0x80000000)
@example(0x7F800000)
@example(0xFF800000)
def test_every_float32_survives_the_log(word):
    value = as_float(word)
    line = encode({"step": 1, "loss": value})
    back = decode(line)["loss"]
    if math.isnan(value):
        assert math.isnan(back) and json.loads(line)["loss"] is None
    else:
        assert np.float32(back).tobytes() == value.tobytes()
    json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


@given(words)
def test_no_shorter_decimal_would_do(word):
    value = as_float(word)
    if not math.isfinite(value) or value == 0:
        return
    digits = len(shortest(value).lower().split("e")[0].replace(".", "").replace("-", "").strip("0"))
    assert digits <= 9
    if digits > 1:
        assert np.float32(f"{value:.{digits - 2}e}") != value


def test_non_finite_is_null_and_marked():
    line = encode({"step": 3, "loss": math.nan, "grad_norm": math.inf, "lr": 0.1})
    assert json.loads(line) == {
        "step": 3,
        "loss": None,
        "grad_norm": None,
        "lr": 0.1,
        "nonfinite": {"loss": "nan", "grad_norm": "inf"},
    }
    assert decode(line)["grad_norm"] == math.inf


def test_python_floats_are_written_as_float32():
    assert encode({"step": 1, "lr": 3e-4, "ms": 12.5}) == '{"step": 1, "lr": 0.0003, "ms": 12.5}'


def test_append_and_read(tmp_path):
    path = tmp_path / "run.loss.json"
    with LossLog(path) as log:
        for step in (1, 2):
            log.append({"step": step, "source": "quiz", "loss": 1.5 / step})
    with LossLog(path) as log:
        log.append({"step": 2, "source": "quiz", "loss": 9.0})
    read = read_log(path)
    assert [e["loss"] for e in read.entries] == [1.5, 0.75, 9.0] and not read.torn
    assert [e["loss"] for e in read.canonical()] == [1.5, 9.0]
    assert path.read_text().count("\n") == 3


def test_every_torn_tail_is_tolerated_reported_and_closed_off(tmp_path):
    path = tmp_path / "run.loss.json"
    first, second = (encode({"step": step, "loss": 0.25, "source": "ä"}).encode() + b"\n" for step in (1, 2))
    for cut in range(len(second)):
        path.write_bytes(first + second[:cut])
        read = read_log(path)
        whole = cut == len(second) - 1
        assert [e["step"] for e in read.entries] == ([1, 2] if whole else [1])
        assert read.torn == ([] if whole or cut == 0 else [2])
        with LossLog(path) as log:
            log.append({"step": 3, "loss": 0.125})
        assert path.read_bytes().startswith(first + second[:cut])
        assert [e["step"] for e in read_log(path).entries] == ([1, 2, 3] if whole else [1, 3])


def test_zeroed_tail_is_tolerated(tmp_path):
    path = tmp_path / "run.loss.json"
    path.write_bytes(encode({"step": 1, "loss": 0.5}).encode() + b"\n" + bytes(40))
    assert [e["step"] for e in read_log(path).entries] == [1]


def test_what_is_no_log_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"\x80\x81 binary\n{}\n")
    with pytest.raises(LogError, match="found no entry in 2 lines"):
        read_log(tmp_path / "a")
    with pytest.raises(LogError, match="No such file"):
        read_log(tmp_path / "b")
