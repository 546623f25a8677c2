"""Write tests/fixtures/*.npz: results and gradients of every operation and of a whole model, from PyTorch in float64.

Needs PyTorch, which the project itself does not: run it in an environment that has torch and numpy,

    python tests/make_fixtures.py

Inputs come from a fixed seed. Files are plain arrays (no pickle); the tests read them, nobody has to run this again.
"""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

OUT = Path(__file__).parent / "fixtures"
EPS = 1e-5
rng = np.random.default_rng(20)


def normal(*shape, scale=1.0):
    return torch.tensor(rng.standard_normal(shape) * scale)


def ids(*shape, high, low=0):
    return torch.tensor(rng.integers(low, high, shape))


def numpy(a):
    if isinstance(a, int | float):
        return np.asarray(a)
    a = a.detach().numpy()
    return a.astype(np.int32) if a.dtype.kind == "i" else a


def save(name, arrays):
    np.savez_compressed(OUT / f"{name}.npz", **{k: numpy(a) for k, a in arrays.items()})


def pair(name, inputs, forward, incoming, grads):
    """Store a pair: inputs, results, random incoming gradients (name -> result), gradients (name -> input)."""
    for key in grads.values():
        inputs[key].requires_grad_()
    results = forward(**inputs)
    arriving = {d: normal(*results[out].shape) for d, out in incoming.items()}
    total = sum((arriving[d] * results[out])[results[out].isfinite()].sum() for d, out in incoming.items())
    found = torch.autograd.grad(total, [inputs[k] for k in grads.values()])
    save(name, inputs | results | arriving | dict(zip(grads, found, strict=True)))


def layer_norm(x, gamma, beta):
    return F.layer_norm(x, x.shape[-1:], gamma, beta, EPS)


def gelu(x):
    return F.gelu(x, approximate="tanh")


def split(x, B, NH):
    return x.view(B, x.shape[0] // B, NH, x.shape[1] // NH).transpose(1, 2)


def merge(x):
    B, NH, T, HS = x.shape
    return x.transpose(1, 2).reshape(B * T, NH * HS)


def causal(s):
    hidden = torch.ones(s.shape[-2:], dtype=torch.bool).triu(1)
    return s.masked_fill(hidden, -torch.inf)


def attention(q, k, v, B, NH):
    q, k, v = (split(x, B, NH) for x in (q, k, v))
    out = merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return {"out": out, "lse": torch.logsumexp(causal(scores), -1)}


def xent(logits, targets):
    losses = F.cross_entropy(logits, targets.flatten().long(), ignore_index=-1, reduction="none")
    return {"lse": torch.logsumexp(logits, -1), "losses": losses}


def embedding_fixtures():
    B, T, V, C = 2, 5, 4, 3
    tables = {"wte": normal(V, C), "wpe": normal(T + 2, C)}
    tokens = ids(B, T, high=V)

    def embed(tokens, wte, wpe):
        return {"out": (F.embedding(tokens, wte) + wpe[: tokens.shape[1]]).view(-1, C)}

    pair("embed", {"tokens": tokens, **tables}, embed, {"dout": "out"}, {"dwte": "wte", "dwpe": "wpe"})
    pair(
        "token",
        {"tokens": tokens, "wte": normal(V, C)},
        lambda tokens, wte: {"out": F.embedding(tokens, wte).view(-1, C)},
        {"dout": "out"},
        {"dwte": "wte"},
    )
    pair(
        "position",
        {"inp": normal(B * T, C), "wpe": normal(T + 2, C), "T": T},
        lambda inp, wpe, T: {"out": inp + wpe[:T].repeat(B, 1)},
        {"dout": "out"},
        {"dinp": "inp", "dwpe": "wpe"},
    )


def row_fixtures():
    N, C = 5, 6

    def norm(inp, gamma, beta):
        rstd = 1.0 / torch.sqrt(inp.var(1, unbiased=False) + EPS)
        return {"out": layer_norm(inp, gamma, beta), "mean": inp.mean(1), "rstd": rstd}

    inputs = {"inp": normal(N, C, scale=3.0), "gamma": normal(C), "beta": normal(C)}
    pair("layernorm", inputs, norm, {"dout": "out"}, {"dinp": "inp", "dgamma": "gamma", "dbeta": "beta"})
    pair("gelu", {"pre": normal(N, C, scale=3.0)}, lambda pre: {"act": gelu(pre)}, {"dact": "act"}, {"dpre": "pre"})
    both = {"a": normal(N, C), "b": normal(N, C)}
    pair("residual", both, lambda a, b: {"out": a + b}, {"dout": "out"}, {"da": "a", "db": "b"})


def product_fixtures():
    N, C, H, V = 5, 4, 8, 7

    def qkv(inp, wq, wk, wv):
        return {"q": inp @ wq, "k": inp @ wk, "v": inp @ wv}

    def mlp(inp, w1, w2):
        pre = inp @ w1
        return {"pre": pre, "act": gelu(pre), "out": gelu(pre) @ w2}

    pair(
        "linear",
        {"inp": normal(N, C), "w": normal(C, H)},
        lambda inp, w: {"out": inp @ w},
        {"dout": "out"},
        {"dinp": "inp", "dw": "w"},
    )
    pair(
        "attn_qkv",
        {"inp": normal(N, C), "wq": normal(C, C), "wk": normal(C, C), "wv": normal(C, C)},
        qkv,
        {"dq": "q", "dk": "k", "dv": "v"},
        {"dinp": "inp", "dwq": "wq", "dwk": "wk", "dwv": "wv"},
    )
    pair(
        "attn_out",
        {"inp": normal(N, C), "wo": normal(C, C)},
        lambda inp, wo: {"out": inp @ wo},
        {"dout": "out"},
        {"dinp": "inp", "dwo": "wo"},
    )
    weights = {"w1": normal(C, H), "w2": normal(H, C)}
    pair("mlp", {"inp": normal(N, C), **weights}, mlp, {"dout": "out"}, {"dinp": "inp", "dw1": "w1", "dw2": "w2"})
    pair(
        "head",
        {"inp": normal(N, C), "head": normal(V, C)},
        lambda inp, head: {"logits": F.linear(inp, head)},
        {"dlogits": "logits"},
        {"dinp": "inp", "dhead": "head"},
    )


def attention_fixtures():
    B, T, NH, HS = 2, 4, 2, 3
    C = NH * HS
    square = (B, NH, T, T)
    vectors = {"q": normal(B * T, C), "k": normal(B * T, C), "v": normal(B * T, C), "B": B, "NH": NH}
    pair("attn", vectors, attention, {"dout": "out"}, {"dq": "q", "dk": "k", "dv": "v"})
    pair(
        "scores",
        {"q": normal(B, NH, T, HS), "k": normal(B, NH, T, HS)},
        lambda q, k: {"s": q @ k.transpose(-1, -2) * HS**-0.5},
        {"ds": "s"},
        {"dq": "q", "dk": "k"},
    )
    pair("mask", {"inp": normal(*square)}, lambda inp: {"out": causal(inp)}, {"dout": "out"}, {"dinp": "inp"})
    pair("softmax", {"s": causal(normal(*square))}, lambda s: {"p": F.softmax(s, -1)}, {"dp": "p"}, {"ds": "s"})
    pair(
        "weighted_sum",
        {"p": F.softmax(normal(*square), -1), "v": normal(B, NH, T, HS)},
        lambda p, v: {"out": p @ v},
        {"dout": "out"},
        {"dp": "p", "dv": "v"},
    )
    pair(
        "heads",
        {"inp": normal(B * T, C), "B": B, "NH": NH},
        lambda inp, B, NH: {"out": split(inp, B, NH)},
        {"dout": "out"},
        {"dinp": "inp"},
    )


def loss_fixtures():
    B, T, C, V = 2, 4, 3, 6
    targets = ids(B, T, high=V)
    targets[0, 1] = targets[1, 3] = -1
    pair(
        "xent",
        {"logits": normal(B * T, V, scale=40.0), "targets": targets},
        xent,
        {"dlosses": "losses"},
        {"dlogits": "logits"},
    )

    def loss(inp, head, targets):
        logits = F.linear(inp, head)
        return {"logits": logits} | xent(logits, targets)

    inputs = {"inp": normal(B * T, C), "head": normal(V, C), "targets": targets}
    pair("loss", inputs, loss, {"dlosses": "losses"}, {"dinp": "inp", "dhead": "head"})


def model(p, tokens, targets, NH, layers):
    """Losses of the pre-norm GPT, by PyTorch's own functions."""
    B, T = tokens.shape
    x = (F.embedding(tokens, p["wte"]) + p["wpe"][:T]).view(B * T, -1)
    for i in range(layers):
        h = f"layer{i}."
        n = layer_norm(x, p[h + "ln1.gamma"], p[h + "ln1.beta"])
        q, k, v = n @ p[h + "W_Q"], n @ p[h + "W_K"], n @ p[h + "W_V"]
        x = x + attention(q, k, v, B, NH)["out"] @ p[h + "W_O"]
        n = layer_norm(x, p[h + "ln2.gamma"], p[h + "ln2.beta"])
        x = x + gelu(n @ p[h + "W_1"]) @ p[h + "W_2"]
    x = layer_norm(x, p["ln_f.gamma"], p["ln_f.beta"])
    return xent(F.linear(x, p.get("lm_head", p["wte"])), targets)["losses"]


def parameters(V, context, C, layers, tied):
    """Random weights, larger than at the start of training, so that no term of a gradient is lost in the others."""
    p = {"wte": normal(V, C), "wpe": normal(context, C)}
    for i in range(layers):
        h = f"layer{i}."
        for ln in ("ln1", "ln2"):
            p |= {h + ln + ".gamma": 1.0 + 0.3 * normal(C), h + ln + ".beta": 0.3 * normal(C)}
        p |= {h + w: normal(C, C, scale=0.5) for w in ("W_Q", "W_K", "W_V", "W_O")}
        p |= {h + "W_1": normal(C, 4 * C, scale=0.5), h + "W_2": normal(4 * C, C, scale=0.3)}
    p |= {"ln_f.gamma": 1.0 + 0.3 * normal(C), "ln_f.beta": 0.3 * normal(C)}
    if not tied:
        p["lm_head"] = normal(V, C)
    return {k: w.requires_grad_() for k, w in p.items()}


def model_fixture(name, tied):
    B, T, V, C, NH, layers = 2, 5, 9, 6, 2, 2
    p = parameters(V, T + 1, C, layers, tied)
    tokens, targets = ids(B, T, high=V), ids(B, T, high=V)
    targets[0, 2] = targets[1, 4] = -1
    loss = model(p, tokens, targets, NH, layers).sum() / (targets >= 0).sum()
    grads = torch.autograd.grad(loss, list(p.values()))
    norm = torch.sqrt(sum((g**2).sum() for g in grads))
    arrays = {"tokens": tokens, "targets": targets, "NH": NH, "loss": loss, "norm": norm}
    arrays |= {f"w.{k}": w for k, w in p.items()}
    save(name, arrays | {f"g.{k}": g for k, g in zip(p, grads, strict=True)})


def adamw_fixture():
    """Three steps of torch.optim.AdamW with decay; gradients g.1 to g.3, weights and moments after each."""
    w, lr, decay = normal(40).requires_grad_(), 0.01, 0.1
    optimiser = torch.optim.AdamW([w], lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=decay)
    arrays = {"w.0": w.detach().clone(), "lr": lr, "decay": decay}
    for t in (1, 2, 3):
        w.grad = normal(40)
        optimiser.step()
        state = optimiser.state[w]
        arrays |= {f"g.{t}": w.grad, f"w.{t}": w.detach().clone()}
        arrays |= {f"m.{t}": state["exp_avg"].clone(), f"v.{t}": state["exp_avg_sq"].clone()}
    save("adamw", arrays)


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    embedding_fixtures()
    row_fixtures()
    product_fixtures()
    attention_fixtures()
    loss_fixtures()
    model_fixture("model_tied", tied=True)
    model_fixture("model_untied", tied=False)
    adamw_fixture()
    print(sum(f.stat().st_size for f in OUT.glob("*.npz")), "bytes")
