"""A step allocates nothing: the heap, the addresses and the resident size stay as they are."""

import gc
import tracemalloc

import numpy as np
import psutil
import pytest

from andrea_lab.engine.signals import Signals
from tests.engine.tiny import config, engine, one

WARM, STEPS = 6, 20


def watch(made, plant=None, attempts: int = 3) -> dict[str, int]:
    """The least of three looks: what an interpreter sets up once is seen once, what a step allocates every time."""
    looks = [look(made, plant) for _ in range(attempts)]
    return {key: min(found[key] for found in looks) for key in looks[0]}


def look(made, plant=None) -> dict[str, int]:
    """Peak and growth of the traced heap over 20 warm steps, and growth of the resident size, in bytes."""
    for _ in range(WARM):
        one(made)
    gc.collect()
    process = psutil.Process()
    resident = process.memory_info().rss
    tracemalloc.start()
    try:
        one(made)
        gc.collect()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(STEPS):
            one(made)
            if plant is not None:
                plant()
        peak = tracemalloc.get_traced_memory()[1] - before
        gc.collect()
        growth = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return {"peak": peak, "growth": growth, "resident": process.memory_info().rss - resident}


def judge(found: dict[str, int]) -> None:
    assert found["peak"] < 64 * 1024, found
    assert found["growth"] < 4 * 1024, found
    assert found["resident"] < 2**20, found


def addresses(made) -> set[tuple[str, int]]:
    arrays = made.graph.arrays | {f"w {k}": v for k, v in made.graph.weights.items()}
    return {(name, array.ctypes.data) for name, array in arrays.items()}


@pytest.fixture
def made():
    with_micro = engine(config(batch=4, microbatches=2, steps=100))
    yield with_micro
    with_micro.close()


def test_twenty_warm_steps_allocate_nothing(made):
    before = addresses(made)
    judge(watch(made))
    assert addresses(made) == before


def test_a_run_that_can_be_stopped_and_saved_allocates_nothing_either(tmp_path):
    """With a run directory, its lock and its buffer, signals heard and control files looked for."""
    with Signals(tmp_path / "control") as signals:
        made = engine(config(batch=4, microbatches=2, steps=100, grace=60.0), run_dir=tmp_path, signals=signals)
        judge(watch(made))
        made.close()


def test_the_watch_sees_a_planted_temporary(made):
    def plant():
        made.graph.arrays["x"] * np.float32(2.0)  # one activation-sized array, gone at once
        np.zeros(64 * 1024, np.uint8)

    with pytest.raises(AssertionError, match="peak"):
        judge(watch(made, plant))


def test_the_watch_sees_a_leak(made):
    kept = []
    with pytest.raises(AssertionError, match="growth"):
        judge(watch(made, lambda: kept.append(np.zeros(512, np.uint8))))
