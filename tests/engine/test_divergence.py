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


# A sweep of the final loss, without and with the two guards: 0.003: 2.0, 2.7; 0.01: 1.3, 1.3; 0.03: 2.2, 1.2;
# 0.06: 2.4, 1.2; 0.1: 2.5, 1.6; 0.6: 3, 2.5; 1.0: 6 to 13, 2.5; 1.5: 30 to 40, 3.3; 2.0: 55, 5 to 7. A model that knows
# nothing has 5.55, one that knows how often each letter comes 2.4.


def test_at_a_rate_of_1_5_the_bare_run_ends_far_worse_than_it_began_and_the_guarded_one_learns():
    assert final_loss(1.5, tamed=False) > 2 * math.log(257)
    assert final_loss(1.5, tamed=True) < 4.5


def test_at_a_rate_of_6_percent_the_bare_run_learns_letters_only():
    assert final_loss(0.06, tamed=False) > final_loss(0.06, tamed=True) + 0.6
