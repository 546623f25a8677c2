"""Random control flow against plain Python, thread by thread; in step, and under seeded orders."""

import linecache

import numpy as np
import pytest
from control_generator import THREADS, program
from numba import cuda

import kernels


class Items(list):
    """A list with NumPy's `size`, so that the plain function reads like the kernel; it has no negative indices."""

    size = THREADS

    def __getitem__(self, i):
        assert 0 <= i < len(self), "the guard of a short circuit was passed"
        return list.__getitem__(self, i)


def build(text: str, name: str):
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"cuda": cuda}
    exec(compile(text, name, "exec"), space)
    return space["kernel"]


def numbers(seed: int):
    return np.random.default_rng(seed).integers(-5, 12, THREADS)


def one_after_the_other(text: str, seed: int):
    """What plain Python makes of it; None where the numbers outgrow 64 bits."""
    plain = build(text, f"<plain {seed}>")
    x, y = Items(int(v) for v in numbers(seed)), Items([0] * THREADS)
    for i in range(THREADS):
        plain(x, y, i)
    return None if max(map(abs, y)) > 2**62 else np.array(y, np.int64)


def compare(seed: int) -> bool:
    kernel_text, plain_text = program(seed)
    expected = one_after_the_other(plain_text, seed)
    if expected is None:
        return False
    kernel = build(kernel_text, f"<random {seed}>")
    x, y = numbers(seed), np.zeros(THREADS, np.int64)
    report = kernels.check(kernel, orders=2, seed=seed, budget=200_000)[2, 20](x, y)
    assert report.ok, f"{report!r}\n{kernel_text}"
    np.testing.assert_array_equal(y, expected, err_msg=kernel_text)
    assert not report.orders.differs, kernel_text
    return True


@pytest.mark.parametrize("seed", range(80))
def test_random_control_flow(seed):
    compare(seed)


@pytest.mark.full
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_much_random_control_flow(first):
    assert sum(compare(seed) for seed in range(first, first + 100)) > 80


def test_the_programs_have_everything_in_them():
    texts = "".join(program(seed)[0].split("def kernel")[1] for seed in range(80))
    pieces = (
        "while |for |break|continue|return| and | or |not | if |elif|else:|left(|middle(|right(|min(|//|%|a, b, c = b"
    )
    for piece in pieces.split("|"):
        assert piece in texts, piece
    assert sum(one_after_the_other(program(seed)[1], seed) is not None for seed in range(80)) >= 75


def test_lockstep_of_a_loop_with_a_barrier_between_its_rounds():
    """Uneven work between barriers: the generator has none, so here is one by hand."""
    text = (
        "def kernel(x, y):\n    i = cuda.grid(1)\n    s = x[i]\n    for r in range(4):\n"
        "        if s % 2 == 0:\n            s = s // 2\n        else:\n            for k in range(s % 3):\n"
        "                s += 3\n                if s > 40:\n                    break\n"
        "        y[i] = s\n        cuda.syncthreads()\n        s += y[(i + 1) % 37]\n        cuda.syncthreads()\n"
    )
    x, y = numbers(5) + 5, np.zeros(THREADS, np.int64)
    s = [int(v) for v in x]
    for _ in range(4):
        for i in range(THREADS):
            if s[i] % 2 == 0:
                s[i] //= 2
            else:
                for _ in range(s[i] % 3):
                    s[i] += 3
                    if s[i] > 40:
                        break
        last = list(s)
        s = [last[i] + last[(i + 1) % THREADS] for i in range(THREADS)]
    report = kernels.check(build(text, "<rounds>"), orders=3)[1, THREADS](x, y)
    assert report.ok and not report.orders.differs, repr(report)
    np.testing.assert_array_equal(y, last)
