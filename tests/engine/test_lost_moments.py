"""What a resume without m and v would do: no step of size 0, but steps of several times the learning rate."""

import numpy as np
import pytest

from andrea_lab.engine.schedule import learning_rate
from kernels.reference import adamw
from tests.engine.tiny import config


def moves(gradients, t: int) -> np.ndarray:
    """How many learning rates each step moves weights whose m and v are 0, the first step being number t + 1."""
    w = m = v = np.zeros(np.shape(gradients)[1:])
    path = [w]
    for number, gradient in enumerate(gradients, t + 1):
        w, m, v = adamw(w, -gradient, m, v, number, lr=1.0)
        path.append(w)
    return np.diff(path, axis=0)


def test_with_t_kept_the_first_step_is_three_times_too_long_and_the_twelfth_over_six():
    found = moves(np.ones(1000), t=112_700)
    assert found[[0, 1, 2]] == pytest.approx([3.16, 4.25, 4.95], abs=0.01)
    assert found.argmax() == 11 and found.max() == pytest.approx(6.57, abs=0.01)
    assert found[[99, 999]] == pytest.approx([3.24, 1.26], abs=0.01)
    assert found.min() > 1, "at no step it is as if the rate were 0"


def test_where_gradients_are_noise_it_is_over_ten_times_the_usual_step():
    noise = np.random.default_rng(1).standard_normal((6001, 200))
    usual = np.sqrt(np.mean(moves(noise, t=0)[-1000:] ** 2))
    first = np.sqrt(np.mean(moves(noise[:1], t=112_700) ** 2))
    assert usual == pytest.approx(0.23, abs=0.02) and first == pytest.approx(3.16, abs=0.01)
    assert first / usual > 12


def test_only_a_warmup_that_begins_again_makes_the_first_step_small_and_the_header_keeps_t():
    assert moves(np.ones(50), t=0) == pytest.approx(1.0)
    train = config(lr=3e-4, warmup=2000, steps=200_000).train
    assert learning_rate(train, 1) == pytest.approx(0.0005 * 3e-4)
    assert learning_rate(train, 112_701) > 0.4 * 3e-4
