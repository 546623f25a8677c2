"""The still picture of runs: what is drawn where, for any history."""

import io
import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from matplotlib import colors
from PIL import Image

from andrea_lab.run.average import averaged, keep_of
from andrea_lab.view.palette import FAINT, RUN_COLOURS, SOURCE_COLOURS
from andrea_lab.view.scales import CELLS, COLUMNS, envelope, shares
from andrea_lab.view.still import draw, still


@dataclass
class Made:
    """What a picture asks of a history, from plain values."""

    step: list
    loss: list
    norm: float | list = 1.5
    clip: float | list = 1.0
    ids: list | None = None
    sources: list = field(default_factory=lambda: ["kjv"])
    resumed: list = field(default_factory=list)
    branches: list = field(default_factory=list)

    def steps(self):
        return np.array(self.step, int)

    def values(self, name):
        value = {"loss": self.loss, "grad_norm": self.norm, "clip": self.clip, "lr": 1e-3}[name]
        return np.array(value, float) if np.ndim(value) else np.full(len(self.step), float(value))

    def source_ids(self):
        return np.zeros(len(self.step), int) if self.ids is None else np.array(self.ids)

    def resumes(self):
        return np.array(self.resumed, int)

    def rewound(self):
        return [(np.array(steps), np.array(loss)) for steps, loss in self.branches]

    def smoothed(self, span=None):
        pairs = averaged(self.values("loss").tolist(), keep_of(span or 20))
        return np.array([total / weight if weight else math.nan for total, weight in pairs])


def made(first, last, level=4.0, changed=None, **more):
    loss = {step: level + math.exp(-step / 40) + 0.1 * math.sin(step) for step in range(first, last + 1)}
    loss |= changed or {}
    return Made(list(loss), list(loss.values()), **more)


def words_of(page):
    return [text.get_text() for text in page.sheet.figure.texts]


def drawn(page, **wanted):
    """The lines of the upper axes whose properties are these: {name of the getter without get_: value}."""
    return [line for line in page.axes[0].lines if all(getattr(line, f"get_{k}")() == v for k, v in wanted.items())]


def points(page, **wanted):
    return [list(line.get_xdata()) for line in drawn(page, **wanted)]


def level_lines(axes):
    return [line.get_ydata()[0] for line in axes.lines if list(line.get_xdata()) == [0, 1] and line.is_dashed()]


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(picture.png)).convert("RGB")).astype(int)


@pytest.mark.parametrize("size", [(900, 450), (600, 320)])
def test_a_png_of_the_size_asked_for_and_a_sentence_the_same_every_time(size):
    runs = [("small", made(1, 300, sources=["kjv", "plays"], ids=[step % 2 for step in range(300)]))]
    picture = still(runs, vocab=257, steps=300, checkpoints=[100, 200], size=size)
    image = Image.open(io.BytesIO(picture.png))
    assert image.size == size and image.format == "PNG" and len(picture.png) < 40_000
    assert picture.words == "loss of small, steps 1 to 300, smoothed loss 4.00"
    assert still(runs, vocab=257, steps=300, checkpoints=[100, 200], size=size).png == picture.png


def test_the_curve_is_there_to_see():
    blue = np.array(colors.to_rgb(RUN_COLOURS[0])) * 255
    count = [
        int((np.abs(pixels(still([("a", run)], vocab=257)) - blue).max(axis=2) < 40).sum())
        for run in (Made([], []), made(1, 200))
    ]
    assert count[1] > count[0] + 500


def test_ln_v_is_a_line_with_its_words_or_told_to_be_above():
    page, _ = draw([("a", made(1, 100))], vocab=257)
    assert math.log(257) in level_lines(page.axes[0])
    assert "ln V = 5.55, a uniform guess" in [text.get_text() for text in page.axes[0].texts]
    page, _ = draw([("a", made(1000, 1100, 1.0))], vocab=257)
    assert page.axes[0].get_ylim()[1] < 2 and not level_lines(page.axes[0])
    assert "ln V = 5.55 is above the frame" in words_of(page)


def test_a_loss_that_is_not_finite_is_marked_at_its_step_and_counted():
    page, words = draw([("a", made(1, 60, changed={10: math.nan, 30: math.inf, 31: -math.inf}))])
    assert points(page, marker="X") == [[10, 30, 31]]
    assert words.endswith("; 3 not finite, first at step 10")
    assert "3 not finite, first at step 10" in words_of(page)


def test_a_spike_leaves_the_frame_with_a_mark_and_a_lesser_one_is_drawn_whole():
    page, words = draw([("a", made(1, 60, changed={20: 1e5, 40: 5.9}))], vocab=257)
    assert 5.9 < page.axes[0].get_ylim()[1] < 8
    assert points(page, marker="^") == [[20]]
    assert "1 above the frame, highest 1e+05 at step 20" in words


def test_a_run_that_diverges_keeps_its_past_in_sight():
    losses = {step: 4 * 1.1 ** (step - 300) for step in range(300, 501)}
    page, words = draw([("a", made(1, 500, 2.0, changed=losses))], vocab=257)
    assert page.axes[0].get_ylim()[1] < 30
    assert "above the frame" in words


def test_a_spike_one_step_wide_survives_in_a_long_run():
    page, _ = draw([("a", made(1, 100_000, changed={54_321: 5.9}))], vocab=257)
    raw = drawn(page, linewidth=0.9)[0]
    assert len(raw.get_xdata()) <= 2 * COLUMNS
    at = int(np.nanargmax(raw.get_ydata()))
    assert raw.get_ydata()[at] == 5.9 and raw.get_xdata()[at] == pytest.approx(54_321, abs=100_000 / COLUMNS)


def test_values_that_are_not_finite_take_no_part_in_a_column():
    steps = np.arange(1, 2001)
    loss = np.where(steps <= 1000, np.nan, 3.0)
    x, low, high = envelope(steps, loss, 0, 2000)
    assert len(x) == COLUMNS and np.isnan(low[:400]).all() and (high[400:] == 3.0).all()


def test_every_source_has_its_colour_its_name_and_its_part_of_the_strip():
    ids = [step % 3 for step in range(90)]
    page, _ = draw([("a", made(1, 90, ids=ids, sources=["kjv", "plays", "austen"]))])
    dots = {line.get_color(): list(line.get_xdata()) for line in drawn(page, marker="o")}
    assert dots == {SOURCE_COLOURS[n]: list(range(n + 1, 91, 3)) for n in range(3)}
    assert {"kjv", "plays", "austen", "source"} <= set(words_of(page))
    assert len(page.axes) == 3 and len(page.axes[1].collections) == 3


def test_a_long_run_shows_its_sources_as_shares():
    steps, ids = np.arange(1, 4001), np.repeat([0, 1], 2000)
    edges, share = shares(steps, ids, 2)
    assert share.shape == (2, CELLS) and len(edges) == CELLS + 1
    assert share.sum(axis=0) == pytest.approx(np.ones(CELLS))
    assert share[0, 0] == 1 and share[1, -1] == 1 and edges[0] == 0.5 and edges[-1] == 4000.5


def test_sources_beyond_the_colours_are_told_together():
    names = [f"text {n}" for n in range(12)]
    page, _ = draw([("a", made(1, 120, ids=[n % 12 for n in range(120)], sources=names))])
    assert "4 more" in words_of(page) and "text 7" in words_of(page) and "text 8" not in words_of(page)
    assert sum(line.get_color() == FAINT for line in drawn(page, marker="o")) == 4


def test_resumes_rewound_steps_and_checkpoints_are_marked():
    run = made(1, 100, resumed=[51, 81], branches=[([51, 52, 53], [4.5, 4.6, 4.7])])
    page, _ = draw([("a", run)], checkpoints=[80, 50])
    assert [51, 51] in points(page) and [81, 81] in points(page)
    assert points(page, color=FAINT) == [[51, 52, 53]]
    assert points(page, marker=2) == [[50, 80]]
    assert words_of(page).count("resumed") == 2 and {"rewound", "weights saved"} <= set(words_of(page))


def test_words_above_the_axes_never_overlap():
    page, _ = draw([("a", made(1, 1000, resumed=[*range(10, 1000, 10)]))])
    canvas = page.sheet.figure.canvas
    canvas.draw()
    boxes = [text.get_window_extent() for text in page.sheet.figure.texts if "resumed" in text.get_text()]
    assert boxes and not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[n + 1 :])
    assert all(box.x0 >= 0 and box.x1 <= 900 for box in boxes)


def test_the_gradient_norm_has_the_line_it_was_clipped_at():
    norm = [0.5, 4.0, 2.0, 8.0]
    run = Made([1, 2, 3, 4], [5, 4, 3, 2], norm=norm, clip=[min(1, 2.5 / n) for n in norm])
    page, _ = draw([("a", run)])
    low = page.axes[-1]
    assert low.get_yscale() == "log" and list(low.lines[0].get_ydata()) == norm
    assert level_lines(low) == pytest.approx([2.5])
    assert "dashed: clipped to 2.5" in [text.get_text() for text in low.texts]
    page, _ = draw([("a", made(1, 5, norm=math.nan))])
    assert len(page.axes) == 1


@pytest.mark.parametrize("planned, right", [(None, 101), (100, 101), (400, 404), (90, 101), (100_000, 101)])
def test_the_axis_shows_the_plan_once_a_good_part_of_it_is_done(planned, right):
    page, _ = draw([("a", made(1, 100))], steps=planned)
    assert page.axes[0].get_xlim() == (0, right), "a little beyond the last step, which stands clear of the edge"


def test_runs_lie_over_each_other_with_their_forks():
    runs = [("a", made(1, 200, 4.0)), ("b", made(1, 200, 3.0)), ("c", made(100, 200, 2.0))]
    page, words = draw(runs, vocab=257, forks={"c": 100})
    thick = drawn(page, linewidth=2.0)
    assert [line.get_color() for line in thick] == list(RUN_COLOURS[:3])
    assert [line.get_ydata()[-1] for line in thick] == pytest.approx([4.0, 3.0, 2.0], abs=0.1)
    assert [100, 100] in points(page) and {"fork at step 100", "a", "b", "c"} <= set(words_of(page))
    assert words.startswith("loss of a, steps 1 to 200, smoothed loss 3.98; b, ") and "forked at step 100" in words


def test_a_long_past_does_not_press_what_came_after_the_fork():
    page, _ = draw([("a", made(1, 2000)), ("b", made(1900, 2000))], forks={"b": 1900})
    left, right = page.axes[0].get_xlim()
    assert 1850 < left < 1900 and 2000 < right < 2010


def test_of_several_runs_each_says_what_is_wrong_with_it():
    page, words = draw([("a", made(1, 100)), ("b", made(1, 100, changed={60: 400.0, 70: math.nan}))])
    assert "b: 1 not finite, first at step 70; b: 1 above the frame, highest 400 at step 60" in words
    assert points(page, marker="X", color=RUN_COLOURS[1]) == [[70]]


def test_notes_are_cut_to_the_room_they_have():
    runs = [(f"run number {n}", made(1, 100, changed={60: 400.0, 70: math.nan})) for n in range(6)]
    page, words = draw(runs)
    (told,) = (text for text in words_of(page) if "not finite" in text)
    assert told.endswith(" more") and words.count("not finite") == 6
    page.sheet.figure.canvas.draw()
    axis, notes = (text.get_window_extent() for text in page.sheet.figure.texts[-2:])
    assert not axis.overlaps(notes)


@pytest.mark.parametrize(
    "name, shown", [("_x", "_x"), ("$x_1$", "$x_1$"), ("a" * 100, "..." + "a" * 25), ("漢\x1b[2J\n", "??[2J?")]
)
@pytest.mark.parametrize("count", [1, 2])
def test_any_name_may_be_drawn(name, shown, count):
    page, _ = draw([(name, made(1, 20, sources=[name, "b"], ids=[0, 1] * 10))] * count)
    page.sheet.figure.canvas.draw()
    assert words_of(page).count(shown) == 2
    assert all(text.isprintable() for text in words_of(page))


NOTHING = [Made([], []), Made([7], [5.5]), made(1, 30, changed=dict.fromkeys(range(1, 31), math.nan))]


@pytest.mark.parametrize("run", NOTHING, ids=["no step", "one", "none finite"])
@pytest.mark.parametrize("count", [1, 2])
def test_runs_with_next_to_nothing_to_draw(run, count):
    picture = still([("a", run)] * count, vocab=257, steps=100)
    assert picture.png.startswith(b"\x89PNG")


def test_a_lone_step_is_seen():
    page, _ = draw([("a", Made([1], [5.5]))])
    assert drawn(page, marker="o") and page.axes[-1].lines[0].get_marker() == "o"


@pytest.mark.parametrize("count", [0, 7])
def test_none_or_too_many_runs_are_refused(count):
    with pytest.raises(ValueError, match=f"still: found {count} runs, expected 1 to 6"):
        still([("a", made(1, 5))] * count)
