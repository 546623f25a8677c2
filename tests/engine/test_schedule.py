"""The learning rate against its formula."""

import math

import pytest

from andrea_lab.engine.schedule import learning_rate
from tests.engine.tiny import config


def test_warmup_is_linear_in_the_step_counted_from_one():
    train = config(lr=1.0, warmup=2000, steps=200_000).train
    level = [0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * t / 200_000)) for t in (0, 1000, 1999)]
    assert learning_rate(train, 1) == pytest.approx(0.0005 * level[0])
    assert learning_rate(train, 1001) == pytest.approx(0.5005 * level[1])
    assert learning_rate(train, 2000) == pytest.approx(level[2])


def test_cosine_ends_at_a_tenth():
    train = config(lr=3e-4, warmup=0, steps=1000).train
    rates = [learning_rate(train, step) for step in range(1, 1001)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(3e-4) and rates[500] == pytest.approx(0.55 * 3e-4)
    assert rates[-1] == pytest.approx(3e-5, rel=1e-3) and learning_rate(train, 5000) == pytest.approx(3e-5)
