"""Two runs compared: what differs from when on, and which converges."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab.model.config import load_config
from andrea_lab.run.compare import compare, smooth, span_of
from andrea_lab.run.directory import RunError
from andrea_lab.run.fork import fork
from andrea_lab.run.losslog import LogError, LossLog, encode
from tests.run.made import entry, logged, saved


def noise(step: int, seed: int = 0) -> float:
    return float(np.random.default_rng([seed, step]).normal()) * 0.1


def falling(first: int, last: int, to: float = 2.0, seed: int = 0) -> dict[int, float]:
    """Losses from 5.5 towards `to`, the noise a function of the step as with equal batches."""
    return {step: to + (5.5 - to) * math.exp(-step / 60) + noise(step, seed) for step in range(first, last + 1)}


def test_equal_runs_are_the_same(tmp_path):
    for name in "ab":
        logged(tmp_path / name, falling(1, 50))
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found["common"] == {"first": 1, "last": 50, "steps": 50, "span": 8}
    assert found["first_difference"] is found["first_loss_difference"] is None and found["config"] == {}
    assert found["converges"] == "same" and found["a"]["smoothed"] == found["b"]["smoothed"]


def test_the_lower_of_two_runs_of_different_length_at_the_last_common_step(tmp_path):
    logged(tmp_path / "long", falling(1, 400))
    logged(tmp_path / "short", falling(1, 120, to=1.0), lr=0.002)
    found = compare(tmp_path / "long", tmp_path / "short")
    assert found["common"]["last"] == 120 and (found["a"]["last"], found["b"]["last"]) == (400, 120)
    assert found["converges"] == "b" and found["a"]["smoothed"] > found["b"]["smoothed"] + 0.5
    assert found["why"].startswith("B (short) is lower by ") and "at step 120" in found["why"]
    assert found["config"] == {"train.lr": [0.001, 0.002]}
    assert compare(tmp_path / "short", tmp_path / "long")["converges"] == "a"


def test_segment_and_time_are_no_difference_and_the_first_other_field_is_named(tmp_path):
    a, b = (logged(tmp_path / name, {}) for name in "ab")
    for run, lr, later in ((a, 0.001, 4.0), (b, 0.002, 4.5)):
        with LossLog(run.log) as log:
            log.append(entry(1, 5.5, segment=1 + (run is b), ms=1.0 + (run is b)))
            log.append(entry(2, 5.0, lr=lr))
            log.append(entry(3, later, lr=lr))
    found = compare(a.path, b.path)
    assert found["first_difference"] == {"step": 2, "field": "lr", "a": 0.001, "b": 0.002}
    assert found["first_loss_difference"] == 3  # a step's loss is taken before its update


def test_the_last_entry_of_a_repeated_step_counts(tmp_path):
    a, b = (logged(tmp_path / name, falling(1, 20)) for name in "ab")
    with LossLog(b.log) as log:
        log.append(entry(20, 9.0))
        log.append(entry(20, falling(20, 20)[20]))
    assert compare(a.path, b.path)["first_difference"] is None


def test_a_run_that_diverged_does_not_converge_however_low_it_was(tmp_path):
    logged(tmp_path / "a", falling(1, 300))
    logged(tmp_path / "b", falling(1, 90, to=1.0) | {91: math.inf})
    found = compare(tmp_path / "a", tmp_path / "b")
    assert (found["b"]["diverged_at"], found["a"]["diverged_at"]) == (91, None)
    assert (found["converges"], found["why"]) == ("a", "A converges: B (b) diverged at step 91")
    assert found["first_difference"]["step"] == 1
    json.dumps(found, allow_nan=False)


def test_a_gradient_norm_that_is_not_finite_is_a_divergence(tmp_path):
    a, b = (logged(tmp_path / name, falling(1, 30)) for name in "ab")
    with LossLog(a.log) as log:
        log.append(entry(31, 2.0, grad_norm=math.nan))
    found = compare(a.path, b.path)
    assert found["a"]["diverged_at"] == 31 and found["converges"] == "b"


def test_neither_when_both_diverge(tmp_path):
    logged(tmp_path / "a", falling(1, 20) | {21: math.nan})
    logged(tmp_path / "b", {1: math.nan})
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found["converges"] == "neither" and found["b"]["smoothed"] == "nan"
    assert found["why"] == "neither converges: A (a) diverged at step 21, B (b) diverged at step 1"
    assert found["first_difference"] == {"step": 1, "field": "loss", "a": pytest.approx(5.4, abs=0.3), "b": "nan"}
    json.dumps(found, allow_nan=False)


def branch(tmp_path, name: str, losses: dict[int, float]):
    """A fork at step 100 of a run of 200 steps, which then logs `losses`."""
    parent = tmp_path / "parent"
    if not parent.exists():
        saved(parent, 100)
        losses_before = falling(1, 300) | {100: 4.5}  # as in the sum
        text = "".join(encode(entry(step, loss)) + "\n" for step, loss in losses_before.items())
        (parent / "parent.loss.json").write_text(text)
    made = fork(parent, 100, tmp_path / name, load_config(parent / "config.json").with_train(lr=0.5).to_json())
    with open(made.log, "a") as file:
        file.writelines(encode(entry(step, loss, lr=0.5)) + "\n" for step, loss in losses.items())
    return parent, made.path


def test_a_fork_and_its_parent(tmp_path):
    parent, hot = branch(tmp_path, "hot", {101: falling(101, 101)[101]} | falling(102, 180, to=1.0))
    found = compare(parent, hot)
    assert found["common"] == {"first": 100, "last": 180, "steps": 81, "span": 8}
    assert found["a"]["fork"] is None and found["b"]["fork"]["step"] == 100
    assert found["config"] == {"train.lr": [0.001, 0.5]}
    assert found["first_difference"]["step"] == 101 and found["first_difference"]["field"] == "lr"
    assert found["first_loss_difference"] == 102 and found["converges"] == "b"


def test_a_fork_that_rises_and_stays_finite_does_not_converge(tmp_path):
    parent, hot = branch(tmp_path, "hot", {step: 5.2 + noise(step) for step in range(101, 200)})
    found = compare(parent, hot)
    assert (found["b"]["rose"], found["a"]["rose"], found["converges"]) == (True, False, "a")
    assert found["why"].startswith("A converges: B (hot) rose to 5.1")
    _, worse = branch(tmp_path, "worse", {step: 5.4 + noise(step) for step in range(101, 200)})
    both = compare(hot, worse)
    assert both["converges"] == "neither" and "A (hot) rose" in both["why"] and "B (worse) rose" in both["why"]


def test_noise_around_a_level_is_no_rise(tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        logged(tmp_path / name, {step: 2.0 + noise(step, seed) for step in range(1, 400)})
    found = compare(tmp_path / "a", tmp_path / "b")
    assert not found["a"]["rose"] and not found["b"]["rose"] and found["converges"] in "ab"


def test_torn_lines_are_counted_and_passed_over(tmp_path):
    a, b = (logged(tmp_path / name, falling(1, 40)) for name in "ab")
    with open(b.log, "ab") as file:
        file.write(b'{"step": 41, "lo')
    with LossLog(b.log) as log:
        log.append(entry(41, 3.0))
    with open(b.log, "ab") as file:
        file.write(b"\0" * 100)
    found = compare(a.path, b.path)
    assert (found["a"]["torn"], found["b"]["torn"], found["b"]["last"]) == (0, 1, 41)
    assert found["converges"] == "same"


@pytest.mark.parametrize(
    ("losses", "extent"), [({}, "steps 1 to 5 and no step"), ({9: 1.0}, "steps 1 to 5 and steps 9 to 9")]
)
def test_runs_without_a_common_step(tmp_path, losses, extent):
    logged(tmp_path / "a", falling(1, 5))
    logged(tmp_path / "b", losses)
    with pytest.raises(RunError, match=f"found {extent}, expected a step in common"):
        compare(tmp_path / "a", tmp_path / "b")


def test_what_is_no_run_is_named(tmp_path):
    run = logged(tmp_path / "a", falling(1, 5))
    with pytest.raises(RunError, match="b: found no folder, expected a run directory"):
        compare(tmp_path / "a", tmp_path / "b")
    logged(tmp_path / "b", {}).log.unlink()
    with pytest.raises(LogError, match=r"b\.loss\.json: found No such file or directory"):
        compare(tmp_path / "a", tmp_path / "b")
    run.log.write_bytes(b"\x93\xff\n")
    with pytest.raises(LogError, match="found no entry in 1 lines"):
        compare(tmp_path / "a", tmp_path / "a")


def test_a_config_that_cannot_be_read_is_left_out(tmp_path):
    for name in "ab":
        logged(tmp_path / name, falling(1, 5))
    (tmp_path / "b" / "config.json").write_text("{")
    assert compare(tmp_path / "a", tmp_path / "b")["config"] == {}


@given(
    st.lists(st.floats(-10, 10) | st.sampled_from([math.nan, math.inf]), min_size=1, max_size=40), st.integers(1, 30)
)
def test_smoothed_losses_are_the_weighted_mean_of_the_finite_ones(losses, span):
    keep, made = 1 - 2 / (span + 1), smooth(losses, span)
    assert len(made) == len(losses)
    seen = [loss for loss in losses if math.isfinite(loss)]
    if not seen:
        assert math.isnan(made[-1])
        return
    weights = [keep ** (len(seen) - 1 - i) for i in range(len(seen))]
    assert made[-1] == pytest.approx(np.average(seen, weights=weights), abs=1e-9)


def test_the_span_follows_the_length():
    assert [span_of(n) for n in (1, 160, 1_000, 4_000, 200_000)] == [8, 8, 50, 200, 200]
