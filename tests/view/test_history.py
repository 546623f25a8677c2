"""What counts of a log that went back and forth, against rules written out step by step."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab.run.average import averaged, keep_of
from andrea_lab.view.history import History, standing
from andrea_lab.view.records import LARGEST, MOST_SOURCES, OTHERS, Records

STEPS = st.lists(st.integers(0, 9), max_size=30)


def entry(step, loss=5.0, **more):
    return {"step": step, "segment": 1, "source": "kjv", "loss": loss, "grad_norm": 1.0, "clip": 1.0, "lr": 1e-3} | more


def history(entries, span=20):
    records = Records()
    assert records.add(entries) == 0
    return History(records.part(0, records.count), records.sources, span)


def by_hand(steps):
    """Indices of the records that stand, and the branches that were left, by the rule read word for word."""
    stands = []
    for index, step in enumerate(steps):
        stands = [other for other in stands if steps[other] < step] + [index]
    branches = []
    for index, step in enumerate(steps):
        if index not in stands:
            if branches and branches[-1][-1] == index - 1 and step > steps[index - 1]:
                branches[-1].append(index)
            else:
                branches.append([index])
    return stands, branches


@given(STEPS)
def test_a_record_makes_void_what_came_before_it_at_its_step_or_later(steps):
    stands, branches = by_hand(steps)
    assert np.flatnonzero(standing(np.array(steps, "i4"))).tolist() == stands
    got = history([entry(step, float(index)) for index, step in enumerate(steps)])
    assert got.values("loss").tolist() == stands and got.void == len(steps) - len(stands)
    assert got.steps().tolist() == sorted({steps[index] for index in stands})
    assert [losses.tolist() for _, losses in got.rewound()] == branches
    assert [left.tolist() for left, _ in got.rewound()] == [[steps[i] for i in branch] for branch in branches]


@given(STEPS, st.data())
def test_a_history_does_not_change_while_the_log_goes_on(steps, data):
    records = Records()
    records.add([entry(step) for step in steps])
    before = History(records.part(0, records.count), records.sources)
    expected = before.steps().tolist()
    for step in data.draw(STEPS):
        records.add([entry(step, -1.0)] * 100)
    assert before.steps().tolist() == expected and -1.0 not in before.values("loss")


def test_smoothing_is_a_weighted_mean_of_the_steps_so_far():
    losses = [5.0, 3.0, 4.0, 1.0]
    keep = 1 - 2 / 4
    for count in range(1, 5):
        expected = np.average(losses[:count], weights=keep ** np.arange(count)[::-1])
        got = history([entry(n + 1, loss) for n, loss in enumerate(losses[:count])], span=3).smoothed()
        assert got[-1] == pytest.approx(expected, rel=1e-6)


@given(st.lists(st.floats(-10, 10, width=32) | st.sampled_from([math.nan, math.inf, -math.inf, None]), max_size=40))
def test_smoothing_is_the_one_average_of_the_house(losses):
    got = history([entry(n + 1, loss) for n, loss in enumerate(losses)], span=7)
    plain = [math.nan if loss is None else loss for loss in losses]
    expected = [total / weight if weight else math.nan for total, weight in averaged(plain, keep_of(7))]
    np.testing.assert_array_equal(got.smoothed(), expected)


@pytest.mark.parametrize("bad", [None, math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_stays_visible_and_out_of_the_mean(bad):
    got = history([entry(1, 5.0), entry(2, bad), entry(3, 5.0)])
    assert (~np.isfinite(got.values("loss"))).tolist() == [False, True, False]
    assert got.smoothed().tolist() == pytest.approx([5.0, 5.0, 5.0])


def test_resumes_are_the_first_steps_of_later_segments():
    got = history([entry(step, segment=1 + (step > 3) + (step > 7)) for step in range(1, 10)])
    assert got.resumes().tolist() == [4, 8]


def test_a_span_below_one_step_is_refused():
    with pytest.raises(ValueError, match="smooth: found 0, expected"):
        history([], span=0)


@pytest.mark.parametrize(
    "wrong",
    [{"step": -1}, {"step": True}, {"step": 1.0}, {"step": "1"}, {"step": None}, {"step": LARGEST + 1}]
    + [{"step": 10**400}, {"segment": -1}, {"segment": "x"}, {"segment": LARGEST + 1}, {"segment": 1.5}],
)
def test_an_entry_without_a_step_or_segment_that_can_be_counted_is_left_out(wrong):
    records = Records()
    assert records.add([entry(1), entry(2) | wrong, entry(LARGEST)]) == 1
    assert records.part(0, 9)["step"].tolist() == [1, LARGEST]


def test_what_is_missing_or_no_number_is_nan_and_what_is_too_large_infinite():
    odd = ["5.0", [], {}, True, None, 10**400, -(10**400), 1e39, 7]
    records = Records()
    assert records.add([entry(n, loss) for n, loss in enumerate(odd)]) == 0
    nan, inf = math.nan, math.inf
    np.testing.assert_array_equal(records.part(0, 9)["loss"], [nan, nan, nan, nan, nan, inf, -inf, inf, 7])
    records.add([{"step": 1}])
    last = {name: column[-1] for name, column in records.part(0, 10).items()}
    assert last["segment"] == 0 and math.isnan(last["ms"]) and records.sources[last["source"]] == "?"


def test_sources_are_named_once_and_not_without_end():
    records = Records()
    names = ["a", "b", "a", None, 7, "x" * 200, *map(str, range(1000, 2000)), "a"]
    records.add([entry(n, source=name) for n, name in enumerate(names)])
    assert records.sources[:4] == ["a", "b", "?", "7"] and records.sources[4] == "x" * 77 + "..."
    assert len(records.sources) == MOST_SOURCES + 1 and records.sources[-1] == OTHERS
    assert records.part(0, 3)["source"].tolist() == [0, 1, 0]
    assert records.part(records.count - 2, records.count)["source"].tolist() == [MOST_SOURCES, 0]
    assert len(records._ids) <= MOST_SOURCES + 1


def test_smoothing_makes_no_object_a_step_that_lasts():
    count = 50_000
    got = history([entry(n + 1) for n in range(count)])
    tracemalloc.start()
    try:
        got.smoothed()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * count  # the losses as numbers of Python and some arrays; pairs alone would be over 100
