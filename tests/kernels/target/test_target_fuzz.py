"""Random legal kernels: the CPU target against Numba's simulator, bit for bit."""

import numpy as np
import pytest
from kernel_generator import LENGTH, module
from texts import load

from kernels.target import ptx

BATCH = 6
GRID = 2


def arguments(seed):
    r = np.random.default_rng(seed)
    a, f = r.integers(0, 50, LENGTH), (r.integers(-16, 16, LENGTH) / 4).astype(np.float32)
    return [
        a,
        f,
        np.zeros(LENGTH, np.int64),
        np.zeros(LENGTH, np.float32),
        np.zeros(4, np.int64),
        int(r.integers(1, 9)),
    ]


def compare(seeds, folder):
    text, blocks = module(seeds)
    path = folder / f"random_{seeds[0]}.py"
    path.write_text(text)
    kernels = load(path)
    for seed in seeds:
        kernel = getattr(kernels, f"k{seed}")
        wanted, got = arguments(seed), arguments(seed)
        with np.errstate(all="ignore"):
            ptx.simulate(kernel, GRID, blocks[seed], wanted)
        kernel[GRID, blocks[seed]](*got)
        for name, one, other in zip(("out", "fout", "hist"), wanted[2:5], got[2:5], strict=True):
            assert np.array_equal(one, other), f"{path}: k{seed}: {name} differs"


@pytest.mark.parametrize("first", range(0, 60, BATCH))
def test_random_kernels(first, tmp_path):
    compare(range(first, first + BATCH), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("first", range(1000, 1400, 20))
def test_many_random_kernels(first, tmp_path):
    compare(range(first, first + 20), tmp_path)
