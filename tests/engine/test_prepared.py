"""What is settled before the first step: kernels, launches, types, memory. A step only runs what was prepared."""

import sys

import numpy as np
import pytest

from andrea_lab.engine.engine import Engine
from andrea_lab.model.memory import plan
from kernels import target
from kernels.target import Launch, run
from tests.engine.tiny import config, engine, one, vectors

CALLS_A_LAUNCH = 20


def refuse(*_, **__):
    raise AssertionError("a launch was made during a step")


def test_a_step_makes_no_launch_and_chooses_no_kernel(monkeypatch):
    made = engine()
    monkeypatch.setattr(Launch, "__init__", refuse)
    assert [one(made)["step"] for _ in range(3)] == [1, 2, 3]
    with pytest.raises(AssertionError, match="during a step"):
        made.graph.forward()


def python_calls(launches) -> int:
    """Python functions that the host enters to run a list of launches on one thread."""
    count, before = [0], sys.getprofile()

    def profile(frame, event, argument):
        count[0] += event == "call"

    sys.setprofile(profile)
    try:
        run(launches)
    finally:
        sys.setprofile(before)
    return count[0]


def test_what_the_host_does_for_a_launch_is_a_few_calls_whatever_its_size():
    """Counted, not timed: the interpreter's part of a step grows with its launches, not with its rows."""
    before = target.threads()
    try:
        target.set_threads(1)
        found = {}
        for context in (2, 16):
            made = engine(config(context=context))
            one(made)
            found[context] = [python_calls(made._microbatch) for _ in range(2)]
            assert len(set(found[context])) == 1 and found[context][0] < CALLS_A_LAUNCH * len(made._microbatch)
    finally:
        target.set_threads(before)


def test_every_array_that_a_step_touches_has_the_type_its_plan_says(monkeypatch):
    """float32 everywhere but for the token ids: nothing is cast behind our back, on the way in or out."""
    seen = set()
    bind = target.launch.Configured.bind

    def watch(self, *given):
        seen.update(a.dtype.name if isinstance(a, np.ndarray) else type(a).__name__ for a in given)
        return bind(self, *given)

    monkeypatch.setattr(target.launch.Configured, "bind", watch)
    made = engine(config(gemm="kernels"))
    assert seen == {"float32", "int32", "int"}
    assert {region.dtype for region in made.plan.regions} == {"float32", "int32"}
    assert {r.name for r in made.plan.regions if r.dtype == "int32"} == {"tokens", "targets"}


def test_the_memory_of_a_run_is_known_before_it_starts_and_stays_that(tmp_path):
    cfg = config(batch=2, microbatches=2)
    known = plan(cfg.model, cfg.train.batch, cfg.train.context).total
    made = engine(cfg, run_dir=tmp_path)
    arrays = {name: made.arena.view(name).ctypes.data for name in made.plan.by_name}
    for step in range(1, 6):
        one(made)
        made.save({"step": step, "entry": {}})
        made.sample({"prompt": "a", "tokens": 3, "temperature": 1.0, "seed": 1})
        made.evaluate({"source": "noise", "batches": 1})
    assert made.arena.nbytes == known
    assert {name: made.arena.view(name).ctypes.data for name in made.plan.by_name} == arrays
    assert engine(config(batch=2, microbatches=8)).arena.nbytes == known, "a larger step by microbatches costs nothing"


SAVED = [  # what forward leaves, poisoned before backward, and a gradient that must need it
    ("layer1.pre", "layer1.W_1"),
    ("layer1.act", "layer1.W_2"),
    ("layer0.ln1.mean", "layer0.ln1.gamma"),
    ("layer0.ln2.rstd", "layer0.ln2.gamma"),
    ("layer0.lse", "layer0.W_Q"),
    ("hf", "lm_head"),
]


def loaded() -> Engine:
    """With a batch in place and NaN in everything that forward must write."""
    made = engine()
    made.batches.fill("noise", 1, 1, made._tokens, made._targets)
    made._load(made._tokens, made._targets)
    for region in made.plan.regions:
        if region.role == "saved":
            made.arena.view(region.name)[...] = np.nan
    run(made.graph.forward())
    return made


def test_forward_fills_the_saved_tensors_and_backward_leaves_them():
    made = loaded()
    names = [region.name for region in made.plan.regions if region.role == "saved"]
    before = {name: made.arena.view(name).tobytes() for name in names}
    assert all(np.isfinite(made.arena.view(name)).all() for name in names)
    assert {"layer0.ln1.mean", "layer0.ln1.rstd", "layer0.pre"} <= set(names)
    run(made.graph.backward())
    assert {name: made.arena.view(name).tobytes() for name in names} == before


@pytest.mark.parametrize(("saved", "gradient"), SAVED)
def test_backward_reads_what_forward_saved(saved, gradient):
    made = loaded()
    made.arena.view(saved)[...] = np.nan
    run(made.graph.backward())
    assert np.isnan(made.graph.gradients[gradient]).any()


def test_one_number_for_the_whole_batch():
    made = loaded()
    losses, total = made.graph.arrays["losses"], made.graph.arrays["loss_sum"]
    assert losses.shape == (32,) and total.shape == (1,)
    assert total[0] == pytest.approx(losses.sum(dtype=np.float64), rel=1e-6)


def test_a_small_step_against_the_gradient_lowers_the_loss_by_its_square():
    """To first order: with w - h g the loss falls by h |g|^2."""
    made = loaded()
    before = made.graph.arrays["losses"].sum(dtype=np.float64)
    run(made.graph.backward())
    held = vectors(made)
    square = float(np.square(held["gradients"], dtype=np.float64).sum())
    made.arena.view("weights")[...] -= np.float32(1e-2 / square) * held["gradients"]
    run(made.graph.forward())
    assert before - made.graph.arrays["losses"].sum(dtype=np.float64) == pytest.approx(1e-2, rel=0.1)
