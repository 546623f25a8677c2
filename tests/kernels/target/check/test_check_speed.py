"""How long a check takes: processor time of the kernels a learner checks most, the best of several."""

import time

import numpy as np
import pytest
from check_kernels import F, k_attention, k_layernorm, ramp

import kernels
from kernels.pairs import KERNELS

C = 768


def layernorm():
    return k_layernorm, 4, 128, (np.sin(ramp(4, C)), ramp(C), ramp(C), np.zeros((4, C), F), C, F(1e-5))


def product():
    args = (np.sin(ramp(64, 64)), np.cos(ramp(64, 64)), np.zeros((64, 64), F), 64, 64, 64)
    return KERNELS["k_matmul_tiled"], (4, 4), (16, 16), args


def attention():
    q, k, v = (np.sin(ramp(32, 32) + s).astype(F) for s in range(3))
    return k_attention, 2, (16, 16), (q, k, v, np.zeros((32, 32), F), F(32**-0.5))


LIMITS = [(layernorm, 0.2, 0.5), (product, 0.5, 1.5), (attention, 0.2, 0.5)]


@pytest.mark.parametrize("case, plain, ordered", LIMITS, ids=[case.__name__ for case, _, _ in LIMITS])
def test_a_check_is_quick(case, plain, ordered):
    for orders, limit in ((0, plain), (2, ordered)):
        best = np.inf
        for _ in range(4):
            kernel, grid, block, args = case()
            start = time.process_time()
            report = kernels.check(kernel, orders=orders)[grid, block](*args)
            best = min(best, time.process_time() - start)
        assert report.ok, report
        assert best < limit
