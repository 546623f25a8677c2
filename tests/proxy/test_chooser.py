"""The uniform chooser: a function of seed and step, draws numbered per source."""

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
