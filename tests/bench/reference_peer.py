"""A peer for tests: speaks the protocol of torch_server.py, computes with the float64 reference.

The argument "missing" makes it play an interpreter without torch.
"""

import sys
import time

import numpy as np

from andrea_lab.bench.children.serve import peak_mib, serve
from kernels import reference


class Peer:
    def load(self, file, model, train, threads):
        saved = np.load(file)
        self.w = {name[2:]: saved[name].astype(np.float64) for name in saved.files if name.startswith("w:")}
        self.m, self.v = ({name: np.zeros_like(w) for name, w in self.w.items()} for _ in range(2))
        self.tokens, self.targets = saved["tokens"], saved["targets"]
        self.heads, self.train, self.done = model["heads"], train, 0
        return {"threads": threads}

    def step(self, rates):
        answer = {"ms": [], "losses": [], "norms": []}
        for rate in rates:
            start = time.perf_counter()
            at = self.done % len(self.tokens)
            loss, grads = reference.mean_loss_and_grads(self.w, self.tokens[at], self.targets[at], self.heads)
            norm = reference.global_norm(grads)
            self.done += 1
            self._update(grads, rate, reference.clip_factor(norm, self.train["clip"]))
            answer["losses"].append(float(loss))
            answer["norms"].append(norm)
            answer["ms"].append((time.perf_counter() - start) * 1e3)
        return answer

    def _update(self, grads, rate, factor):
        t = {name: self.train[name] for name in ("beta1", "beta2", "eps")}
        for name, w in self.w.items():
            decay = self.train["decay"] if ".W_" in name else 0.0
            state = (w, grads[name] * factor, self.m[name], self.v[name])
            self.w[name], self.m[name], self.v[name] = reference.adamw(*state, self.done, rate, **t, decay=decay)


if __name__ == "__main__":
    peer = Peer()
    hello = {"missing": "torch"} if "missing" in sys.argv else {"torch": "none, the reference"}
    serve(
        {
            "hello": lambda: hello,
            "load": peer.load,
            "step": peer.step,
            "memory": lambda: {"peak_mib": peak_mib()},
        }
    )
