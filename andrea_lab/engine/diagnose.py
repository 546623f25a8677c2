"""Where a number first went wrong, and what to do about it."""

import numpy as np

from andrea_lab.model.config import TrainConfig
from andrea_lab.model.graph import Graph
from kernels.target import copy_to_host


def first_bad(graph: Graph) -> str | None:
    """Name of the first tensor that holds an infinity or a not-a-number, in the order in which a step computes them.

    Weights come first, then what forward wrote, then the gradients from the loss down to the embedding. None when
    every array that is still there is finite. Copies whole tensors: for a run that has already failed.
    """
    candidates = [(name, array) for name, array in graph.weights.items()]
    written = [name for name in graph.arrays if graph.arena.plan.by_name[name].role == "saved"]
    candidates += [(name, graph.arrays[name]) for name in (*written, "lse", "losses")]
    candidates += [(f"gradient of {name}", graph.gradients[name]) for name in reversed(graph.gradients)]
    for name, array in candidates:
        if not np.isfinite(copy_to_host(array)).all():
            return name
    return None


def advice(train: TrainConfig, lr: float) -> str:
    """One line on how to tame a run that diverged at learning rate `lr`."""
    hints = [f"lower train.lr (this step ran at {lr:.3g})"]
    if not train.clip:
        hints.append("set train.clip to 1.0")
    if train.warmup < 100:
        hints.append(f"raise train.warmup (found {train.warmup})")
    return "to go on, " + ", ".join(hints)
