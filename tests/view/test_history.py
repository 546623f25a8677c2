"""The log reader behind the live view: what is new, what is torn, what was repeated."""

import math

import numpy as np
import pytest

from andrea_lab.run.losslog import LossLog, encode
from andrea_lab.view.history import History, Tail, envelope


def entry(step, loss, **more):
    return {"step": step, "segment": 1, "source": "kjv", "loss": loss, "grad_norm": 1.0, "clip": 1.0, "lr": 1e-3} | more


def history(entries, smooth=20):
    made = History(smooth)
    for one in entries:
        made.add(one)
    return made


def test_tail_reads_only_what_is_new(tmp_path):
    path = tmp_path / "a.loss.json"
    tail = Tail(path)
    assert tail.read() == ([], False)
    with LossLog(path) as log:
        log.append(entry(1, 5.0))
        assert [e["step"] for e in tail.read()[0]] == [1]
        log.append(entry(2, 4.0))
        log.append(entry(3, 3.0))
        assert [e["step"] for e in tail.read()[0]] == [2, 3]
    assert tail.read() == ([], False)


def test_tail_waits_for_the_newline_of_a_torn_line(tmp_path):
    path = tmp_path / "a.loss.json"
    line = encode(entry(2, 4.0)) + "\n"
    path.write_text(encode(entry(1, 5.0)) + "\n" + line[:17])
    tail = Tail(path)
    assert [e["step"] for e in tail.read()[0]] == [1]
    with open(path, "a") as file:
        file.write(line[17:])
    assert [e["step"] for e in tail.read()[0]] == [2]
    assert tail.damaged == 0


def test_tail_counts_a_line_a_crash_tore_and_goes_on(tmp_path):
    path = tmp_path / "a.loss.json"
    path.write_text(encode(entry(1, 5.0)) + '\n{"step": 2, "lo')
    with LossLog(path) as log:
        log.append(entry(2, 4.0, segment=2))
    tail = Tail(path)
    assert [e["step"] for e in tail.read()[0]] == [1, 2]
    assert tail.damaged == 1


def test_tail_starts_again_when_the_file_became_shorter(tmp_path):
    path = tmp_path / "a.loss.json"
    path.write_text("".join(encode(entry(step, 5.0)) + "\n" for step in (1, 2, 3)))
    tail = Tail(path)
    tail.read()
    path.write_text(encode(entry(1, 7.0)) + "\n")
    entries, restarted = tail.read()
    assert restarted and [e["loss"] for e in entries] == [7.0]


def test_the_last_line_of_a_step_wins_and_the_earlier_is_kept_aside():
    got = history([entry(1, 5.0), entry(2, 4.0), entry(3, 3.0), entry(2, 4.5, segment=2)])
    assert got.steps().tolist() == [1, 2, 3]
    assert got.values("loss").tolist() == [5.0, 4.5, 3.0]
    assert got.replaced == [(2, 4.0)]


def test_a_step_written_late_takes_its_place():
    got = history([entry(1, 5.0), entry(4, 3.0), entry(3, 3.5)])
    assert got.steps().tolist() == [1, 3, 4]
    assert got.values("loss").tolist() == [5.0, 3.5, 3.0]
    assert got.replaced == []


def test_smoothing_is_a_weighted_mean_of_the_steps_so_far():
    losses = [5.0, 3.0, 4.0, 1.0]
    keep = 1 - 2 / 4
    for count in range(1, 5):
        weights = keep ** np.arange(count)[::-1]
        expected = np.average(losses[:count], weights=weights)
        got = history([entry(n + 1, loss) for n, loss in enumerate(losses[:count])], smooth=3).smoothed()
        assert got[-1] == pytest.approx(expected, rel=1e-12)


def test_smoothing_is_taken_anew_from_a_repeated_step():
    first = [entry(step, 6.0 - step) for step in range(1, 6)]
    got = history(first)
    got.smoothed()
    got.add(entry(3, 9.0, segment=2))
    clean = history([*first[:2], entry(3, 9.0), *first[3:]])
    assert got.smoothed().tolist() == clean.smoothed().tolist()


@pytest.mark.parametrize("bad", [None, math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_stays_visible_and_out_of_the_mean(bad):
    got = history([entry(1, 5.0), entry(2, bad), entry(3, 5.0)])
    assert (~np.isfinite(got.values("loss"))).tolist() == [False, True, False]
    assert got.smoothed().tolist() == pytest.approx([5.0, 5.0, 5.0])


def test_resumes_are_the_first_steps_of_later_segments():
    got = history([entry(step, 1.0, segment=1 + (step > 3) + (step > 7)) for step in range(1, 10)])
    assert got.resumes().tolist() == [4, 8]


def test_a_span_below_one_step_is_refused():
    with pytest.raises(ValueError, match="smooth: found 0, expected"):
        History(0)


def test_envelope_keeps_every_extreme():
    steps = np.arange(1, 100_001)
    values = np.sin(steps / 9000.0)
    values[[33_333, 77_777]] = 50.0, -50.0
    x, low, high = envelope(steps, values, 0, 100_000, 800)
    assert len(x) == 800
    assert high.max() == 50.0 and low.min() == -50.0
    assert high[int(33_334 * 800 / 100_000)] == 50.0
    assert (low <= high).all()


def test_envelope_of_columns_without_a_finite_value():
    values = np.array([1.0, np.nan, np.inf, 2.0, np.nan, 4.0])
    x, low, high = envelope(np.arange(6), values, 0, 6, 3)
    assert x.tolist() == [1.0, 3.0, 5.0]
    assert low.tolist() == [1.0, 2.0, 4.0] and high.tolist() == [1.0, 2.0, 4.0]
    _, low, _ = envelope(np.arange(2), np.array([np.nan, np.inf]), 0, 2, 1)
    assert np.isnan(low).all()
