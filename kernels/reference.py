"""The oracle: every operation and its backward twin in float64 NumPy, written for reading, not for speed.

Sizes: B sequences of T tokens, N = B*T rows, width C, NH heads of size HS = C/NH, MLP width F = 4C, vocabulary V. A
`_backward` takes the gradient of the loss with respect to the forward's result (`dout`) and returns the gradients
with respect to what the forward read, each a new array: vector times Jacobian, the Jacobian itself is never made. The
caller adds them up; only the kernels write `+=`.
"""

from __future__ import annotations

import numpy as np

EPS = 1e-5
GELU_A = np.sqrt(2.0 / np.pi)
GELU_B = 0.044715


# ---------------------------------------------------------------- embedding


def token_forward(tokens, wte):
    """out[n] = wte[tokens[n]]: (B, T) ids and a (V, C) table give (N, C)."""
    return wte[tokens.ravel()]


def token_backward(tokens, dout, V):
    """dwte[v] = the sum of dout[n] over all rows n with token v: a row of the table may have been read many times."""
    dwte = np.zeros((V, dout.shape[1]))
    np.add.at(dwte, tokens.ravel(), dout)
    return dwte


def position_forward(inp, wpe, T):
    """out[n] = inp[n] + wpe[n mod T]: row n is position n mod T of its sequence."""
    return inp + wpe[np.arange(len(inp)) % T]


def position_backward(dout, T, context):
    """dinp = dout; dwpe[t] = the sum of dout over the rows at position t (0 for positions beyond T)."""
    dwpe = np.zeros((context, dout.shape[1]))
    dwpe[:T] = dout.reshape(-1, T, dout.shape[1]).sum(axis=0)
    return dout.copy(), dwpe


def embed_forward(tokens, wte, wpe):
    """out[n] = wte[tokens[n]] + wpe[n mod T]."""
    return position_forward(token_forward(tokens, wte), wpe, tokens.shape[1])


def embed_backward(tokens, dout, V, context):
    """(dwte, dwpe): tokens have no gradient, so there is no dinp."""
    _, dwpe = position_backward(dout, tokens.shape[1], context)
    return token_backward(tokens, dout, V), dwpe


# ---------------------------------------------------------------- layer norm


def layernorm_forward(inp, gamma, beta, eps=EPS):
    """(out, mean, rstd): rstd = 1/sqrt(variance + eps), xhat = (inp - mean) * rstd, out = xhat * gamma + beta."""
    mean = inp.mean(axis=1)
    rstd = 1.0 / np.sqrt(((inp - mean[:, None]) ** 2).mean(axis=1) + eps)
    return (inp - mean[:, None]) * rstd[:, None] * gamma + beta, mean, rstd


def layernorm_backward(inp, gamma, mean, rstd, dout):
    """(dinp, dgamma, dbeta); with d = dout * gamma, dinp = rstd * (d - mean(d) - xhat * mean(d * xhat)).

    dgamma = sum of dout * xhat over rows, dbeta = sum of dout. Why dinp has three terms:
    mean and variance depend on the row too: that takes the row's mean, and its component along xhat, out of d.
    """
    xhat = (inp - mean[:, None]) * rstd[:, None]
    d = dout * gamma
    along = (d * xhat).mean(axis=1, keepdims=True)
    dinp = rstd[:, None] * (d - d.mean(axis=1, keepdims=True) - xhat * along)
    return dinp, (dout * xhat).sum(axis=0), dout.sum(axis=0)


# ---------------------------------------------------------------- projections


def linear_forward(inp, w):
    """out = inp @ w, (N, K) by (K, M)."""
    return inp @ w


def linear_backward(inp, w, dout):
    """dinp = dout @ w.T; dw = inp.T @ dout."""
    return dout @ w.T, inp.T @ dout


def qkv_forward(inp, wq, wk, wv):
    """Three projections of one input: (q, k, v)."""
    return inp @ wq, inp @ wk, inp @ wv


def qkv_backward(inp, wq, wk, wv, dq, dk, dv):
    """(dinp, dwq, dwk, dwv): the input was read three times, so its gradient is a sum of three."""
    return dq @ wq.T + dk @ wk.T + dv @ wv.T, inp.T @ dq, inp.T @ dk, inp.T @ dv


# ---------------------------------------------------------------- attention


def split_heads(x, B, NH):
    """(N, C) -> (B, NH, T, HS): head h owns columns h*HS to (h+1)*HS."""
    N, C = x.shape
    return x.reshape(B, N // B, NH, C // NH).transpose(0, 2, 1, 3)


def merge_heads(x):
    """(B, NH, T, HS) -> (N, C): undoes split_heads, and is its backward (a permutation's transpose is its inverse)."""
    B, NH, T, HS = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B * T, NH * HS)


def scores_forward(q, k):
    """s[i, j] = (q_i . k_j) / sqrt(HS); any leading axes, (..., T, HS) gives (..., T, T)."""
    return q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])


def scores_backward(q, k, ds):
    """dq = ds @ k / sqrt(HS); dk = ds.T @ q / sqrt(HS)."""
    return ds @ k / np.sqrt(q.shape[-1]), ds.swapaxes(-1, -2) @ q / np.sqrt(q.shape[-1])


def mask_forward(s):
    """s[i, j] where j <= i, else minus infinity: a query sees itself and the past."""
    return np.where(np.tri(s.shape[-1], dtype=bool), s, -np.inf)


def mask_backward(dout):
    """Masked scores are constants: their gradient is 0."""
    return np.where(np.tri(dout.shape[-1], dtype=bool), dout, 0.0)


def logsumexp(s):
    """log(sum(exp(s))) along the last axis, with the maximum taken out so that nothing overflows."""
    m = s.max(axis=-1, keepdims=True)
    return (m + np.log(np.exp(s - m).sum(axis=-1, keepdims=True)))[..., 0]


def softmax_forward(s):
    """p = exp(s - logsumexp(s)) along the last axis."""
    return np.exp(s - logsumexp(s)[..., None])


def softmax_backward(p, dout):
    """ds = p * (dout - sum(dout * p)): the Jacobian is diag(p) - p p^T."""
    return p * (dout - (dout * p).sum(axis=-1, keepdims=True))


def weighted_sum_forward(p, v):
    """out_i = sum_j p[i, j] v_j."""
    return p @ v


def weighted_sum_backward(p, v, dout):
    """dp = dout @ v.T; dv = p.T @ dout."""
    return dout @ v.swapaxes(-1, -2), p.swapaxes(-1, -2) @ dout


def attention_forward(q, k, v, B, NH):
    """Causal attention of (N, C) queries, keys, values in NH heads: (out (N, C), lse (B, NH, T))."""
    q, k, v = (split_heads(x, B, NH) for x in (q, k, v))
    s = mask_forward(scores_forward(q, k))
    return merge_heads(weighted_sum_forward(softmax_forward(s), v)), logsumexp(s)


def attention_backward(q, k, v, lse, dout):
    """(dq, dk, dv). Only lse is saved: p = exp(s - lse) is made again from q and k."""
    B, NH, _ = lse.shape
    q, k, v, dout = (split_heads(x, B, NH) for x in (q, k, v, dout))
    p = np.exp(mask_forward(scores_forward(q, k)) - lse[..., None])
    dp, dv = weighted_sum_backward(p, v, dout)
    dq, dk = scores_backward(q, k, mask_backward(softmax_backward(p, dp)))
    return merge_heads(dq), merge_heads(dk), merge_heads(dv)


# ---------------------------------------------------------------- MLP and residual


def gelu_forward(pre):
    """0.5 x (1 + tanh(a (x + b x^3))), a = sqrt(2/pi), b = 0.044715."""
    return 0.5 * pre * (1.0 + np.tanh(GELU_A * (pre + GELU_B * pre**3)))


def gelu_backward(pre, dact):
    """With t the tanh: dact * (0.5 (1 + t) + 0.5 x (1 - t^2) a (1 + 3 b x^2))."""
    t = np.tanh(GELU_A * (pre + GELU_B * pre**3))
    return dact * (0.5 * (1.0 + t) + 0.5 * pre * (1.0 - t * t) * GELU_A * (1.0 + 3.0 * GELU_B * pre**2))


def mlp_forward(inp, w1, w2):
    """pre = inp @ w1; act = gelu(pre); out = act @ w2: (pre, act, out)."""
    pre = inp @ w1
    act = gelu_forward(pre)
    return pre, act, act @ w2


def mlp_backward(inp, w1, w2, pre, act, dout):
    """(dpre, dinp, dw1, dw2), backwards through the three lines of mlp_forward."""
    dact, dw2 = linear_backward(act, w2, dout)
    dpre = gelu_backward(pre, dact)
    dinp, dw1 = linear_backward(inp, w1, dpre)
    return dpre, dinp, dw1, dw2


def residual_forward(a, b):
    """out = a + b."""
    return a + b


def residual_backward(dout):
    """(da, db): the gradient flows unchanged into both branches."""
    return dout.copy(), dout.copy()


# ---------------------------------------------------------------- loss


def head_forward(inp, head):
    """logits = inp @ head.T: (N, C) by (V, C). Tied, head is the token table."""
    return inp @ head.T


def head_backward(inp, head, dlogits):
    """dinp = dlogits @ head; dhead = dlogits.T @ inp."""
    return dlogits @ head, dlogits.T @ inp


def xent_forward(logits, targets):
    """(lse, losses); lse[n] = logsumexp(logits[n]), losses[n] = lse[n] - logits[n, target[n]], 0 for a target < 0."""
    t = targets.ravel()
    lse = logsumexp(logits)
    picked = logits[np.arange(len(t)), np.maximum(t, 0)]
    return lse, np.where(t >= 0, lse - picked, 0.0)


def xent_backward(logits, targets, lse, dlosses):
    """dlogits[n] = (softmax(logits[n]) - onehot(target[n])) * dlosses[n]; 0 where the target is ignored."""
    t = targets.ravel()
    dlogits = np.exp(logits - lse[:, None])
    dlogits[np.arange(len(t)), np.maximum(t, 0)] -= 1.0
    return dlogits * np.where(t >= 0, dlosses, 0.0)[:, None]


def loss_forward(inp, head, targets):
    """Head and cross-entropy: (logits, lse, losses)."""
    logits = head_forward(inp, head)
    return (logits, *xent_forward(logits, targets))


def loss_backward(inp, head, targets, logits, lse, dlosses):
    """(dlogits, dinp, dhead). The mean over M counted rows starts from dlosses = 1/M: backprop starts at dL/dL = 1."""
    dlogits = xent_backward(logits, targets, lse, dlosses)
    return (dlogits, *head_backward(inp, head, dlogits))


# ---------------------------------------------------------------- the whole model


def n_layers(params) -> int:
    """Number of blocks of a parameter dict, see model_forward."""
    return sum(name.endswith(".W_Q") for name in params)


def model_forward(params, tokens, targets, NH):
    """The pre-norm GPT: x = embed; x += attention(LN(x)), x += mlp(LN(x)) per block; losses = xent(LN(x) @ head.T).

    params: wte, wpe, per block i and with the prefix layeri: ln1.gamma, ln1.beta, W_Q, W_K, W_V, W_O, ln2.gamma,
    ln2.beta, W_1, W_2; ln_f.gamma, ln_f.beta, and lm_head (V, C) unless it is tied to wte. Returns (losses (N,),
    cache for backward).
    """
    p, B = params, len(tokens)
    cache = []
    x = embed_forward(tokens, p["wte"], p["wpe"])
    for i in range(n_layers(p)):
        h = f"layer{i}."
        n1, mean1, rstd1 = layernorm_forward(x, p[h + "ln1.gamma"], p[h + "ln1.beta"])
        q, k, v = qkv_forward(n1, p[h + "W_Q"], p[h + "W_K"], p[h + "W_V"])
        att, lse = attention_forward(q, k, v, B, NH)
        x1 = residual_forward(x, linear_forward(att, p[h + "W_O"]))
        n2, mean2, rstd2 = layernorm_forward(x1, p[h + "ln2.gamma"], p[h + "ln2.beta"])
        pre, act, out = mlp_forward(n2, p[h + "W_1"], p[h + "W_2"])
        cache.append((x, n1, mean1, rstd1, q, k, v, att, lse, x1, n2, mean2, rstd2, pre, act))
        x = residual_forward(x1, out)
    nf, mean, rstd = layernorm_forward(x, p["ln_f.gamma"], p["ln_f.beta"])
    logits, lse, losses = loss_forward(nf, p.get("lm_head", p["wte"]), targets)
    return losses, (tokens, targets, cache, (x, nf, mean, rstd, logits, lse))


def model_backward(params, cache, dlosses):
    """Gradients of sum(losses * dlosses), a dict like params. Tied, wte gets two: the head's and the lookup's."""
    p, g = params, {}
    tokens, targets, layers, (x, nf, mean, rstd, logits, lse) = cache
    _, dnf, dhead = loss_backward(nf, p.get("lm_head", p["wte"]), targets, logits, lse, dlosses)
    dx, g["ln_f.gamma"], g["ln_f.beta"] = layernorm_backward(x, p["ln_f.gamma"], mean, rstd, dnf)
    for i in reversed(range(len(layers))):
        h = f"layer{i}."
        x, n1, mean1, rstd1, q, k, v, att, lse, x1, n2, mean2, rstd2, pre, act = layers[i]
        dx1, dmlp = residual_backward(dx)
        _, dn2, g[h + "W_1"], g[h + "W_2"] = mlp_backward(n2, p[h + "W_1"], p[h + "W_2"], pre, act, dmlp)
        d, g[h + "ln2.gamma"], g[h + "ln2.beta"] = layernorm_backward(x1, p[h + "ln2.gamma"], mean2, rstd2, dn2)
        dx, dproj = residual_backward(dx1 + d)
        datt, g[h + "W_O"] = linear_backward(att, p[h + "W_O"], dproj)
        dq, dk, dv = attention_backward(q, k, v, lse, datt)
        dn1, g[h + "W_Q"], g[h + "W_K"], g[h + "W_V"] = qkv_backward(
            n1, p[h + "W_Q"], p[h + "W_K"], p[h + "W_V"], dq, dk, dv
        )
        d, g[h + "ln1.gamma"], g[h + "ln1.beta"] = layernorm_backward(x, p[h + "ln1.gamma"], mean1, rstd1, dn1)
        dx = dx + d
    g["wte"], g["wpe"] = embed_backward(tokens, dx, len(p["wte"]), len(p["wpe"]))
    if "lm_head" in p:
        g["lm_head"] = dhead
    else:
        g["wte"] += dhead
    return {name: g[name] for name in p}


# ---------------------------------------------------------------- one step


def count(targets) -> int:
    """Number of targets that are counted: those not negative."""
    return int((targets >= 0).sum())


def mean_loss_and_grads(params, tokens, targets, NH):
    """(mean loss over the counted targets, its gradients)."""
    losses, cache = model_forward(params, tokens, targets, NH)
    m = count(targets)
    return losses.sum() / m, model_backward(params, cache, np.full(len(losses), 1.0 / m))


def accumulate(params, microbatches, NH):
    """(loss, gradients) of a batch cut into (tokens, targets) pieces: sum over pieces, then divide once by all tokens.

    A mean of the pieces' means would weigh a token by how empty its piece is.
    """
    total, grads, m = 0.0, {name: np.zeros_like(w) for name, w in params.items()}, 0
    for tokens, targets in microbatches:
        losses, cache = model_forward(params, tokens, targets, NH)
        for name, g in model_backward(params, cache, np.ones(len(losses))).items():
            grads[name] += g
        total += losses.sum()
        m += count(targets)
    return total / m, {name: g / m for name, g in grads.items()}


def global_norm(grads) -> float:
    """sqrt of the sum of squares of all gradients together."""
    return float(np.sqrt(sum((g**2).sum() for g in grads.values())))


def clip_factor(norm, max_norm) -> float:
    """min(1, max_norm / norm); 1 when max_norm <= 0 (no clipping)."""
    return 1.0 if max_norm <= 0.0 or norm <= max_norm else max_norm / norm


def adamw(w, g, m, v, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.0):
    """(w, m, v) after step t = 1, 2, ... of AdamW; decay acts on w, not through m and v; eps is outside the root."""
    m = beta1 * m + (1.0 - beta1) * g
    v = beta2 * v + (1.0 - beta2) * g * g
    m_hat, v_hat = m / (1.0 - beta1**t), v / (1.0 - beta2**t)
    return w - lr * (m_hat / (np.sqrt(v_hat) + eps) + decay * w), m, v
