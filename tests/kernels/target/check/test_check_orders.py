"""Other orders of the threads: what they show, what they leave alone, and that a seed gives one order."""

import numpy as np
from check_kernels import F, k_atomic_sum, k_layernorm, k_reverse, k_sum_by_blocks, ramp

import kernels
from kernels.target.check.shuffles import Draws


def test_a_race_shows_two_results():
    orders = kernels.check(k_reverse, orders=3)[1, 64](ramp(64), np.zeros(64, F)).orders
    assert orders.ran == 3 and orders.differs and orders.array == "y" and not orders.rounding_only
    assert len(orders.values) == 2 and orders.index != ()


def test_float_atomics_differ_by_rounding_alone():
    x = np.sin(ramp(256) + 1).astype(F)
    orders = kernels.check(k_atomic_sum, orders=4)[2, 128](x, np.zeros(1, F)).orders
    assert orders.differs and orders.rounding_only
    assert "by the rounding of additions alone" in repr(kernels.check(k_atomic_sum)[2, 128](x, np.zeros(1, F)))


def test_whole_numbers_and_fixed_orders_give_one_result():
    C = 200
    args = (np.sin(ramp(4, C)).astype(F), ramp(C), ramp(C), np.zeros((4, C), F), C, F(1e-5))
    assert not kernels.check(k_layernorm, orders=4)[4, 128](*args).orders.differs
    counts = np.zeros(1, np.int64)
    assert not kernels.check(k_atomic_sum)[2, 128](np.ones(256, np.int64), counts).orders.differs
    assert counts[0] == 256


def test_the_result_is_that_of_one_run():
    out = np.zeros(1, F)
    args = (ramp(256), np.zeros(4, F), np.zeros(1, np.int32), out, True)
    assert kernels.check(k_sum_by_blocks, orders=5)[4, 64](*args).ok
    assert args[2][0] == 4 and out[0] == 64 + 128 + 192


def test_a_seed_gives_one_order():
    texts = [repr(kernels.check(k_reverse, seed=s)[1, 64](ramp(64), np.zeros(64, F)).orders) for s in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_draws_are_permutations_and_halves():
    draws = Draws(3)
    assert sorted(draws.permutation(100)) == list(range(100))
    assert draws.halves(33).sum() == 16 and 0 < draws.halves(2).sum() < 2
    assert list(Draws(3).permutation(5)) == list(Draws(3).permutation(5))


def test_a_launch_too_large_for_other_orders_says_so():
    report = kernels.check(k_atomic_sum)[129, 512](np.ones(129 * 512, F), np.zeros(1, F))
    assert report.orders.ran == 0 and "not tried: 66,048 threads" in repr(report)
