"""The loss log: every float32 survives, a crash tears at most the last line, nothing is ever rewritten."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from andrea_lab.run.losslog import (
    Audit,
    LogError,
    LossLog,
    decode,
    encode,
    entries_after,
    last_entry,
    read_log,
    shortest,
)

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


def write_lines(path, *lines):
    path.write_bytes(b"".join(line if isinstance(line, bytes) else encode(line).encode() + b"\n" for line in lines))


def test_a_repeated_step_crlf_and_zeros_in_the_middle(tmp_path):
    path = tmp_path / "run.loss.json"
    write_lines(
        path,
        {"step": 1, "loss": 4.0},
        b'{"step": 2, "loss": 3.0}\r\n',
        {"step": 3, "loss": math.nan},
        b"\0" * 9 + b"\n",
        {"step": 2, "loss": 3.5},
        b'\0\0\0{"step": 3, "loss": 2.5}\n',
        b'{"step": 4, "los\n',
    )
    read = read_log(path)
    assert [(e["step"], e["loss"]) for e in read.canonical()] == [(1, 4.0), (2, 3.5), (3, 2.5)]
    assert len(read.entries) == 5 and read.torn == [7]
    assert last_entry(path) == {"step": 3, "loss": 2.5}
    assert entries_after(path, 2) == {3: {"step": 3, "loss": 2.5}}


@pytest.mark.parametrize(
    "line",
    ['{"step": 1.0}', '{"step": true}', '{"step": "1"}', "{}", "[]", "null", "{", "[" * 100_000, "\ud800"]
    + ['{"step": 1, "nonfinite": 3}', '{"step": 1, "nonfinite": null}'],
)
def test_what_is_no_entry_is_refused(line):
    with pytest.raises(ValueError):
        decode(line)


def test_a_mark_never_replaces_a_value():
    line = '{"step": 1, "loss": 2.5, "lr": null, "nonfinite": {"step": "nan", "loss": "inf", "lr": "x", "no": "nan"}}'
    assert decode(line) == {"step": 1, "loss": 2.5, "lr": None}


def test_a_log_that_is_not_there_or_empty_has_no_last_entry(tmp_path):
    path = tmp_path / "run.loss.json"
    assert last_entry(path) is None and entries_after(path, 0) == {}
    path.write_bytes(b"\0\0\n\r\n{\n")
    assert last_entry(path) is None and entries_after(path, -1) == {}
    with pytest.raises(LogError, match="found a folder, expected a loss log"):
        last_entry(tmp_path)


runs = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 8)), max_size=8)
torn = st.sampled_from([b"", b"\n", b'{"step": 3, "lo\n', b"\0\0\0\n", b"\r\n", b'{"step": 2.5}\n'])


@given(runs, st.lists(torn, max_size=8), st.integers(-1, 15), st.integers(1, 200))
def test_the_end_of_a_log_with_rewinds_reads_as_a_plain_reading_does(tmp_path_factory, runs, torn, step, block):
    """Each run goes on from some step, so the log jumps; a line makes void what was logged of later steps before it."""
    path = tmp_path_factory.getbasetemp() / "rewinds"
    rows, found, last = [], {}, None
    for segment, (first, count) in enumerate(runs, 1):
        for number in range(first, first + count):
            last = {"step": number, "segment": segment, "loss": number / 4}
            found = {key: entry for key, entry in found.items() if key < number}
            found |= {number: last} if number > step else {}
            rows.append(last)
        rows += torn[segment - 1 : segment]
    write_lines(path, *rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("andrea_lab.run.lines.BLOCK", block)
        assert entries_after(path, step) == found and list(entries_after(path, step)) == sorted(found)
        assert last_entry(path) == last


def test_a_second_replay_is_compared_with_the_first_and_not_with_what_it_left_behind(tmp_path):
    """Steps 1 to 6 on one machine; two resumes after step 2 on another, whose step 4 is the first to differ."""
    path = tmp_path / "run.loss.json"
    first = [{"step": step, "segment": 1, "loss": step / 2} for step in range(1, 7)]
    other = [{"step": step, "segment": 2, "loss": step / 4} for step in (4, 5)]
    write_lines(path, *first)
    audit = Audit(entries_after(path, 2))
    answers = [audit.see(entry) for entry in (first[2], *other)]
    assert answers == ["equal", "different", "different"]
    write_lines(path, *first, *other)
    audit = Audit(entries_after(path, 2))
    assert [audit.see(entry) for entry in (first[2], *other, {"step": 6, "loss": 1.5})] == ["equal"] * 3 + ["new"]


numbers = st.integers(-(2**40), 2**40)
floats = st.floats(width=32) | st.integers(0, 2**32 - 1).map(as_float).map(float)
values = st.none() | st.booleans() | numbers | floats | st.text(max_size=5) | st.lists(numbers, max_size=2)
names = st.sampled_from(["source", "draw", "tokens", "loss", "grad_norm", "clip", "lr", "policy"])
entries = st.fixed_dictionaries({"step": st.integers(1, 20)}, optional={"segment": numbers, "ms": floats}).flatmap(
    lambda fixed: st.dictionaries(names, values, min_size=1).map(lambda rest: fixed | rest)
)


def logged(*entries):
    """The entries as a log gives them back."""
    return {entry["step"]: decode(encode(entry)) for entry in entries}


@given(st.lists(entries, max_size=8), st.integers(2, 9), floats)
def test_an_equal_replay_is_equal_throughout(entries, segment, ms):
    expected = logged(*entries)
    audit = Audit(expected)
    canonical = {entry["step"]: entry for entry in entries}
    for entry in canonical.values():
        assert audit.see(entry | {"segment": segment, "ms": ms}) == "equal"
    count = len(expected)
    counts = {"logged": count, "replayed": count, "equal": count, "different": 0}
    assert audit.summary() == counts | {"first": None}
    assert audit.see({"step": 21}) == "new" and audit.summary() == counts | {"first": None}


@given(entries, st.data())
def test_any_changed_field_is_found_and_named(entry, data):
    name = data.draw(st.sampled_from([key for key in entry if key not in ("step", "segment", "ms")]))
    changed = dict(entry)
    if data.draw(st.booleans()):
        del changed[name]
    else:
        other = data.draw(values.filter(lambda value: encode({"x": value}) != encode({"x": entry[name]})))
        changed[name] = other
    for before, now in ((entry, changed), (changed, entry)):
        audit = Audit(logged(before))
        assert audit.see(now) == "different"
        first = json.loads(json.dumps(audit.summary(), allow_nan=False))["first"]
        assert (first["step"], first["field"]) == (entry["step"], name)
        assert set(first) == {"step", "field", "logged", "now"}


def test_the_first_difference_is_kept_and_the_counts_add_up():
    audit = Audit(logged(*({"step": step, "loss": step / 2, "lr": 0.1, "ms": 1.0} for step in (1, 2, 3, 4))))
    answers = [audit.see({"step": s, "loss": loss, "lr": 0.1, "ms": 2.0}) for s, loss in ((2, 1.0), (3, math.inf))]
    assert answers == ["equal", "different"] and audit.see({"step": 4, "loss": 2.0, "lr": 0.2}) == "different"
    assert audit.see({"step": 5, "loss": 0.0}) == "new"
    assert audit.summary() == {
        "logged": 4,
        "replayed": 3,
        "equal": 1,
        "different": 2,
        "first": {"step": 3, "field": "loss", "logged": 1.5, "now": "inf"},
    }


def test_zeros_of_both_signs_and_kinds_of_nothing_differ():
    pairs = [(0.0, -0.0), (math.nan, None), (math.nan, math.inf), (math.inf, -math.inf), (1, 1.0), (1, True)]
    for before, now in pairs:
        assert Audit(logged({"step": 1, "loss": before})).see({"step": 1, "loss": now}) == "different"
    assert Audit(logged({"step": 1, "lr": 3e-4})).see({"step": 1, "lr": np.float32(3e-4)}) == "equal"
