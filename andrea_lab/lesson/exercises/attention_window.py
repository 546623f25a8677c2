"""Attention through a window: the last W places and place 0, in one pass."""

import math

import numpy as np
from numba import cuda, float32

from andrea_lab.lesson.cases import Case
from andrea_lab.lesson.cases.case import TOLERANCE, Draw, poison
from andrea_lab.lesson.parts import Exercise, Mistake, Wrong
from kernels import reference
from kernels.target import kernel

HS = 32


@kernel
def my_window(q, k, v, out, T, W, scale):
    """Attention of place i to the last W places, itself among them, and to place 0; one thread a query."""
    acc = cuda.local.array(HS, float32)
    i = cuda.grid(1)
    r0, c0 = cuda.blockIdx.z * T, cuda.blockIdx.y * HS
    if i < T:
        m, norm = float32(-1e30), float32(0)
        for d in range(HS):
            acc[d] = float32(0)
        # yours: walk along the keys that place i sees and keep m, norm and acc, about 13 lines
        first = max(1, i - W + 1)
        for n in range(first - 1, i + 1):
            j = n if n >= first else 0
            s = float32(0)
            for d in range(HS):
                s += q[r0 + i, c0 + d] * k[r0 + j, c0 + d]
            s *= scale
            top = max(m, s)
            shrink, e = math.exp(m - top), math.exp(s - top)
            norm = norm * shrink + e
            for d in range(HS):
                acc[d] = acc[d] * shrink + e * v[r0 + j, c0 + d]
            m = top
        # end
        for d in range(HS):
            out[r0 + i, c0 + d] = acc[d] / norm


def seen(T: int, W: int, first: bool = True) -> np.ndarray:
    """(T, T): which key j a query i sees."""
    i, j = np.arange(T)[:, None], np.arange(T)
    return (j <= i) & ((i - j < W) | (first & (j == 0)))


def attended(q, k, v, B: int, NH: int, weight: np.ndarray) -> np.ndarray:
    """float64 attention in which key j counts weight[i, j] times for query i."""
    q, k, v = (reference.split_heads(a.astype(np.float64), B, NH) for a in (q, k, v))
    s = reference.scores_forward(q, k)
    p = weight * np.exp(s - s.max(axis=-1, keepdims=True))
    return reference.merge_heads(p / p.sum(axis=-1, keepdims=True) @ v)


SIZES = {
    "one": {"B": 1, "NH": 1, "T": 1, "W": 3},
    "itself": {"B": 1, "NH": 1, "T": 5, "W": 1},
    "odd": {"B": 2, "NH": 2, "T": 7, "W": 3},
    "strong": {"B": 1, "NH": 2, "T": 35, "W": 4, "size": 40.0},
}


def cases(seed: int) -> list[Case]:
    """Windows shorter and longer than the text; "strong": scores that overflow, more places than threads."""
    made = []
    for label, sizes in SIZES.items():
        draw, B, NH, T, W = Draw(seed, "attention_window", label), *(sizes[n] for n in ("B", "NH", "T", "W"))
        q, k, v = (draw.normal(B * T, NH * HS, scale=s) for s in (sizes.get("size", 1.0), 1.0, 1.0))
        expected = {"out": attended(q, k, v, B, NH, seen(T, W))}
        arguments = {"q": q, "k": k, "v": v, "out": poison(B * T, NH * HS), "T": T, "W": W}
        arguments["scale"] = np.float32(HS**-0.5)
        grid, shown = (-(-T // 32), NH, B), {n: s for n, s in sizes.items() if n.isupper()}
        strong = label == "strong"
        tol = 1e-4 if strong else TOLERANCE  # a large score is rounded where it is large, and exp makes that grow
        made.append(Case("attention_window", label, grid, 32, arguments, ("out",), expected, tol, strong, shown))
    return made


def mistaken(weight):
    """The twin of a mistake: attention with the weights that weight(T, W) gives."""

    def twin(case):
        a = case.arguments
        B, NH, T = case.grid[2], case.grid[1], a["T"]
        return {"out": attended(a["q"], a["k"], a["v"], B, NH, weight(T, a["W"]))}

    return twin


def window_alone(T: int, W: int) -> np.ndarray:
    """The last W places and nothing else."""
    return seen(T, W, first=False)


def twice(T: int, W: int) -> np.ndarray:
    """Key 0 counted in the window and again."""
    weight = seen(T, W, first=False).astype(float)
    weight[:, 0] += 1.0
    return weight


EXERCISE = Exercise(
    id="attention_window",
    notebook=5,
    title="attention through a window",
    statement=(
        "Long texts are often read through a window: place i sees the last W places, itself among them, and place 0 "
        "besides, where many heads look when they have nothing to look for. Write the walk; no key may count twice."
    ),
    solution=my_window,
    hints=(
        "Take the loop of `my_one_pass`. The running sums do not care in which order the keys come: what changes is "
        "only which keys come.",
        "The window begins at i - W + 1, or at 0 if that is negative. If place 0 lies in the window it must not come "
        "a second time: let the window begin at 1 at the earliest, and place 0 come before it.",
        "first = max(1, i - W + 1); for n in range(first - 1, i + 1): j = n if n >= first else 0; the rest is the "
        "body of the loop in my_one_pass. (Shorter still: for j in range(i + 1), and an if around the body.)",
    ),
    explanation=(
        "Place 0 comes first, then the window, which begins at 1 at the earliest: so nothing is counted twice, and "
        "place 0, whose window would be empty, still sees itself. A walk over all keys with an `if` around its body "
        "is as right; it only turns round more often. The mask has gone where it costs nothing, into the bounds of "
        "the loop."
    ),
    wrong=(
        Wrong("window too long", edits=(("max(1, i - W + 1)", "max(1, i - W)"),)),
        Wrong("window too short", edits=(("max(1, i - W + 1)", "max(1, i - W + 2)"),)),
        Wrong("no place 0", edits=(("max(1, i - W + 1)", "max(0, i - W + 1) + 1"), ("else 0", "else n"))),
        Wrong("place 0 twice", edits=(("max(1, i - W + 1)", "max(0, i - W + 1)"),)),
        Wrong("no window", edits=(("max(1, i - W + 1)", "1"),)),
        Wrong("negative index", edits=(("max(1, i - W + 1)", "i - W + 1"), ("j = n if n >= first else 0", "j = n"))),
        Wrong("missing maximum", edits=(("top = max(m, s)", "top = float32(0)"),)),
        Wrong("no guard", edits=(("if i < T:", "for _ in range(1):"),)),
        Wrong("float64", edits=(("s = float32(0)", "s = 0.0"),)),
    ),
    mistakes=(
        Mistake("window too long", "your window holds W + 1 places, not W", mistaken(lambda T, W: seen(T, W + 1))),
        Mistake("window too short", "your window holds W - 1 places, not W", mistaken(lambda T, W: seen(T, W - 1))),
        Mistake("no place 0", "place 0 is seen only by those whose window holds it", mistaken(window_alone)),
        Mistake("place 0 twice", "place 0 counts twice where the window holds it too", mistaken(twice)),
        Mistake("no window", "every earlier place is seen, not the last W", mistaken(lambda T, W: np.tri(T))),
    ),
    cases=cases,
)
