"""Cases of softmax cross-entropy, and the logits it is hard on.

"spikes": one logit of a row is 300 and stands in another thread's hands in every row, so that a maximum that misses it
overflows. "negative": every logit is near -200, so that a maximum that starts at 0 leaves log(0). More tokens than the
128 threads of a row; targets are the first, the last and ignored ones among others.
"""

from __future__ import annotations

import numpy as np

from andrea_lab.lesson.cases.case import Draw, Setup, narrow, poison, recipe, wide
from kernels import reference
from kernels.loss import NT

BLOCK = 32
SPIKES = (0, 45, 63, 64, 100, 127, 140, 149)  # columns: both halves of every level of a tree over 128 threads
PLAIN = {
    "one": {"B": 1, "T": 1, "V": 1},
    "odd": {"B": 2, "T": 3, "V": 5},
    "ignored": {"B": 1, "T": 3, "V": 4, "ignore": True},
}
STRONG = {
    "spikes": {"B": 2, "T": 4, "V": 150, "kind": "spikes"},
    "negative": {"B": 1, "T": 3, "V": 131, "kind": "negative"},
    "large": {"B": 3, "T": 2, "V": 133, "kind": "large"},
}
BACKWARD = {"large": {"B": 3, "T": 2, "V": 70, "kind": "large"}}


def logits_of(draw: Draw, N: int, V: int, kind: str) -> np.ndarray:
    """(N, V) logits."""
    scale, mean = {"large": (60.0, 0.0), "negative": (1.0, -200.0)}.get(kind, (2.0, 0.0))
    logits = draw.normal(N, V, scale=scale, mean=mean)
    if kind == "spikes":
        logits[np.arange(N), SPIKES[:N]] = 300.0
    return logits


@recipe("k_xent_fwd", PLAIN, STRONG)
def forward(draw: Draw, B: int, T: int, V: int, kind: str = "", ignore: bool = False) -> Setup:
    logits, targets = logits_of(draw, B * T, V, kind), draw.targets(B, T, V, ignore)
    lse, losses = reference.xent_forward(*wide(logits), targets)
    arguments = {"logits": logits, "targets": targets, "lse": poison(B * T), "losses": poison(B * T), "T": T, "V": V}
    # A logit is read for the maximum and for the sum; then one thread reads the target and its logit.
    traffic = {"global reads": B * T * (2 * V + 2)}
    return Setup(B * T, NT, arguments, {"lse": lse, "losses": losses}, traffic=traffic)


def saved(draw: Draw, B: int, T: int, V: int, kind: str, ignore: bool) -> tuple[dict, np.ndarray]:
    """(logits, targets, lse, dlosses; what flows back)."""
    logits, targets = logits_of(draw, B * T, V, kind), draw.targets(B, T, V, ignore)
    lse = narrow(reference.xent_forward(*wide(logits), targets)[0])
    dlosses = draw.normal(B * T, mean=1.0)
    found = reference.xent_backward(*wide(logits), targets, *wide(lse, dlosses))
    return {"logits": logits, "targets": targets, "lse": lse, "dlosses": dlosses}, found


@recipe("k_xent_bwd", PLAIN, BACKWARD)
def backward(draw: Draw, B: int, T: int, V: int, kind: str = "", ignore: bool = False) -> Setup:
    x, found = saved(draw, B, T, V, kind, ignore)
    dlogits = draw.normal(B * T, V)
    return Setup(B * T, BLOCK, {**x, "dlogits": dlogits, "T": T, "V": V}, {"dlogits": dlogits + found})


@recipe("k_xent_dlogits", PLAIN, BACKWARD | {"in place": {"B": 2, "T": 3, "V": 40, "place": True}})
def dlogits(draw: Draw, B: int, T: int, V: int, kind: str = "", ignore: bool = False, place: bool = False) -> Setup:
    x, found = saved(draw, B, T, V, kind, ignore)
    out = x["logits"] if place else poison(B * T, V)
    return Setup(B * T, BLOCK, {**x, "dlogits": out, "T": T, "V": V}, {"dlogits": found})
