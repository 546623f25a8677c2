"""The operations under test: inputs, launches, reference, what is overwritten and what is added to."""

from __future__ import annotations

import numpy as np
from judges import Op

from kernels import layernorm, reference


def rows(**more) -> dict[str, dict]:
    """The five shapes of an operation on N rows of C columns; `more` gives further sizes, one tuple of five each."""
    N, C = (1, 7, 130, 9, 6), (1, 5, 70, 33, 12)
    flags = ({}, {}, {}, {"scale": 60.0}, {"dead": True})
    names = ("one", "odd", "blocks", "large", "masked")
    return {
        names[i]: {"N": N[i], "C": C[i], **{k: v[i] for k, v in more.items()}, **flags[i]} for i in range(len(names))
    }


SMALL = {"blocks": {"N": 6, "C": 11}}


def normal(rng, *shape, scale=1.0) -> np.ndarray:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def dead_rows(inp: np.ndarray, dead: bool) -> np.ndarray:
    """A masked row is one that holds nothing: all zero."""
    if dead:
        inp[:: max(1, len(inp) // 2)] = 0.0
    return inp


def make_layernorm(rng, N, C, scale=1.0, dead=False):
    inp = dead_rows(normal(rng, N, C, scale=scale) + np.float32(scale), dead)
    return {"inp": inp, "gamma": normal(rng, C) + np.float32(1.0), "beta": normal(rng, C)}


LAYERNORM = Op(
    name="layernorm",
    make=make_layernorm,
    shapes=rows(),
    difference_sizes=SMALL,
    paths={
        "production": (layernorm.PAIR.forward, layernorm.PAIR.backward),
        "named": (layernorm.PAIR.named_forward, layernorm.PAIR.named_backward),
    },
    fwd_args=("inp", "gamma", "beta", "out", "mean", "rstd"),
    bwd_args=("inp", "gamma", "mean", "rstd", "dout", "dinp", "dgamma", "dbeta"),
    reference_forward=lambda x: dict(
        zip(("out", "mean", "rstd"), reference.layernorm_forward(x["inp"], x["gamma"], x["beta"]), strict=True)
    ),
    reference_backward=lambda x: dict(
        zip(
            ("dinp", "dgamma", "dbeta"),
            reference.layernorm_backward(x["inp"], x["gamma"], x["mean"], x["rstd"], x["dout"]),
            strict=True,
        )
    ),
    incoming={"dout": "out"},
    grads={"dinp": "inp", "dgamma": "gamma", "dbeta": "beta"},
    zero_scale=lambda x: {"dinp": float(np.linalg.norm(x["dout"] * x["gamma"] * x["rstd"][:, None]))},
)
