"""The log as it grows: what is new, what is torn, what was replaced; and that blocks say the same as lines."""

import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from andrea_lab.run.losslog import LossLog, decode, encode
from andrea_lab.view import tail as module
from andrea_lab.view.records import LARGEST, Records
from andrea_lab.view.tail import Tail

WHOLE = 2**40


def entry(step, loss=5.0, **more):
    return {"step": step, "segment": 1, "source": "kjv", "loss": loss, "grad_norm": 1.0, "clip": 1.0, "lr": 1e-3} | more


def line(step, loss=5.0, **more):
    return encode(entry(step, loss, **more)).encode() + b"\n"


class Reader:
    """A tail and the log it reads."""

    def __init__(self, folder):
        self.path, self.records = folder / "a.loss.json", Records()
        self.tail = Tail(self.records)

    def read(self, limit=WHOLE):
        return self.tail.read(self.path, limit)

    @property
    def steps(self):
        return self.records.part(0, self.records.count)["step"].tolist()


@pytest.fixture
def log(tmp_path):
    return Reader(tmp_path)


def test_only_what_is_new_is_read(log):
    assert not log.read() and log.steps == []
    with LossLog(log.path) as writer:
        writer.append(entry(1))
        assert log.read() and log.steps == [1]
        writer.append(entry(2))
        writer.append(entry(3))
        assert log.read() and log.steps == [1, 2, 3]
    assert not log.read() and log.tail.generation == 1


def test_a_line_without_its_newline_is_waited_for(log):
    log.path.write_bytes(line(1) + line(2)[:17])
    log.read()
    assert log.steps == [1]
    with open(log.path, "ab") as file:
        file.write(line(2)[17:])
    assert log.read() and log.steps == [1, 2] and log.tail.unreadable == 0


def test_a_line_that_a_crash_tore_is_counted_and_passed_over(log):
    log.path.write_bytes(line(1) + b'{"step": 2, "lo')
    with LossLog(log.path) as writer:
        writer.append(entry(2, segment=2))
    log.read()
    assert log.steps == [1, 2] and log.tail.unreadable == 1


@pytest.mark.parametrize(
    "after", [line(1, 7.0), line(1, 7.0) * 9, b"", None], ids=["shorter", "longer", "emptied", "removed"]
)
def test_a_log_that_was_replaced_is_read_from_its_start(log, after):
    log.path.write_bytes(line(1) + line(2) + line(3))
    log.read()
    if after is None:
        log.path.unlink()
    else:
        log.path.write_bytes(after)
    assert log.read() and log.tail.generation == 2
    assert log.steps == [1] * (after or b"").count(b"\n")
    assert not log.read() and log.tail.generation == 2


def test_a_log_replaced_by_the_same_and_more_goes_on(log):
    log.path.write_bytes(line(1) + line(2))
    log.read()
    copy = log.path.with_name("copy")
    copy.write_bytes(line(1) + line(2) + line(3))
    os.replace(copy, log.path)
    assert log.read() and log.steps == [1, 2, 3] and log.tail.generation == 1


def test_an_enormous_line_costs_no_memory_and_counts_once(log, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 1000)
    log.path.write_bytes(line(1) + b"x" * 10_300)
    assert log.read() and log.steps == [1] and log.tail.unreadable == 1
    with open(log.path, "ab") as file:
        file.write(b"y" * 5000)
    assert log.read() and log.tail.unreadable == 1
    with open(log.path, "ab") as file:
        file.write(b"\n" + line(2) + line(3))
    assert log.read() and log.steps == [1, 2, 3] and log.tail.unreadable == 1


def test_a_limit_leaves_the_rest_for_the_next_time(log, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 1000)
    log.path.write_bytes(b"".join(line(step) for step in range(100)))
    seen = [0]
    while log.read(limit=2000):
        assert seen[-1] < len(log.steps) <= seen[-1] + 30
        seen.append(len(log.steps))
    assert log.steps == list(range(100)) and len(seen) > 3 and not log.tail.behind


@pytest.mark.parametrize("make", ["folder", "link", "pipe", "no rights"])
def test_what_is_no_log_is_a_problem_until_it_is_one(log, make, tmp_path):
    if make == "no rights" and os.geteuid() == 0:
        make = "folder"  # whoever may read everything has no such problem
    if make == "link":
        (tmp_path / "other").write_bytes(line(1))
    {"folder": log.path.mkdir, "link": lambda: log.path.symlink_to(tmp_path / "other"), "pipe": lambda: os.mkfifo(
        log.path), "no rights": lambda: (log.path.touch(), log.path.chmod(0))}[make]()  # fmt: skip
    assert log.read() and log.tail.problem and log.steps == []
    assert not log.read(), "the same problem is no news"
    log.path.rmdir() if make == "folder" else log.path.unlink()
    log.path.write_bytes(line(5))
    assert log.read() and log.tail.problem is None and log.steps == [5]


JUNK = st.binary(max_size=12).map(lambda found: found.replace(b"\n", b""))
TEXT = st.sampled_from([b"{}", b"", b"\0\0", b"[1]", b'{"step":1},{"step":2}', b'{"step": 1, "x": [1', b"2]}", b"null"])
GOOD = st.builds(
    lambda step, loss, more: encode(entry(step, loss) | more).encode(),
    st.integers(0, 20) | st.sampled_from([-1, LARGEST, LARGEST + 1, 2**80]),
    st.floats(width=32),
    st.dictionaries(st.sampled_from(["note", "segment", "source", "ms"]), st.integers() | st.text() | st.none()),
)


@given(st.lists(GOOD | TEXT | JUNK, max_size=12), st.integers(1, 60), st.booleans())
@example([b'{"step":1,"a":[1', b"2]}", b'{"step":1},{"step":2}'], 60, True)
@example([b'{"step": 1, "nonfinite": []}'], 60, True)
def test_garbage_of_any_kind_leaves_the_entries_between_it(tmp_path_factory, lines, size, whole):
    log = Reader(tmp_path_factory.mktemp("log"))
    expected, unreadable = Records(), 0
    for text in lines:
        try:
            if text.strip(b"\r\0 \t"):
                unreadable += expected.add([decode(text)])
        except ValueError:
            unreadable += 1
    data = b"".join(text + b"\n" for text in lines)
    for at in range(0, len(data), max(len(data) if whole else size, 1)):
        with open(log.path, "ab") as file:
            file.write(data[at : at + (len(data) if whole else size)])
        log.read()
    assert log.records.sources == expected.sources and log.tail.unreadable == unreadable
    for name, column in log.records.part(0, log.records.count).items():
        assert column.tobytes() == expected.part(0, expected.count)[name].tobytes(), name
