"""The memory plan: every array a run will ever use, by name and role, before anything is allocated.

`plan()` is arithmetic on shapes alone. The engine allocates one `Arena` of exactly `plan.total` bytes and cuts all its
arrays out of it, so the plan is the memory, not an estimate of it.
"""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from andrea_lab.model.config import ModelConfig
from andrea_lab.model.layout import layout
from kernels import clip, target

ALIGN = 64  # bytes: a cache line, and one 512-bit vector
HP_SLOTS = 16
MB, MIB = 10**6, 2**20

ROLES = {
    "weights": "the parameters, float32",
    "gradients": "one number per parameter, summed over microbatches",
    "m": "AdamW's first moment",
    "v": "AdamW's second moment",
    "master": "float32 copy of weights kept in half precision",
    "optimiser": "hyper-parameters and partial sums of the norm",
    "inputs": "token ids and targets of one microbatch",
    "saved": "written by forward, read by backward",
    "logits": "scores of every token id, overwritten by their gradient",
    "loss": "losses and their gradient, one number per token",
    "scratch": "a branch's output before it joins the residual stream",
    "activation gradients": "reused from layer to layer, zeroed before they are added to",
}


@dataclass(frozen=True)
class Region:
    """One planned array: `offset` and `nbytes` in bytes; `kind` is its tensor without the layer number."""

    name: str
    role: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    offset: int

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Plan:
    """All regions in order, each at a multiple of 64 bytes; `total` is the size of the arena in bytes."""

    regions: tuple[Region, ...]
    total: int
    n_params: int
    batch: int
    context: int
    precision: str

    @cached_property
    def by_name(self) -> dict[str, Region]:
        return {region.name: region for region in self.regions}

    def by_role(self) -> dict[str, int]:
        """Bytes of each role, in order of appearance, padding left out."""
        return self._sum(lambda region: region.role, self.regions)

    def saved(self) -> dict[str, int]:
        """Bytes of each saved tensor, summed over the layers."""
        return self._sum(lambda region: region.kind, [r for r in self.regions if r.role == "saved"])

    @property
    def padding(self) -> int:
        return self.total - sum(region.nbytes for region in self.regions)

    @staticmethod
    def _sum(key, regions) -> dict[str, int]:
        sums: dict[str, int] = {}
        for region in regions:
            sums[key(region)] = sums.get(key(region), 0) + region.nbytes
        return sums


def activations(model: ModelConfig, batch: int, context: int) -> list[tuple[str, str, tuple[int, ...], str]]:
    """(name, role, shape, dtype) of every array that depends on the batch; dtype "real" follows the precision.

    N = batch * context rows of C channels, F = 4 C. Each layer saves its normalised inputs h1 and h2, q, k, v, the
    attention's output and log-sum-exp, the stream between its halves (mid) and after them (x), and the MLP's pre and
    act around the GELU. Backward needs nothing else.
    """
    n, c, f, heads = batch * context, model.width, model.hidden, model.heads
    rows, wide, one = (n, c), (n, f), (n,)
    table = [("tokens", "inputs", (batch, context), "int32"), ("targets", "inputs", (batch, context), "int32")]
    table.append(("x", "saved", rows, "real"))
    for i in range(model.layers):
        table += [(f"layer{i}.{name}", "saved", one, "float32") for name in ("ln1.mean", "ln1.rstd")]
        table += [(f"layer{i}.{name}", "saved", rows, "real") for name in ("h1", "q", "k", "v", "att")]
        table.append((f"layer{i}.lse", "saved", (batch, heads, context), "float32"))
        table.append((f"layer{i}.mid", "saved", rows, "real"))
        table += [(f"layer{i}.{name}", "saved", one, "float32") for name in ("ln2.mean", "ln2.rstd")]
        table.append((f"layer{i}.h2", "saved", rows, "real"))
        table += [(f"layer{i}.{name}", "saved", wide, "real") for name in ("pre", "act")]
        table.append((f"layer{i}.x", "saved", rows, "real"))
    table += [("ln_f.mean", "saved", one, "float32"), ("ln_f.rstd", "saved", one, "float32")]
    table += [("hf", "saved", rows, "real"), ("logits", "logits", (n, model.vocab), "real")]
    table += [(name, "loss", one, "float32") for name in ("lse", "losses", "dlosses")]
    table.append(("loss_sum", "loss", (1,), "float32"))
    table.append(("branch", "scratch", rows, "real"))
    table += [(name, "activation gradients", rows, "real") for name in ("dx", "dh", "datt", "dq", "dk", "dv")]
    table.append(("dpre", "activation gradients", wide, "real"))
    return table


def scores(model: ModelConfig, batch: int, context: int, precision: str = "float32") -> int:
    """Bytes that attention's scores of all layers would take, (batch, heads, context, context) each; no plan has them:
    forward keeps one number a row, and backward makes them again."""
    return model.layers * batch * model.heads * context**2 * np.dtype(precision).itemsize


def plan(model: ModelConfig, batch: int, context: int, precision: str = "float32") -> Plan:
    """The plan for microbatches of `batch` rows of `context` tokens.

    precision "float32" is what the engine allocates. "float16" answers a what-if: weights, gradients and activations in
    two bytes, float32 master weights, both moments and all statistics in four.
    """
    if precision not in ("float32", "float16"):
        raise ValueError(f"precision: found {precision!r}, expected 'float32' or 'float16'")
    n = layout(model).n_params
    table = [("weights", "weights", (n,), "real"), ("gradients", "gradients", (n,), "real")]
    if precision == "float16":
        table.append(("master", "master", (n,), "float32"))
    table += [("m", "m", (n,), "float32"), ("v", "v", (n,), "float32"), ("hp", "optimiser", (HP_SLOTS,), "float32")]
    table.append(("partial", "optimiser", (clip.partials(n),), "float32"))
    table += activations(model, batch, context)
    regions, offset = [], 0
    for name, role, shape, dtype in table:
        dtype = precision if dtype == "real" else dtype
        kind = name.split(".", 1)[1] if name.startswith("layer") else name
        regions.append(Region(name, role, kind, shape, dtype, offset))
        offset += -(-regions[-1].nbytes // ALIGN) * ALIGN
    return Plan(tuple(regions), offset, n, batch, context, precision)


class Arena:
    """One allocation on the current target, cut into the regions of a float32 plan."""

    def __init__(self, plan: Plan):
        self.plan = plan
        spare = ALIGN // 4
        raw = target.zeros(plan.total // 4 + spare, np.float32)
        start = 0
        if isinstance(raw, np.ndarray):
            start = -raw.ctypes.data % ALIGN // 4
            raw.fill(0)  # touch every page now: what does not fit fails here, not in step 1,000
        self._flat = raw[start : start + plan.total // 4]

    @property
    def nbytes(self) -> int:
        return self._flat.size * 4

    def view(self, name: str, shape: tuple[int, ...] | None = None) -> Any:
        """A region as an array; a smaller `shape` takes the beginning of the same memory."""
        region = self.plan.by_name[name]
        shape = region.shape if shape is None else shape
        if prod(shape) > prod(region.shape):
            raise ValueError(f"{name}: found shape {shape}, expected at most {prod(region.shape)} elements")
        cut = self._flat[region.offset // 4 : region.offset // 4 + prod(shape)]
        if region.dtype == "int32":
            cut = cut.view(np.int32)
        return cut.reshape(shape)

    def span(self, first: str, last: str) -> Any:
        """The memory from one region to another, both included, as one flat float32 array."""
        a, b = self.plan.by_name[first], self.plan.by_name[last]
        return self._flat[a.offset // 4 : (b.offset + b.nbytes) // 4]
