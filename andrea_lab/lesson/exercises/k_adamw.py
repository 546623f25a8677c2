"""One step of AdamW in one kernel: both moments, their correction, decay on the weight itself."""

import math

import numpy as np
from numba import cuda, float32

from andrea_lab.lesson.parts import Exercise, Mistake, Wrong
from kernels.target import kernel

LR, BETA1, BETA2, EPS, DECAY, CORR1, CORR2, MAX_NORM, INV_COUNT, NORM, FACTOR = range(11)


@kernel
def my_adamw(w, g, m, v, hp, start, stop, decays):
    """One step of AdamW on elements start to stop, from g * hp[FACTOR]; decays is 1 or 0. A thread an element."""
    i = start + cuda.grid(1)
    if i < stop:
        # yours: the new m and v from the scaled gradient, then w; one read and one write of each, about 8 lines
        beta1, beta2 = hp[BETA1], hp[BETA2]
        gi = g[i] * hp[FACTOR]
        mi = beta1 * m[i] + (float32(1) - beta1) * gi
        vi = beta2 * v[i] + (float32(1) - beta2) * gi * gi
        m[i] = mi
        v[i] = vi
        move = mi * hp[CORR1] / (math.sqrt(vi * hp[CORR2]) + hp[EPS])
        w[i] -= hp[LR] * (move + decays * hp[DECAY] * w[i])
        # end


@kernel
def keeps_the_gradient(w, g, m, v, hp, start, stop, decays):
    """Right, but the scaled gradient is written back, where the next reader would scale it again."""
    i = start + cuda.grid(1)
    beta1, beta2 = hp[BETA1], hp[BETA2]
    if i < stop:
        g[i] *= hp[FACTOR]
        mi = beta1 * m[i] + (float32(1) - beta1) * g[i]
        vi = beta2 * v[i] + (float32(1) - beta2) * g[i] * g[i]
        m[i] = mi
        v[i] = vi
        w[i] -= hp[LR] * (mi * hp[CORR1] / (math.sqrt(vi * hp[CORR2]) + hp[EPS]) + decays * hp[DECAY] * w[i])


def parts(case):
    """(the step's region as a slice, the arguments in float64, hp by slot)."""
    a = {name: np.asarray(value, np.float64) for name, value in case.arguments.items()}
    return slice(int(a["start"]), int(a["stop"])), a, a["hp"]


def stepped(case, *, factor=None, coupled=0.0, root=0.0, outside=1.0, corrections=True, moved=None):
    """w, m and v after a step with one thing done otherwise: coupled adds decay to the gradient, root puts eps into
    the root, moved says which m moves the weights."""
    at, a, hp = parts(case)
    decay = float(a["decays"]) * hp[DECAY]
    g = a["g"] * (hp[FACTOR] if factor is None else factor) + coupled * decay * a["w"]
    after = {name: a[name].copy() for name in ("w", "m", "v")}
    m = hp[BETA1] * a["m"] + (1 - hp[BETA1]) * g
    v = hp[BETA2] * a["v"] + (1 - hp[BETA2]) * g * g
    corr1, corr2 = (hp[CORR1], hp[CORR2]) if corrections else (1.0, 1.0)
    mover = m if moved is None else a[moved]
    with np.errstate(invalid="ignore", divide="ignore"):
        move = mover * corr1 / (np.sqrt(v * corr2 + root * hp[EPS]) + outside * hp[EPS])
    after["w"][at] -= hp[LR] * (move + (1 - coupled) * decay * a["w"])[at]
    after["m"][at], after["v"][at] = m[at], v[at]
    return after


def unscaled(case):
    """The sum of the gradients taken for their clipped mean."""
    return stepped(case, factor=1.0)


def through_the_gradient(case):
    """Decay added to the gradient, as in Adam with an L2 penalty."""
    return stepped(case, coupled=1.0)


def under_the_root(case):
    """eps added to v, inside the root."""
    return stepped(case, root=1.0, outside=0.0)


def uncorrected(case):
    """m and v used as they are."""
    return stepped(case, corrections=False)


def old_moment(case):
    """The weights moved by the m of the step before."""
    return stepped(case, moved="m")


EXERCISE = Exercise(
    id="k_adamw",
    notebook=10,
    title="one step of AdamW in one launch",
    statement=(
        "Put the three kernels into one launch. Its numbers come from the table `hp`; the gradient is multiplied by "
        "`hp[FACTOR]` on the way in and stays as it is in memory; only elements `start` to `stop` are touched, and "
        "decay counts `decays` times, 1 or 0."
    ),
    solution=my_adamw,
    hints=(
        "Each element is read once and kept in a variable. Which m and which v move the weight, those from before the "
        "step or those from after it?",
        "gi = g[i] * hp[FACTOR]; the new m and v from gi into variables of their own, then into memory; the move is "
        "m * CORR1 over the root of v * CORR2, plus EPS outside the root; the decay joins the move, not gi.",
        "mi = beta1 * m[i] + (float32(1) - beta1) * gi; vi with gi * gi alike; m[i] = mi; v[i] = vi; w[i] -= hp[LR] * "
        "(mi * hp[CORR1] / (math.sqrt(vi * hp[CORR2]) + hp[EPS]) + decays * hp[DECAY] * w[i]).",
    ),
    explanation=(
        "The three kernels read and wrote memory between each other; here `mi` and `vi` stay in registers, and every "
        "array is touched as rarely as it can be. `hp` is read by all threads, which a cache serves; in return a "
        "launch never changes from step to step, only the table does. `float32(1)` keeps the arithmetic in float32, "
        "for `1 - beta1` with an untyped 1 would be done in float64."
    ),
    wrong=(
        Wrong("no guard", edits=(("if i < stop:", "for _ in range(1):"),)),
        Wrong("not scaled", edits=(("g[i] * hp[FACTOR]", "g[i]"),)),
        Wrong("input changed", kernel=keeps_the_gradient),
        Wrong(
            "decay through m and v",
            edits=(
                ("g[i] * hp[FACTOR]", "g[i] * hp[FACTOR] + decays * hp[DECAY] * w[i]"),
                (" + decays * hp[DECAY] * w[i])", ")"),
            ),
        ),
        Wrong(
            "eps inside the root",
            edits=(("(math.sqrt(vi * hp[CORR2]) + hp[EPS])", "math.sqrt(vi * hp[CORR2] + hp[EPS])"),),
        ),
        Wrong("not corrected", edits=(("mi * hp[CORR1]", "mi"), ("vi * hp[CORR2]", "vi"))),
        Wrong("the old m", edits=(("m[i] = mi", "old = m[i]\n        m[i] = mi"), ("move = mi *", "move = old *"))),
        Wrong("float64", edits=(("(float32(1) - beta1)", "(1.0 - beta1)"),)),
        Wrong("sign", edits=(("w[i] -=", "w[i] +="),)),
    ),
    mistakes=(
        Mistake("not scaled", "the gradient enters as it is; hp[FACTOR] makes the clipped mean of it", unscaled),
        Mistake(
            "decay through m and v",
            "decay went into the gradient, so v divides it too; it acts on the weight itself",
            through_the_gradient,
        ),
        Mistake("eps inside the root", "eps was added to v, under the root; it stands outside", under_the_root),
        Mistake("not corrected", "m and v are used as they are; multiply them by CORR1 and CORR2", uncorrected),
        Mistake("the old m", "the weight moves by the m from before the step; take the new one", old_moment),
    ),
)
