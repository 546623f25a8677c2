"""AdamW on flat float32 vectors: k_adamw, and the table of hyper-parameters that it and clip.py read.

`hp` is float32[16] on the device; the host writes it before a step, the two norm kernels of clip.py fill in NORM and
FACTOR. So a step needs no new launch arguments: the launches are built once.
"""

import math

import numpy as np
from numba import cuda, float32

from kernels.registry import ANY_BLOCK, cdiv, register, wave
from kernels.target import KernelError, kernel

NT = 256
SLOTS = 16
# Written by the host: the rates, and CORR1 = 1 / (1 - beta1^t), CORR2 = 1 / (1 - beta2^t) of step t = 1, 2, ...
LR, BETA1, BETA2, EPS, DECAY, CORR1, CORR2 = range(7)
# Written by the host: the norm to clip to (none when <= 0) and 1 / number of counted targets.
MAX_NORM, INV_COUNT = 7, 8
# Written by k_grad_norm_final: the norm of gradient * INV_COUNT, and what a gradient is multiplied with.
NORM, FACTOR = 9, 10


def correction(beta, t):
    """1 / (1 - beta^t) for the float32 nearest to `beta`: with it, the first step undoes exactly what k_adamw did."""
    return 1.0 / (1.0 - float(np.float32(beta)) ** t)


def example_hp():
    """An hp of step 3 for tests and examples."""
    hp = np.zeros(SLOTS, np.float32)
    hp[[LR, BETA1, BETA2, EPS, DECAY]] = 0.01, 0.9, 0.999, 1e-8, 0.1
    hp[[CORR1, CORR2]] = correction(0.9, 3), correction(0.999, 3)
    hp[[MAX_NORM, INV_COUNT, NORM, FACTOR]] = 1.0, 0.125, 4.0, 0.03125
    return hp


def _example(block):
    n = 1500
    v = np.abs(wave(n, seed=4))
    args = (wave(n), wave(n, seed=2), wave(n, seed=3), v, example_hp(), 100, 1400, np.float32(1.0))
    return cdiv(1300, math.prod(block) if isinstance(block, tuple) else block), args


@register(ANY_BLOCK, _example)
@kernel
def k_adamw(w, g, m, v, hp, start, stop, decays):
    """One step of AdamW on elements start to stop; decay acts on the weight itself, not through m and v.

    Maths: g' = g FACTOR; m = beta1 m + (1 - beta1) g'; v = beta2 v + (1 - beta2) g'^2;
    w -= lr (m CORR1 / (sqrt(v CORR2) + eps) + decays DECAY w). eps stands outside the root.
    Shapes: w, g, m, v (n,); hp (16,); decays is 1 or 0.
    Threads: one element a thread.
    Shared memory: none.
    Reads + writes: reads w 2 size, g, m and v size each, hp 8 gridDim blockDim; writes w, m and v size each;
    where size = stop - start. w stands twice in its update; hp is read by every thread.
    Saves: m and v for the next step.
    """
    i = start + cuda.grid(1)
    lr = hp[LR]
    beta1 = hp[BETA1]
    beta2 = hp[BETA2]
    eps = hp[EPS]
    decay = hp[DECAY] * decays
    corr1 = hp[CORR1]
    corr2 = hp[CORR2]
    factor = hp[FACTOR]
    if i < stop:
        gi = g[i] * factor
        mi = beta1 * m[i] + (float32(1.0) - beta1) * gi
        vi = beta2 * v[i] + (float32(1.0) - beta2) * gi * gi
        m[i] = mi
        v[i] = vi
        w[i] -= lr * (mi * corr1 / (math.sqrt(vi * corr2) + eps) + decay * w[i])


def update(w, g, m, v, hp, regions):
    """Launches of one AdamW step on flat vectors w, g, m, v (n,); hp (16,) as described above.

    regions: [(start, stop, decay: bool)], disjoint pieces of the vectors; elements outside of them stay as they are.
    Raises KernelError when a region does not fit the vectors.
    """
    launches = []
    for start, stop, decay in regions:
        if not 0 <= start < stop <= w.size:
            raise KernelError(f"adamw: region {start} to {stop} is empty or outside of the vector of {w.size} elements")
        k = k_adamw[cdiv(stop - start, NT), NT]
        launches.append(k.bind(w, g, m, v, hp, start, stop, np.float32(1.0 if decay else 0.0)))
    return launches
