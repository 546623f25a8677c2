"""One run, or up to six over each other, as a still picture; the same histories give the same pixels.

What a curve alone would hide is marked: losses that are not finite or leave the frame, steps that were done again after
a resume, checkpoints, forks. Matplotlib's Agg canvas without pyplot draws in any thread and without a display.
"""

import math

import numpy as np

from andrea_lab.run.compare import span_of
from andrea_lab.view.page import GAP, SMALL, Page, powers
from andrea_lab.view.palette import FAINT, GREEN, INK, PALE, RED, RUN_COLOURS, SOURCE_COLOURS
from andrea_lab.view.scales import COLUMNS, Line, decades, envelope, limits, shares, thinned, threshold, window, zigzag
from andrea_lab.view.style import Picture, encode

SIZE = (900, 450)  # pixels
NORM, STRIP = 0.23, 16  # share of the height that the gradient norm has; pixels of the strip of sources
FEW = 200  # steps whose dots have room
COLOURS = 96  # of the PNG: the lines', and what lies between them and white

RAW = {"color": PALE, "lw": 0.9, "zorder": 2}
OLD = {"color": FAINT, "lw": 0.9, "zorder": 1.9}
DOT = {"ls": "none", "marker": "o", "mew": 0, "zorder": 2.2}
SMOOTH = {"lw": 2.0, "zorder": 3}
ABOVE = {"ls": "none", "marker": "^", "ms": 6, "mew": 0, "clip_on": False, "zorder": 4}
BAD = {"ls": "none", "marker": "X", "ms": 8, "mec": "white", "mew": 0.7, "clip_on": False, "zorder": 5}
SAVED = {"ls": "none", "marker": 2, "ms": 6, "mew": 1.1, "color": INK, "zorder": 4}  # a tick that points up
LEVEL = {"color": INK, "lw": 1.0, "ls": (0, (4, 3)), "zorder": 2.5}


def still(histories, *, vocab=None, steps=None, forks=None, checkpoints=(), size=SIZE) -> Picture:
    """Draw runs.

    histories: [(name, History)], one to six. vocab: size of the vocabulary, for the line at ln V. steps: planned length
    of the run. forks: {name: step at which the run was forked from its parent}. checkpoints: steps that have a weight
    file. size: (width, height) in pixels. Raises ValueError for another number of runs.
    """
    page, words = draw(histories, vocab=vocab, steps=steps, forks=forks, checkpoints=checkpoints, size=size)
    canvas = page.sheet.figure.canvas
    canvas.draw()
    return Picture(encode(canvas, colours=COLOURS), words)


def draw(histories, *, vocab=None, steps=None, forks=None, checkpoints=(), size=SIZE) -> tuple[Page, str]:
    """The page that `still` makes a PNG of, and the picture in a sentence."""
    if not 1 <= len(histories) <= len(RUN_COLOURS):
        raise ValueError(f"still: found {len(histories)} runs, expected 1 to {len(RUN_COLOURS)}")
    span = span_of(min((len(history.steps()) for _, history in histories if len(history.steps())), default=0))
    alone = len(histories) == 1
    lines = [
        Line(
            name=name,
            colour=colour,
            steps=history.steps(),
            loss=history.values("loss"),
            smoothed=history.smoothed(None if alone else span),
            rewound=history.rewound(),
            forked_at=(forks or {}).get(name),
        )
        for (name, history), colour in zip(histories, RUN_COLOURS, strict=False)
    ]
    shown = window(lines, steps)
    page, uniform = Page(size, shown), vocab and math.log(vocab)
    frame = limits(lines, shown[0], uniform)
    beyond = [("", {}, f"ln V = {uniform:.2f} is above the frame")] if uniform and uniform > frame[1] else []
    if alone:
        axes, notes = _one(page, lines[0], histories[0][1], frame, beyond, steps, sorted(checkpoints))
    else:
        axes, notes = _several(page, lines, frame, [("", {}, f"thick: smoothed over {span} steps"), *beyond])
    if uniform and not beyond:
        axes.axhline(uniform, **LEVEL)
        low = uniform < frame[0] + 0.9 * (frame[1] - frame[0])  # room above the line
        _beside(axes, page, uniform, f"ln V = {uniform:.2f}, a uniform guess", low)
    page.foot(notes)
    return page, _sentence(lines, notes)


def _one(page, line: Line, history, frame, more, planned, checkpoints):
    """A run alone: dots and a strip in the colours of its sources, its gradient norm below. Returns (axes, notes)."""
    norm, clip, ids = history.values("grad_norm"), history.values("clip"), history.source_ids()
    positive, count = norm[np.isfinite(norm) & (norm > 0)], len(history.sources)
    dots = len(line) <= COLUMNS and count > 1
    forks = [] if line.forked_at is None else [(line.forked_at, f"fork at step {line.forked_at:,}")]
    events = _shown(page, sorted([(int(step), "resumed") for step in history.resumes()] + forks))
    page.head(line.name, _header(line, norm, clip, history.values("lr"), planned))
    page.names(_key(line, history.sources, bool(checkpoints)) + more)
    page.lane(events)
    low, strip = round(page.sheet.height * NORM) * bool(len(positive)), STRIP * (count > 1)
    axes = page.panel(page.room() - low - strip - GAP * (bool(low) + bool(strip)), "loss (nats per token)", events)
    raw = RAW | {"marker": "o", "ms": 3.0} if len(line) <= FEW and not dots else RAW
    notes = _losses(axes, page, line, frame, raw, {"color": RED})
    for n in range(count * dots):
        at = ids == n
        axes.plot(line.steps[at], line.loss[at], color=_colour(n), ms=3.6 if len(line) <= FEW else 2.6, **DOT)
    ticks = thinned(np.array(checkpoints), *page.window, 200)
    fine = {"ms": 4, "mew": 0.6} if len(ticks) > 60 else {}
    axes.plot(ticks, np.zeros(len(ticks)), transform=axes.get_xaxis_transform(), **SAVED | fine)
    if strip:
        _strip(page.strip(strip, "source"), line.steps, ids, count)
    if low:
        _norms(page.panel(low, "gradient norm", events), page, line.steps, norm, decades(positive), clip)
    return axes, notes


def _several(page, lines: list[Line], frame, more):
    """Runs over each other, their losses faint and smoothed over one span. Returns (axes, notes)."""
    page.names([("━", SMOOTH | {"color": line.colour}, line.name) for line in lines] + more)
    forks = sorted({line.forked_at for line in lines if line.forked_at is not None})
    events = _shown(page, [(step, f"fork at step {step:,}") for step in forks])
    page.lane(events)
    axes, notes = page.panel(page.room(), "loss (nats per token)", events), []
    for line in lines:
        faint = {"color": line.colour, "lw": 0.7, "alpha": 0.3, "zorder": 2}
        told = _losses(axes, page, line, frame, faint, {"color": line.colour, "mec": INK, "mew": 0.7})
        notes += [f"{line.name}: {note}" for note in told]
    return axes, notes


def _shown(page, events):
    left, right = page.window
    return [(step, word) for step, word in events if left <= step <= right]


def _losses(axes, page, line: Line, frame, raw, marks) -> list[str]:
    """A run's losses and the smoothed ones, with marks for what a curve cannot show; returns what must be said."""
    left, right = page.window
    axes.set_ylim(*frame)
    shown = (line.steps >= left) & (line.steps <= right)
    steps, loss, smooth = line.steps[shown], line.loss[shown], line.smoothed[shown]
    axes.plot(*zigzag(steps, loss, left, right), **raw)
    if len(steps) > COLUMNS:
        x, low, high = envelope(steps, smooth, left, right)
        axes.plot(x, (low + high) / 2, color=line.colour, **SMOOTH)
    else:
        axes.plot(steps, smooth, color=line.colour, **SMOOTH | _lone(steps))
    for branch in line.rewound:
        axes.plot(*zigzag(*branch, left, right), **OLD)
    finite = np.isfinite(loss)
    above, bad = finite & (loss > frame[1]), ~finite
    for style, at, height in ((ABOVE, above, frame[1]), (BAD, bad, frame[0])):
        x = thinned(steps[at], left, right, 200)
        axes.plot(x, np.full(len(x), height), **style | marks)
    notes = []
    if bad.any():
        notes.append(f"{bad.sum():,} not finite, first at step {steps[np.argmax(bad)]:,}")
    if above.any():
        at = int(np.argmax(np.where(above, loss, -np.inf)))
        notes.append(f"{above.sum():,} above the frame, highest {loss[at]:.3g} at step {steps[at]:,}")
    return notes


def _beside(axes, page, height: float, words: str, above: bool) -> None:
    """Words at the right end of a level line."""
    clear = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
    place = {"xytext": (-2, 4 if above else -4), "va": "bottom" if above else "top", "textcoords": "offset points"}
    how = {"ha": "right", "fontsize": SMALL, "color": INK, "zorder": 6, "bbox": clear}
    axes.annotate(words, (page.window[1], height), **how, **place)


def _lone(steps) -> dict:
    """One step makes no line."""
    return {"marker": "o", "ms": 5} if len(steps) == 1 else {}


def _strip(axes, steps, ids, count: int) -> None:
    """The sources of the steps: one colour a cell, or, where a cell holds many steps, as much of each as it had."""
    kinds = min(count, len(SOURCE_COLOURS) + 1)
    edges, share = shares(steps, np.minimum(ids, kinds - 1), kinds)
    share = np.hstack([share, share[:, -1:]])
    tops = np.cumsum(share, axis=0)
    for n in range(kinds):
        how = {"color": _colour(n), "lw": 0, "step": "post", "antialiased": False}
        axes.fill_between(edges, tops[n] - share[n], tops[n], **how)


def _norms(axes, page, steps, norm, heights, clip) -> None:
    """The gradient norm, and the line it was clipped at."""
    powers(axes, *heights)
    how = {"lw": 1.0, "alpha": 1.0 if len(steps) <= COLUMNS else 0.5, "zorder": 2} | _lone(steps)
    axes.plot(*zigzag(steps, np.where(norm > 0, norm, np.nan), *page.window), color=GREEN, **how)
    level = threshold(norm, clip)
    if level is not None:
        axes.axhline(level, **LEVEL)
        _beside(axes, page, heights[1], f"dashed: clipped to {level:.3g}", False)


def _colour(source: int) -> str:
    return SOURCE_COLOURS[source] if source < len(SOURCE_COLOURS) else FAINT


def _key(line: Line, sources: list[str], saved: bool):
    """What stands in the row of names of one run: only what there is to see."""
    key = [("━", SMOOTH | {"color": line.colour}, "smoothed"), ("━", RAW, "each step")]
    if len(sources) > 1:
        named = [*enumerate(sources[: len(SOURCE_COLOURS)])]
        more = len(sources) - len(named)
        named += [(len(named), f"{more} more")] * bool(more)
        key += [("●", DOT | {"color": _colour(n), "ms": 6}, name) for n, name in named]
    key += [("━", OLD, "rewound")] * bool(line.rewound)
    return key + [("|", SAVED, "weights saved")] * saved


def _header(line: Line, norm, clip, rate, planned) -> str:
    """The last step in numbers; nothing of it depends on the clock."""
    if not len(line):
        return "no steps yet"
    of = f" of {planned:,}" if planned else ""
    parts = [f"step {line.steps[-1]:,}{of}", f"loss {_plain(line.loss[-1])}", f"smoothed {_plain(line.smoothed[-1])}"]
    known = np.isfinite(clip)
    parts += [f"gradient norm {_plain(norm[-1])}"] * bool(np.isfinite(norm[-1]))
    parts += [f"rate {rate[-1]:.1e}"] * bool(np.isfinite(rate[-1]))
    if known.any():
        parts.append(f"clipped {100 * np.mean(clip[known] < 1):.0f} %")
    return "   ".join(parts)


def _plain(value: float) -> str:
    return f"{value:.2f}" if not abs(value) >= 1000 else f"{value:.3g}"


def _sentence(lines: list[Line], notes: list[str]) -> str:
    """The picture in words."""
    parts = []
    for line in lines:
        if len(line):
            reach = f"step {line.steps[0]}" if len(line) == 1 else f"steps {line.steps[0]} to {line.steps[-1]}"
            parts.append(f"{line.name}, {reach}, smoothed loss {_plain(line.smoothed[-1])}")
        else:
            parts.append(f"{line.name}, no steps yet")
        if line.forked_at is not None:
            parts[-1] += f", forked at step {line.forked_at}"
    return "loss of " + "; ".join(parts + notes)
