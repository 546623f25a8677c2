"""The learning rate as a function of the step."""

from math import cos, pi

from andrea_lab.model.config import TrainConfig


def learning_rate(train: TrainConfig, step: int) -> float:
    """The rate of step 1, 2, ...: cosine from lr to min_lr * lr over the run, times min(1, step / warmup).

    With t = step - 1 counted from 0, the warmup factor is (t + 1) / warmup and the cosine has run t / steps of its
    half turn.
    """
    progress = min(1.0, (step - 1) / train.steps)
    level = train.min_lr + (1.0 - train.min_lr) * 0.5 * (1.0 + cos(pi * progress))
    return train.lr * level * (min(1.0, step / train.warmup) if train.warmup else 1.0)
