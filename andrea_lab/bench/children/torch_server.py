"""The measured process of PyTorch: the same model, written as its users write it, and the same training step.

Run by path with whatever interpreter has torch; nothing of ours is imported but serve.py beside it. Weights and token
ids come in a file written by our engine's process. What a PyTorch user would do for speed is done: one matrix for q, k
and v, scaled_dot_product_attention, gradients set to None, the quickest of AdamW's three forms.
"""

import sys
import time

from serve import peak_mib, serve

try:
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError as error:
    serve({"hello": lambda missing=error.name: {"missing": missing}})
    sys.exit()


class Block(nn.Module):
    """Pre-norm transformer block without linear biases."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        batch, steps, width = x.shape
        parts = self.qkv(self.ln1(x)).split(width, dim=2)
        q, k, v = (p.view(batch, steps, self.heads, -1).transpose(1, 2) for p in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, steps, width))
        return x + self.down(functional.gelu(self.up(self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Token ids and targets in, mean loss out."""

    def __init__(self, vocab, context, width, heads, layers, tied):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        if tied:
            self.head.weight = self.wte.weight

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


class Peer:
    """The requests of this process; `load` comes before the others but `hello`."""

    def hello(self):
        """What this process is."""
        return {"torch": torch.__version__}

    def load(self, file, model, train, threads):
        """Build the model from the file's weights. Returns the form of AdamW that was quickest."""
        torch.set_num_threads(threads)
        self.train, self.saved = train, np.load(file)
        self.model = GPT(**model)
        self.tokens, self.targets = (torch.from_numpy(self.saved[n].astype(np.int64)) for n in ("tokens", "targets"))
        self._restore()
        self.form = self._quickest()
        self._restore()
        self.done = 0
        return {"torch": torch.__version__, "threads": torch.get_num_threads(), "adamw": self.form}

    def _restore(self):
        """Put the file's weights into the model and start AdamW anew. Ours are (in, out), PyTorch's are (out, in)."""
        w = {name[2:]: torch.from_numpy(self.saved[name]) for name in self.saved.files if name.startswith("w:")}
        m = self.model
        pairs = [(m.wte.weight, w["wte"]), (m.wpe.weight, w["wpe"]), *self._norm(m.ln_f, w, "ln_f")]
        if m.head.weight is not m.wte.weight:
            pairs.append((m.head.weight, w["lm_head"]))
        for i, block in enumerate(m.blocks):
            name = f"layer{i}."
            pairs += [*self._norm(block.ln1, w, name + "ln1"), *self._norm(block.ln2, w, name + "ln2")]
            qkv = torch.cat([w[name + part].T for part in ("W_Q", "W_K", "W_V")])
            pairs += [(block.qkv.weight, qkv), (block.out.weight, w[name + "W_O"].T)]
            pairs += [(block.up.weight, w[name + "W_1"].T), (block.down.weight, w[name + "W_2"].T)]
        with torch.no_grad():
            for parameter, values in pairs:
                parameter.copy_(values)
        self.optimiser = self._adamw(getattr(self, "form", "fused"))

    @staticmethod
    def _norm(layer, w, name):
        return [(layer.weight, w[name + ".gamma"]), (layer.bias, w[name + ".beta"])]

    def _adamw(self, form):
        """Decay on the matrices of the blocks alone, as ours."""
        decayed = [p for p in self.model.blocks.parameters() if p.dim() == 2]
        known = {id(p) for p in decayed}
        others = [p for p in self.model.parameters() if id(p) not in known]
        t = self.train
        groups = [{"params": decayed, "weight_decay": t["decay"]}, {"params": others, "weight_decay": 0.0}]
        options = {"fused": {"fused": True}, "foreach": {"foreach": True}, "plain": {"foreach": False}}[form]
        return torch.optim.AdamW(groups, lr=t["lr"], betas=(t["beta1"], t["beta2"]), eps=t["eps"], **options)

    def _quickest(self):
        """Which form of AdamW takes the least time here: the best of six updates each, after one to warm up."""
        self.model(self.tokens[0], self.targets[0]).backward()
        best = {}
        for form in ("fused", "foreach", "plain"):
            optimiser = self._adamw(form)
            for turn in range(7):
                start = time.perf_counter()
                optimiser.step()
                if turn:
                    best[form] = min(best.get(form, 1e9), time.perf_counter() - start)
        return min(best, key=best.get)

    def step(self, rates):
        """One step for each learning rate. Returns ms, losses and gradient norms, a list each."""
        ms, losses, norms = [], [], []
        for rate in rates:
            start = time.perf_counter()
            at = self.done % len(self.tokens)
            for group in self.optimiser.param_groups:
                group["lr"] = rate
            loss = self.model(self.tokens[at], self.targets[at])
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.train["clip"])
            self.optimiser.step()
            losses.append(float(loss))
            ms.append((time.perf_counter() - start) * 1e3)
            norms.append(float(norm))
            self.done += 1
        return {"ms": ms, "losses": losses, "norms": norms}

    def memory(self):
        """Peak resident size so far, MiB."""
        return {"peak_mib": peak_mib()}


if __name__ == "__main__":
    peer = Peer()
    serve({"hello": peer.hello, "load": peer.load, "step": peer.step, "memory": peer.memory})
