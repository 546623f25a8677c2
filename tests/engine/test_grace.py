"""After a stop: a step that fits the grace is finished, one that does not is dropped and repeated bit for bit."""

import numpy as np
import pytest

from andrea_lab.engine import grace as module
from andrea_lab.engine.grace import LAST, Grace, p95
from tests.engine.tiny import config, engine, one, vectors


class Poll:
    """A poll that asks for a stop from its n-th call on, counted from `arm`."""

    def __init__(self):
        self.left = None

    def arm(self, calls: int) -> None:
        self.left = calls

    def __call__(self) -> list[str]:
        if self.left is not None:
            self.left -= 1
        return ["stop"] if self.left is not None and self.left < 0 else []


def made(tmp_path, poll, grace):
    cfg = config(batch=1, microbatches=4, grace=grace, gemm="kernels")
    return engine(cfg, run_dir=tmp_path, poll=poll)


@pytest.mark.parametrize("calls", [0, 1, 3, 4])
def test_a_step_that_does_not_fit_is_dropped_and_a_resume_repeats_it(tmp_path, calls):
    poll = Poll()
    stopped, whole = made(tmp_path, poll, grace=0.0), made(tmp_path / "x", list, grace=0.0)
    one(stopped)
    before = vectors(stopped)
    poll.arm(calls)
    assert one(stopped) == {"step": 2, "dropped": True, "want": ["stop"]}
    after = vectors(stopped)
    assert stopped.done == 1 and not after["gradients"].any()
    assert all(after[name].tobytes() == before[name].tobytes() for name in before)
    stopped.save({"step": 1, "entry": {"step": 1}})
    stopped.close()

    (tmp_path / "x").mkdir()
    expected = [one(whole) for _ in range(3)][1:]
    again = engine(stopped.config, run_dir=tmp_path, resume=True)
    found = [one(again) for _ in range(2)]
    assert [r | {"ms": 0} for r in found] == [r | {"ms": 0} for r in expected]
    for name, array in vectors(again).items():
        assert array.tobytes() == vectors(whole)[name].tobytes(), name
    again.close(), whole.close()


@pytest.mark.parametrize("grace", [None, 3600.0])
def test_a_step_that_fits_is_finished(tmp_path, grace):
    poll = Poll()
    going = made(tmp_path, poll, grace)
    one(going)
    poll.arm(1)
    assert one(going)["want"] == ["stop"] and going.done == 2
    going.close()


def test_the_same_engine_goes_on_after_a_dropped_step(tmp_path):
    poll = Poll()
    going, whole = made(tmp_path, poll, grace=0.0), engine(config(batch=1, microbatches=4, gemm="kernels"))
    poll.arm(2)
    assert one(going)["dropped"]
    poll.left = None
    assert one(going)["loss"] == one(whole)["loss"]
    assert np.array_equal(vectors(going)["weights"], vectors(whole)["weights"])
    going.close()


@pytest.fixture
def now(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(module, "monotonic", lambda: clock[0])
    return clock


def test_what_is_left_is_weighed_against_the_grace(now):
    grace = Grace(30.0, nbytes=10**9)
    assert not Grace(None, 10**9).over(0.0, 5.0, 0.5, [1e9]), "no grace is all the time there is"
    assert grace.over(1000.0, 0.0, 0.0, ()), "nothing known, nothing lost"
    assert grace.over(1000.0, 12.0, 0.5, ()) is False  # 12 s left of the step, 10 s for 10^9 bytes
    assert grace.over(1000.0, 12.0, 0.3, ()) is True  # 28 s left of it
    assert grace.over(980.0, 12.0, 0.5, ()) is True  # 20 s of the grace are gone
    for _ in range(20):
        grace.note(10.0)
    assert grace.over(1000.0, 4.0, 0.1, [3.5]) is False  # 6 s and 3.5 s
    assert grace.over(979.0, 4.0, 0.1, [3.5]) is True
    assert grace.over(981.0, 4.0, 0.1, [3.5]) is False
    assert grace.over(981.0, 4.0, 0.1, [3.5], True) is True, "the save under way has to end first"
    assert grace.over(980.0, 4.0, 0.1, [3.5, 25.0]) is True, "the slow save counts"
    assert grace.over(975.0, 400.0, 0.9, [3.5]) is False, "a step that is late is about to end"


def test_the_estimate_is_of_the_last_steps(now):
    grace = Grace(30.0, 1)
    for _ in range(LAST):
        grace.note(1000.0)
    assert grace.over(1000.0, 0.0, 0.0, [1.0])
    for _ in range(LAST):
        grace.note(1.0)
    assert not grace.over(1000.0, 0.0, 0.0, [1.0])


@pytest.mark.parametrize(("values", "expected"), [([5.0], 5.0), ([1.0, 2.0], 2.0), (list(range(100, 0, -1)), 95)])
def test_p95(values, expected):
    assert p95(values) == expected
