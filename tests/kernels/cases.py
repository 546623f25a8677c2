"""The operations under test: inputs, launches, reference, what is overwritten and what is added to."""

from __future__ import annotations

from functools import partial

import numpy as np
from judges import Op

from kernels import embed, layernorm, loss, mlp, reference, residual
from kernels.matmul import gemm_with
from kernels.registry import Pair


def with_our_gemm(build):
    """The same launches with gemm() built from our own kernels in place of the library's."""

    def built(*args):
        with gemm_with("kernels"):
            return build(*args)

    return built


def paths(pair: Pair, gemm: bool = False) -> dict:
    """The production path, with both kinds of gemm() if it uses it, and the named kernels where they differ from it."""
    found = {"production": (pair.forward, pair.backward)}
    if gemm:
        found["ourgemm"] = (with_our_gemm(pair.forward), with_our_gemm(pair.backward))
    if (named := (pair.named_forward, pair.named_backward)) != found["production"]:
        found["named"] = named
    return found


def fine(module, name: str) -> Pair:
    return next(p for p in module.FINE if p.name == name)


def names(*keys):
    """Wrap a function that returns an array or a tuple so that it returns a dict with these keys."""

    def wrap(values):
        return dict(zip(keys, values if isinstance(values, tuple) else (values,), strict=True))

    return wrap


def rows(large: float = 60.0, **more) -> dict[str, dict]:
    """The five shapes of an operation on N rows of C columns; `more` gives further sizes, five of each."""
    sizes = {"N": (1, 7, 130, 9, 6), "C": (1, 5, 70, 33, 12)} | more
    kinds = {"one": {}, "odd": {}, "blocks": {}, "large": {"scale": large}, "masked": {"dead": True}}
    return {kind: {k: v[i] for k, v in sizes.items()} | flag for i, (kind, flag) in enumerate(kinds.items())}


def sequences(large: float = 60.0, **more) -> dict[str, dict]:
    """As rows, for B sequences of T tokens."""
    shapes = rows(large, B=(1, 1, 3, 3, 2), T=(1, 7, 47, 3, 3), **more)
    return {kind: {k: v for k, v in sizes.items() if k != "N"} for kind, sizes in shapes.items()}


def normal(rng, *shape, scale=1.0) -> np.ndarray:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def some_rows(rng, N, C, scale=1.0, dead=False) -> np.ndarray:
    """(N, C) values; with `dead`, every third row holds nothing: all zero."""
    x = normal(rng, N, C, scale=scale)
    if dead:
        x[::3] = 0.0
    return x


# ---------------------------------------------------------------- embedding


def make_tokens(rng, B, T, V) -> np.ndarray:
    """(B, T) ids with repeats."""
    return rng.integers(0, V, (B, T)).astype(np.int32)


def make_embed(rng, B, T, C, V, scale=1.0, dead=False):
    """`dead` leaves all but one token of the table unread, so that their gradient stays as it was."""
    ids = make_tokens(rng, B, T, 1 if dead else V)
    return {"tokens": ids, "wte": normal(rng, V, C, scale=scale), "wpe": normal(rng, T + 2, C, scale=scale)}


TABLE = sequences(V=(1, 3, 11, 5, 4))

EMBED = Op(
    name="embed",
    make=make_embed,
    shapes=TABLE,
    paths=paths(embed.PAIRS[0]),
    fwd_args=("tokens", "wte", "wpe", "out"),
    bwd_args=("tokens", "dout", "dwte", "dwpe"),
    reference_forward=lambda x: names("out")(reference.embed_forward(x["tokens"], x["wte"], x["wpe"])),
    reference_backward=lambda x: names("dwte", "dwpe")(
        reference.embed_backward(x["tokens"], x["dout"], len(x["wte"]), len(x["wpe"]))
    ),
    incoming={"dout": "out"},
    grads={"dwte": "wte", "dwpe": "wpe"},
    difference_sizes={"blocks": {"B": 3, "T": 5, "C": 4, "V": 3}},
    wide={"B": 3, "T": 230, "C": 130, "V": 11},
)

TOKEN = Op(
    name="token",
    make=lambda rng, **sizes: {k: v for k, v in make_embed(rng, **sizes).items() if k != "wpe"},
    shapes=TABLE,
    paths=paths(fine(embed, "token")),
    fwd_args=("tokens", "wte", "out"),
    bwd_args=("tokens", "dout", "dwte"),
    reference_forward=lambda x: names("out")(reference.token_forward(x["tokens"], x["wte"])),
    reference_backward=lambda x: names("dwte")(reference.token_backward(x["tokens"], x["dout"], len(x["wte"]))),
    incoming={"dout": "out"},
    grads={"dwte": "wte"},
    difference_sizes=EMBED.difference_sizes,
    wide=EMBED.wide,
)


def make_position(rng, B, T, C, scale=1.0, dead=False):
    return {"inp": some_rows(rng, B * T, C, scale, dead), "wpe": normal(rng, T + 2, C, scale=scale), "T": T}


POSITION = Op(
    name="position",
    make=make_position,
    shapes=sequences(),
    paths=paths(fine(embed, "position")),
    fwd_args=("inp", "wpe", "out", "T"),
    bwd_args=("dout", "dinp", "dwpe", "T"),
    reference_forward=lambda x: names("out")(reference.position_forward(x["inp"], x["wpe"], x["T"])),
    reference_backward=lambda x: names("dinp", "dwpe")(reference.position_backward(x["dout"], x["T"], len(x["wpe"]))),
    incoming={"dout": "out"},
    grads={"dinp": "inp", "dwpe": "wpe"},
    difference_sizes={"blocks": {"B": 3, "T": 5, "C": 4}},
    wide={"B": 3, "T": 230, "C": 130},
)

# ---------------------------------------------------------------- layer norm


def make_layernorm(rng, N, C, scale=1.0, dead=False):
    """With a mean as large as the spread, as a one-pass variance would not survive."""
    inp = some_rows(rng, N, C, scale) + np.float32(10.0 * scale)
    if dead:
        inp[::3] = 0.0
    return {"inp": inp, "gamma": normal(rng, C) + np.float32(1.0), "beta": normal(rng, C)}


LAYERNORM = Op(
    name="layernorm",
    make=make_layernorm,
    shapes=rows(),
    paths=paths(layernorm.PAIR) | {"card": (layernorm.forward, partial(layernorm.backward_for, "cuda"))},
    fwd_args=("inp", "gamma", "beta", "out", "mean", "rstd"),
    bwd_args=("inp", "gamma", "mean", "rstd", "dout", "dinp", "dgamma", "dbeta"),
    reference_forward=lambda x: names("out", "mean", "rstd")(
        reference.layernorm_forward(x["inp"], x["gamma"], x["beta"])
    ),
    reference_backward=lambda x: names("dinp", "dgamma", "dbeta")(
        reference.layernorm_backward(x["inp"], x["gamma"], x["mean"], x["rstd"], x["dout"])
    ),
    incoming={"dout": "out"},
    grads={"dinp": "inp", "dgamma": "gamma", "dbeta": "beta"},
    zero_scale=lambda x: {"dinp": float(np.linalg.norm(x["dout"] * x["gamma"] * x["rstd"][:, None]))},
    difference_sizes={"blocks": {"N": 6, "C": 11}},
    wide={"N": 700, "C": 130},
)


def atomic_backward(inp, gamma, mean, rstd, dout, dinp, dgamma, dbeta):
    N, C = inp.shape
    launch = layernorm.k_layernorm_bwd_atomic[N, layernorm.NT]
    return [launch.bind(inp, gamma, mean, rstd, dout, dinp, dgamma, dbeta, C)]


# ---------------------------------------------------------------- MLP


def make_mlp(rng, N, C, scale=1.0, dead=False):
    F = 4 * C
    w1, w2 = normal(rng, C, F, scale=C**-0.5), normal(rng, F, C, scale=F**-0.5)
    return {"inp": some_rows(rng, N, C, scale, dead), "w1": w1, "w2": w2}


MLP = Op(
    name="mlp",
    make=make_mlp,
    shapes=rows(),
    paths=paths(mlp.PAIRS[0], gemm=True),
    fwd_args=("inp", "w1", "w2", "pre", "act", "out"),
    bwd_args=("inp", "w1", "w2", "pre", "act", "dout", "dpre", "dinp", "dw1", "dw2"),
    reference_forward=lambda x: names("pre", "act", "out")(reference.mlp_forward(x["inp"], x["w1"], x["w2"])),
    reference_backward=lambda x: names("dpre", "dinp", "dw1", "dw2")(
        reference.mlp_backward(x["inp"], x["w1"], x["w2"], x["pre"], x["act"], x["dout"])
    ),
    incoming={"dout": "out"},
    grads={"dinp": "inp", "dw1": "w1", "dw2": "w2"},
    scratch=("dpre",),
    scratch_paths=("production", "ourgemm", "named"),
    difference_sizes={"blocks": {"N": 5, "C": 4}, "large": {"N": 4, "C": 3, "scale": 6.0}},
    wide={"N": 700, "C": 130},
)

GELU = Op(
    name="gelu",
    make=lambda rng, N, C, scale=1.0, dead=False: {"pre": some_rows(rng, N, C, scale, dead)},
    shapes=rows(),
    paths=paths(fine(mlp, "gelu")),
    fwd_args=("pre", "act"),
    bwd_args=("pre", "dact", "dpre"),
    reference_forward=lambda x: names("act")(reference.gelu_forward(x["pre"])),
    reference_backward=lambda x: names("dpre")(reference.gelu_backward(x["pre"], x["dact"])),
    incoming={"dact": "act"},
    grads={"dpre": "pre"},
    difference_sizes={"blocks": {"N": 6, "C": 11}},
    wide={"N": 700, "C": 130},
)

# ---------------------------------------------------------------- residual

RESIDUAL = Op(
    name="residual",
    make=lambda rng, N, C, scale=1.0, dead=False: {k: some_rows(rng, N, C, scale, dead) for k in ("a", "b")},
    shapes=rows(),
    paths=paths(residual.PAIR),
    fwd_args=("a", "b", "out"),
    bwd_args=("dout", "da", "db"),
    reference_forward=lambda x: names("out")(reference.residual_forward(x["a"], x["b"])),
    reference_backward=lambda x: names("da", "db")(reference.residual_backward(x["dout"])),
    incoming={"dout": "out"},
    grads={"da": "a", "db": "b"},
    difference_sizes={"blocks": {"N": 6, "C": 11}},
    wide={"N": 700, "C": 130},
)

# ---------------------------------------------------------------- loss


def make_targets(rng, B, T, V, dead=False) -> np.ndarray:
    """(B, T) targets, about a fifth of them ignored; all of them when `dead`."""
    targets = rng.integers(0, V, (B, T)).astype(np.int32)
    targets[rng.random((B, T)) < 0.2] = -1
    targets[0, 0] = V - 1
    if dead:
        targets[:] = -1
    return targets


def make_loss(rng, B, T, C, V, scale=1.0, dead=False):
    """Logits of a standard deviation of `scale`."""
    inp, head = some_rows(rng, B * T, C, scale), normal(rng, V, C, scale=C**-0.5)
    return {"inp": inp, "head": head, "targets": make_targets(rng, B, T, V, dead)}


VOCAB = sequences(V=(1, 9, 150, 133, 6))
SMALL_VOCAB = {"blocks": {"B": 2, "T": 3, "C": 4, "V": 7}, "large": {"B": 2, "T": 3, "C": 4, "V": 5, "scale": 60.0}}

LOSS = Op(
    name="loss",
    make=make_loss,
    shapes=VOCAB,
    paths=paths(loss.PAIRS[0], gemm=True),
    fwd_args=("inp", "head", "targets", "logits", "lse", "losses"),
    bwd_args=("inp", "head", "targets", "logits", "lse", "dlosses", "dlogits", "dinp", "dhead"),
    reference_forward=lambda x: names("logits", "lse", "losses")(
        reference.loss_forward(x["inp"], x["head"], x["targets"])
    ),
    reference_backward=lambda x: names("dlogits", "dinp", "dhead")(
        reference.loss_backward(x["inp"], x["head"], x["targets"], x["logits"], x["lse"], x["dlosses"])
    ),
    incoming={"dlosses": "losses"},
    grads={"dinp": "inp", "dhead": "head"},
    scratch=("dlogits",),
    scratch_paths=("production", "ourgemm"),
    difference_sizes=SMALL_VOCAB,
    wide={"B": 3, "T": 230, "C": 200, "V": 300},
)

HEAD = Op(
    name="head",
    make=lambda rng, N, C, V, scale=1.0, dead=False: {
        "inp": some_rows(rng, N, C, scale, dead),
        "head": normal(rng, V, C),
    },
    shapes=rows(V=(1, 9, 150, 133, 6)),
    paths=paths(fine(loss, "head"), gemm=True),
    fwd_args=("inp", "head", "logits"),
    bwd_args=("inp", "head", "dlogits", "dinp", "dhead"),
    reference_forward=lambda x: names("logits")(reference.head_forward(x["inp"], x["head"])),
    reference_backward=lambda x: names("dinp", "dhead")(reference.head_backward(x["inp"], x["head"], x["dlogits"])),
    incoming={"dlogits": "logits"},
    grads={"dinp": "inp", "dhead": "head"},
    difference_sizes={"blocks": {"N": 4, "C": 5, "V": 6}, "large": {"N": 4, "C": 5, "V": 6, "scale": 60.0}},
    wide={"N": 700, "C": 200, "V": 300},
)


def make_xent(rng, B, T, V, C=None, scale=1.0, dead=False):
    """Logits far beyond what exp() survives when `scale` is large: the maximum has to come out first."""
    logits = normal(rng, B * T, V, scale=2.0 * scale) + np.float32(2.0 * scale)
    return {"logits": logits, "targets": make_targets(rng, B, T, V, dead)}


XENT = Op(
    name="xent",
    make=make_xent,
    shapes=VOCAB,
    paths=paths(fine(loss, "xent")),
    fwd_args=("logits", "targets", "lse", "losses"),
    bwd_args=("logits", "targets", "lse", "dlosses", "dlogits"),
    reference_forward=lambda x: names("lse", "losses")(reference.xent_forward(x["logits"], x["targets"])),
    reference_backward=lambda x: names("dlogits")(
        reference.xent_backward(x["logits"], x["targets"], x["lse"], x["dlosses"])
    ),
    incoming={"dlosses": "losses"},
    grads={"dlogits": "logits"},
    difference_sizes=SMALL_VOCAB,
    wide={"B": 3, "T": 230, "C": 130, "V": 300},
)
