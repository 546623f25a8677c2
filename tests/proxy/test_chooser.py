"""The uniform chooser: a function of seed and step, draws numbered per source."""

import json
from collections import Counter

import pytest

from andrea_lab.proxy.chooser import Uniform

NAMES = ["a", "b", "c", "d", "e", "f"]


def test_same_seed_same_choices_in_any_order():
    first = Uniform(NAMES, 7)
    choices = [first.choose(step) for step in range(1, 60)]
    again = Uniform(NAMES, 7)
    assert [again.choose(step) for step in range(59, 0, -1)] == choices[::-1]
    assert again.choose(40) == choices[39] and again.choose(41) == choices[40]
    assert [Uniform(NAMES, 8).choose(step) for step in range(1, 50)] != choices[:49]


def test_draws_of_each_source_count_up_from_zero():
    chooser, seen = Uniform(NAMES, 1), Counter()
    for step in range(1, 500):
        source, draw = chooser.choose(step)
        assert draw == seen[source]
        seen[source] += 1


def test_every_source_has_the_same_chance():
    chooser = Uniform(NAMES, 3)
    counts = Counter(chooser.choose(step)[0] for step in range(1, 6001))
    assert set(counts) == set(NAMES) and all(850 < count < 1150 for count in counts.values())


def test_policy_names_what_is_chosen_from():
    assert Uniform(NAMES, 1).policy == Uniform(NAMES, 2).policy != Uniform(NAMES[:-1], 1).policy
    with pytest.raises(ValueError, match="found none"):
        Uniform([], 1)


def test_a_saved_state_goes_on_as_a_straight_run_does():
    straight = Uniform(NAMES, 5)
    choices = [straight.choose(step) for step in range(1, 80)]
    for cut in (1, 40, 79):
        first = Uniform(NAMES, 5)
        for step in range(1, cut + 1):
            first.choose(step)
        state = json.loads(json.dumps(first.state()))
        second = Uniform(NAMES, 5)
        assert second.restore(state) == [] and second.state() == first.state()
        assert [second.choose(step) for step in range(cut + 1, 80)] == choices[cut:]


def test_arms_without_a_source_are_dropped_and_named():
    chooser = Uniform(NAMES, 5)
    chooser.choose(30)
    state = chooser.state()
    again = Uniform(NAMES, 5)
    assert again.restore(state | {"draws": state["draws"] | {"repo-docstrings": 41}}) == ["repo-docstrings"]
    assert again.state() == state


def test_counts_of_other_sources_are_made_again():
    other, straight = Uniform([*NAMES, "g"], 5), Uniform(NAMES, 5)
    other.choose(30)
    straight.choose(30)
    again = Uniform(NAMES, 5)
    assert again.restore(other.state()) == ["g"] and again.state() == straight.state()


@pytest.mark.parametrize(
    "state", [{}, {"step": 3}, {"step": 3, "draws": [1, 2]}, {"step": True, "draws": {"a": 1}},
              {"step": 1, "draws": {"a": -1}}, {"step": 1.0, "draws": {"a": 1}}]
)  # fmt: skip
def test_a_state_that_is_none_is_refused_and_leaves_a_new_chooser(state):
    chooser = Uniform(NAMES, 5)
    chooser.choose(9)
    with pytest.raises(ValueError, match="expected a step and the draws of each source"):
        chooser.restore(state)
    assert chooser.state() == Uniform(NAMES, 5).state()


def test_learning_counts_up_to_the_entry():
    first, second = Uniform(NAMES, 5), Uniform(NAMES, 5)
    first.choose(12)
    second.learn({"step": 12})
    second.learn({"step": 4})
    assert second.state() == first.state()
