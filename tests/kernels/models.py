"""A whole model as launches of pairs, for the tests that hold it against the reference."""

import numpy as np
from cases import with_our_gemm
from judges import poison

from kernels import reference, target
from kernels.pairs import FINE, PAIRS


class Model:
    """A pre-norm GPT as launches: `forward` and `backward`, run in this order, leave `losses` and the gradients `g`.

    way: "production", "ourgemm" (the same with our own matrix products), "named" (one launch a pair), or "fine" (the
    21 fine pairs).
    """

    def __init__(self, way: str, weights: dict, tokens, targets, NH: int):
        self.way, self.NH, self.B = way, NH, len(tokens)
        self.w = {name: target.to_device(a) for name, a in weights.items()}
        self.g = {name: target.zeros(a.shape, np.float32) for name, a in weights.items()}
        self.tokens, self.targets = target.to_device(tokens), target.to_device(targets)
        self.N, self.T = tokens.size, tokens.shape[1]
        self.C, self.F = weights["wte"].shape[1], 4 * weights["wte"].shape[1]
        self.forward, self.backward, self.used = [], [], []
        self.build()

    def call(self, name: str, direction: str, *args):
        pair = PAIRS[name]
        build = getattr(pair, f"named_{direction}" if self.way == "named" else direction)
        return (with_our_gemm(build) if self.way == "ourgemm" else build)(*args)

    def new(self, *shape):
        return target.to_device(poison(shape or (self.N, self.C)))

    def zero(self, *shape):
        return target.zeros(shape or (self.N, self.C), np.float32)

    def pair(self, name, forward, backward, place=""):
        """Append the pair's forward, and put its backward in front of all others. place: which fine pair it is."""
        if self.way == "fine":
            getattr(self, f"fine_{name}")(place, *forward, *backward)
        else:
            self.both(self.call(name, "forward", *forward), self.call(name, "backward", *backward))

    def both(self, forward, backward):
        self.forward = self.forward + forward
        self.backward = backward + self.backward

    def step(self, name, forward, backward):
        """One fine pair."""
        self.used.append(name)
        self.both(FINE[name].forward(*forward), FINE[name].backward(*backward))

    def twice(self, *shape):
        """A tensor and its gradient."""
        return self.new(*shape), self.zero(*shape)

    def fine_embed(self, place, tokens, wte, wpe, x, _tokens, dx, dwte, dwpe):
        inp, dinp = self.twice()
        self.step("token", (tokens, wte, inp), (tokens, dinp, dwte))
        self.step("position", (inp, wpe, x, self.T), (dx, dinp, dwpe, self.T))

    def fine_layernorm(self, place, *args):
        self.step(place, args[:6], args[6:])

    def fine_attn_qkv(self, place, inp, wq, wk, wv, q, k, v, _inp, _wq, _wk, _wv, dq, dk, dv, dinp, dwq, dwk, dwv):
        self.step("q_proj", (inp, wq, q), (inp, wq, dq, dinp, dwq))
        self.step("k_proj", (inp, wk, k), (inp, wk, dk, dinp, dwk))
        self.step("v_proj", (inp, wv, v), (inp, wv, dv, dinp, dwv))

    def fine_attn(self, place, q, k, v, out, lse, _q, _k, _v, _out, _lse, dout, dq, dk, dv):
        cut, square = (self.B, self.NH, self.T, self.C // self.NH), (self.B, self.NH, self.T, self.T)
        (qh, dqh), (kh, dkh), (vh, dvh), (oh, doh) = (self.twice(*cut) for _ in range(4))
        (s, ds), (m, dm), (p, dp) = (self.twice(*square) for _ in range(3))
        for flat, heads, dheads, dflat in ((q, qh, dqh, dq), (k, kh, dkh, dk), (v, vh, dvh, dv)):
            self.step("heads", (flat, heads), (dheads, dflat))
        self.step("scores", (qh, kh, s), (qh, kh, ds, dqh, dkh))
        self.step("mask", (s, m), (dm, ds))
        self.step("softmax", (m, p), (p, dp, dm))
        self.step("weighted_sum", (p, vh, oh), (p, vh, doh, dp, dvh))
        self.step("heads", (oh, out), (dout, doh))

    def fine_attn_out(self, place, *args):
        self.step("o_proj", args[:3], args[3:])

    def fine_mlp(self, place, inp, w1, w2, pre, act, out, _inp, _w1, _w2, _pre, _act, dout, _dpre, dinp, dw1, dw2):
        dpre, dact = self.zero(*pre.shape), self.zero(*pre.shape)
        self.step("w1", (inp, w1, pre), (inp, w1, dpre, dinp, dw1))
        self.step("gelu", (pre, act), (pre, dact, dpre))
        self.step("w2", (act, w2, out), (act, w2, dout, dact, dw2))

    def fine_residual(self, place, *args):
        self.step(place, args[:3], args[3:])

    def fine_loss(self, place, inp, head, targets, logits, lse, losses, *back):
        dlosses, _, dinp, dhead = back[5:]
        dlogits = self.zero(*logits.shape)
        self.step("head", (inp, head, logits), (inp, head, dlogits, dinp, dhead))
        self.step("xent", (logits, targets, lse, losses), (logits, targets, lse, dlosses, dlogits))

    def norm(self, name, x, dx):
        out, dout, mean, rstd = self.new(), self.zero(), self.new(self.N), self.new(self.N)
        gamma, beta = self.w[f"{name}.gamma"], self.w[f"{name}.beta"]
        dgamma, dbeta = self.g[f"{name}.gamma"], self.g[f"{name}.beta"]
        forward, backward = (x, gamma, beta, out, mean, rstd), (x, gamma, mean, rstd, dout, dx, dgamma, dbeta)
        self.pair("layernorm", forward, backward, place=name.split(".")[-1])
        return out, dout

    def add(self, a, da, b, db, place):
        out, dout = self.twice()
        self.pair("residual", (a, b, out), (dout, da, db), place)
        return out, dout

    def attention(self, h, x, dx):
        n, dn = self.norm(h + "ln1", x, dx)
        (q, k, v, out, y), (dq, dk, dv, dout, dy) = ([f() for _ in range(5)] for f in (self.new, self.zero))
        lse = self.new(self.B, self.NH, self.T)
        w, dw = ([d[h + name] for name in ("W_Q", "W_K", "W_V")] for d in (self.w, self.g))
        self.pair("attn_qkv", (n, *w, q, k, v), (n, *w, dq, dk, dv, dn, *dw))
        self.pair("attn", (q, k, v, out, lse), (q, k, v, out, lse, dout, dq, dk, dv))
        self.pair("attn_out", (out, self.w[h + "W_O"], y), (out, self.w[h + "W_O"], dy, dout, self.g[h + "W_O"]))
        return self.add(x, dx, y, dy, "residual_attn")

    def mlp(self, h, x, dx):
        n, dn = self.norm(h + "ln2", x, dx)
        out, dout = self.twice()
        pre, act, dpre = (self.new(self.N, self.F) for _ in range(3))
        w, dw = ([d[h + name] for name in ("W_1", "W_2")] for d in (self.w, self.g))
        self.pair("mlp", (n, *w, pre, act, out), (n, *w, pre, act, dout, dpre, dn, *dw))
        return self.add(x, dx, out, dout, "residual_mlp")

    def build(self):
        x, dx = self.twice()
        tables, dtables = ([d["wte"], d["wpe"]] for d in (self.w, self.g))
        self.pair("embed", (self.tokens, *tables, x), (self.tokens, dx, *dtables))
        for i in range(reference.n_layers(self.w)):
            x, dx = self.attention(f"layer{i}.", x, dx)
            x, dx = self.mlp(f"layer{i}.", x, dx)
        n, dn = self.norm("ln_f", x, dx)
        name = "lm_head" if "lm_head" in self.w else "wte"
        logits = self.new(self.N, self.w[name].shape[0])
        lse, self.losses = self.new(self.N), self.new(self.N)
        count = reference.count(target.copy_to_host(self.targets))
        dlosses = target.to_device(np.full(self.N, 1.0 / count, np.float32))
        dlogits = self.new(*logits.shape)
        head, dhead = self.w[name], self.g[name]
        self.pair(
            "loss",
            (n, head, self.targets, logits, lse, self.losses),
            (n, head, self.targets, logits, lse, dlosses, dlogits, dn, dhead),
        )
