"""The operations of the attention block under test, see cases.py."""

from __future__ import annotations

import numpy as np
from cases import fine, names, normal, paths, rows, some_rows
from judges import Op

from kernels import attention, heads, reference
from kernels.projection import ATTN_OUT, PROJ
from kernels.qkv import ATTN_QKV

WEIGHTS = rows(K=(1, 5, 70, 33, 12), M=(1, 9, 41, 17, 20))
SMALL = {"blocks": {"N": 5, "C": 4}}


def make_proj(rng, N, C, K, M, scale=1.0, dead=False):
    return {"inp": some_rows(rng, N, K, scale, dead), "w": normal(rng, K, M, scale=K**-0.5)}


def make_square(rng, N, C, scale=1.0, dead=False):
    return {"inp": some_rows(rng, N, C, scale, dead), "wo": normal(rng, C, C, scale=C**-0.5)}


def make_qkv(rng, N, C, scale=1.0, dead=False):
    weights = {n: normal(rng, C, C, scale=C**-0.5) for n in ("wq", "wk", "wv")}
    return {"inp": some_rows(rng, N, C, scale, dead)} | weights


Q_PROJ = Op(
    name="proj",
    make=make_proj,
    shapes=WEIGHTS,
    paths=paths(PROJ, gemm=True),
    fwd_args=("inp", "w", "out"),
    bwd_args=("inp", "w", "dout", "dinp", "dw"),
    reference_forward=lambda x: names("out")(reference.linear_forward(x["inp"], x["w"])),
    reference_backward=lambda x: names("dinp", "dw")(reference.linear_backward(x["inp"], x["w"], x["dout"])),
    incoming={"dout": "out"},
    grads={"dinp": "inp", "dw": "w"},
    fixture="linear",
    difference_sizes={"blocks": {"N": 5, "C": 4, "K": 4, "M": 3}},
)
OUT = Op(
    name="attn_out",
    make=make_square,
    shapes=rows(),
    paths=paths(ATTN_OUT, gemm=True),
    fwd_args=("inp", "wo", "out"),
    bwd_args=("inp", "wo", "dout", "dinp", "dwo"),
    reference_forward=lambda x: names("out")(reference.linear_forward(x["inp"], x["wo"])),
    reference_backward=lambda x: names("dinp", "dwo")(reference.linear_backward(x["inp"], x["wo"], x["dout"])),
    incoming={"dout": "out"},
    grads={"dinp": "inp", "dwo": "wo"},
    difference_sizes=SMALL,
)
QKV = Op(
    name="attn_qkv",
    make=make_qkv,
    shapes=rows(),
    paths=paths(ATTN_QKV, gemm=True),
    fwd_args=("inp", "wq", "wk", "wv", "q", "k", "v"),
    bwd_args=("inp", "wq", "wk", "wv", "dq", "dk", "dv", "dinp", "dwq", "dwk", "dwv"),
    reference_forward=lambda x: names("q", "k", "v")(reference.qkv_forward(x["inp"], x["wq"], x["wk"], x["wv"])),
    reference_backward=lambda x: names("dinp", "dwq", "dwk", "dwv")(
        reference.qkv_backward(*(x[n] for n in ("inp", "wq", "wk", "wv", "dq", "dk", "dv")))
    ),
    incoming={"dq": "q", "dk": "k", "dv": "v"},
    grads={"dinp": "inp", "dwq": "wq", "dwk": "wk", "dwv": "wv"},
    difference_sizes=SMALL,
)

# ---------------------------------------------------------------- attention


def scores_like(rng, *shape, scale=1.0, dead=False) -> np.ndarray:
    """Queries or keys. Large ones are whole numbers, so that scores of hundreds are the same in float32 and float64."""
    x = normal(rng, *shape, scale=scale)
    if scale > 1.0:
        x = np.round(x)
    if dead:
        x[..., ::3, :] = 0.0
    return x


def attention_shapes(HS, large=6.0):
    """One key, odd sizes, more than a tile of 32, scores of hundreds, sequences of one token with rows of zero."""
    sizes = {"B": (1, 3, 2, 1, 3), "T": (1, 7, 70, 33, 1), "NH": (1, 3, 2, 4, 2), "HS": HS}
    flags = {"one": {}, "odd": {}, "blocks": {}, "large": {"scale": large}, "masked": {"dead": True}}
    return {kind: {k: v[i] for k, v in sizes.items()} | flag for i, (kind, flag) in enumerate(flags.items())}


def make_attention(rng, B, T, NH, HS, scale=1.0, dead=False):
    q, k = (scores_like(rng, B * T, NH * HS, scale=scale, dead=dead) for _ in range(2))
    return {"q": q, "k": k, "v": normal(rng, B * T, NH * HS), "B": B, "NH": NH}


def attention_backward(x):
    """With the lse of float64: the rounded one would leave 1e-8 where the gradient of a single key is exactly 0."""
    _, lse = reference.attention_forward(x["q"], x["k"], x["v"], x["B"], x["NH"])
    return names("dq", "dk", "dv")(reference.attention_backward(x["q"], x["k"], x["v"], lse, x["dout"]))


def attention_scale(x):
    sizes = {n: np.linalg.norm(x[n]) + 1.0 for n in ("q", "k", "v", "dout")}
    return {"dq": sizes["dout"] * sizes["v"] * sizes["k"], "dk": sizes["dout"] * sizes["v"] * sizes["q"]}


ATTN = Op(
    name="attn",
    make=make_attention,
    shapes=attention_shapes((3, 5, 12, 16, 64)),
    paths=paths(attention.ATTN),
    fwd_args=("q", "k", "v", "out", "lse"),
    bwd_args=("q", "k", "v", "out", "lse", "dout", "dq", "dk", "dv"),
    reference_forward=lambda x: names("out", "lse")(
        reference.attention_forward(x["q"], x["k"], x["v"], x["B"], x["NH"])
    ),
    reference_backward=attention_backward,
    incoming={"dout": "out"},
    grads={"dq": "q", "dk": "k", "dv": "v"},
    zero_scale=attention_scale,
    difference_sizes={
        "odd": {"B": 2, "T": 4, "NH": 2, "HS": 3},
        "blocks": {"B": 1, "T": 6, "NH": 2, "HS": 3},
        "large": {"B": 1, "T": 6, "NH": 2, "HS": 4, "scale": 1.5},
        "masked": {"B": 3, "T": 1, "NH": 2, "HS": 3, "dead": True},
    },
)

# ---------------------------------------------------------------- the five steps

STEPS = attention_shapes((3, 5, 12, 16, 8))
SMALL_STEPS = {
    "odd": {"B": 2, "T": 4, "NH": 2, "HS": 3},
    "blocks": {"B": 1, "T": 6, "NH": 2, "HS": 3},
    "large": {"B": 1, "T": 6, "NH": 2, "HS": 4, "scale": 1.5},
    "masked": {"B": 3, "T": 1, "NH": 2, "HS": 3, "dead": True},
}
SCORES = Op(
    name="scores",
    make=lambda rng, B, T, NH, HS, scale=1.0, dead=False: {
        n: scores_like(rng, B, NH, T, HS, scale=scale, dead=dead) for n in ("q", "k")
    },
    shapes=STEPS,
    paths=paths(fine(attention, "scores")),
    fwd_args=("q", "k", "s"),
    bwd_args=("q", "k", "ds", "dq", "dk"),
    reference_forward=lambda x: names("s")(reference.scores_forward(x["q"], x["k"])),
    reference_backward=lambda x: names("dq", "dk")(reference.scores_backward(x["q"], x["k"], x["ds"])),
    incoming={"ds": "s"},
    grads={"dq": "q", "dk": "k"},
    difference_sizes=SMALL_STEPS,
)


def make_softmax(rng, B, T, NH, HS, scale=1.0, dead=False):
    """Scores under the causal mask; minus infinity throughout is tested apart, the reference has no value for it."""
    s = np.where(np.tri(T, dtype=bool), scores_like(rng, B, NH, T, T, scale=scale**3), np.float32(-1e4))
    return {"s": s.astype(np.float32)}


def softmax_backward(x):
    return names("ds")(reference.softmax_backward(reference.softmax_forward(x["s"]), x["dp"]))


SOFTMAX = Op(
    name="softmax",
    make=make_softmax,
    shapes=STEPS,
    paths=paths(fine(attention, "softmax")),
    fwd_args=("s", "p"),
    bwd_args=("p", "dp", "ds"),
    reference_forward=lambda x: names("p")(reference.softmax_forward(x["s"])),
    reference_backward=softmax_backward,
    incoming={"dp": "p"},
    grads={"ds": "s"},
    zero_scale=lambda x: {"ds": float(np.linalg.norm(x["dp"]))},
    difference_sizes=SMALL_STEPS,
)
WEIGHTED_SUM = Op(
    name="weighted_sum",
    make=lambda rng, B, T, NH, HS, scale=1.0, dead=False: {
        "p": scores_like(rng, B, NH, T, T, scale=scale, dead=dead),
        "v": normal(rng, B, NH, T, HS),
    },
    shapes=STEPS,
    paths=paths(fine(attention, "weighted_sum")),
    fwd_args=("p", "v", "out"),
    bwd_args=("p", "v", "dout", "dp", "dv"),
    reference_forward=lambda x: names("out")(reference.weighted_sum_forward(x["p"], x["v"])),
    reference_backward=lambda x: names("dp", "dv")(reference.weighted_sum_backward(x["p"], x["v"], x["dout"])),
    incoming={"dout": "out"},
    grads={"dp": "p", "dv": "v"},
    difference_sizes=SMALL_STEPS,
)
SPLIT = Op(
    name="heads",
    make=lambda rng, B, T, NH, HS, scale=1.0, dead=False: {
        "inp": some_rows(rng, B * T, NH * HS, scale, dead),
        "B": B,
        "NH": NH,
    },
    shapes=STEPS,
    paths=paths(heads.HEADS),
    fwd_args=("inp", "out"),
    bwd_args=("dout", "dinp"),
    reference_forward=lambda x: names("out")(reference.split_heads(x["inp"], x["B"], x["NH"])),
    reference_backward=lambda x: names("dinp")(reference.merge_heads(x["dout"])),
    incoming={"dout": "out"},
    grads={"dinp": "inp"},
    difference_sizes=SMALL_STEPS,
)
