"""Warmup and clipping tame a learning rate that otherwise destroys the model."""

import math
from statistics import fmean

from andrea_lab.engine.errors import TrainingStopped
from andrea_lab.text import BYTES, Source, batch
from tests.engine.tiny import RandomBatches, config, engine

TEXT = tuple(b"".join(b"%d and %d are %d. " % (i, k, i + k) for k in range(40)) for i in range(12))
STEPS = 60


class Sums(RandomBatches):
    """A text that can be learned."""

    text = Source("sums", None, text=TEXT)

    def fill(self, source, seed, draw, tokens, targets):
        batch(self.text, seed, draw, *tokens.shape, tokens, targets, BYTES)


def final_loss(lr: float, tamed: bool) -> float:
    """Mean loss of the last ten steps; infinite when the run was stopped."""
    guard = {"clip": 1.0, "warmup": 30} if tamed else {"clip": 0.0, "warmup": 0}
    made = engine(config(lr=lr, steps=STEPS, batch=4, **guard), batches=Sums())
    losses = []
    try:
        for step in range(1, STEPS + 1):
            losses.append(made.step({"step": step, "source": "sums", "draw": step - 1})["loss"])
    except TrainingStopped:
        return float("inf")
    finally:
        made.close()
    return fmean(losses[-10:])


# A sweep of the final loss, without and with the two guards: 0.003: 2.01, 2.72; 0.01: 1.33, 1.29; 0.03: 2.22, 1.19;
# 0.06: 2.40, 1.16; 0.1: 2.46, 1.62; 0.3: 2.47, 2.17; 1.0: 13.1, 2.55; 2.0: 56.7, 7.33. A model that knows nothing has
# 5.55, one that knows how often each letter comes 2.4.


def test_at_rate_one_the_bare_run_ends_worse_than_it_began_and_the_guarded_one_learns():
    assert final_loss(1.0, tamed=False) > math.log(257) + 1
    assert final_loss(1.0, tamed=True) < 3.2


def test_at_a_rate_of_6_percent_the_bare_run_learns_letters_only():
    assert final_loss(0.06, tamed=False) > final_loss(0.06, tamed=True) + 0.6
