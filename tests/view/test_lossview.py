"""The live view without a browser: frames, their rate, what stands in them, what a notebook stores."""

import base64
import io
import json
import math
import threading

import numpy as np
import pytest
from PIL import Image

from andrea_lab.run.losslog import encode
from andrea_lab.view import LossView, lossview, save_curve
from andrea_lab.view.curve import COLUMNS, HEIGHT, WIDTH
from andrea_lab.view.palette import RED


def entry(step, loss=None, **more):
    loss = 5.5 - 3 * step / (step + 30) if loss is None else loss
    return {
        "step": step,
        "segment": 1,
        "policy": "uniform",
        "source": ("kjv", "plays")[step % 2],
        "draw": step,
        "tokens": 1024,
        "loss": loss,
        "grad_norm": 1.5,
        "clip": 0.7,
        "lr": 1e-3,
        "ms": 100.0,
    } | more


def write(run_dir, entries):
    run_dir.mkdir(exist_ok=True)
    with open(run_dir / f"{run_dir.name}.loss.json", "a") as file:
        file.writelines(encode(one) + "\n" for one in entries)
    return run_dir


@pytest.fixture
def run(tmp_path):
    return write(tmp_path / "small", [entry(step) for step in range(1, 41)])


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def near(image, colour, reach=40):
    """How many pixels of `image` lie near a "#rrggbb" colour."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    return int((np.abs(image - rgb).max(axis=2) < reach).sum())


def test_snapshot_has_a_fixed_size_and_is_a_function_of_the_log(run):
    first, second = LossView(run, vocab=257, steps=40).snapshot(), LossView(run, vocab=257, steps=40).snapshot()
    assert first == second
    assert Image.open(io.BytesIO(first)).size == (WIDTH, HEIGHT)
    assert len(first) < 40_000


def test_snapshot_shows_a_curve(run, tmp_path):
    empty = pixels(LossView(tmp_path / "none", vocab=257, steps=40).snapshot())
    drawn = pixels(LossView(run, vocab=257, steps=40).snapshot())
    assert near(drawn, "#0072B2") > near(empty, "#0072B2") + 500


def test_a_frame_drawn_over_kept_pixels_equals_one_drawn_whole(run):
    view = LossView(run, vocab=257, steps=100)
    view.snapshot()
    write(run, [entry(step) for step in range(41, 61)])
    assert view.snapshot() == LossView(run, vocab=257, steps=100).snapshot()


def test_the_widget_shows_each_frame(run):
    view = LossView(run, vocab=257)
    before = view.widget.value
    write(run, [entry(41, 5.0)])
    assert view.update()
    assert view.widget.value != before
    assert Image.open(io.BytesIO(view.widget.value)).size == (WIDTH, HEIGHT)


def test_an_ordinary_run_is_drawn_whole_only_once(tmp_path):
    run = write(tmp_path / "r", [])
    view, kept = LossView(run, vocab=257, steps=100), set()
    for step in range(1, 101):
        write(run, [entry(step, 5.6 - 2.4 * step / 100, grad_norm=5 / (1 + step / 9), source=f"source {step % 6}")])
        view.update(final=True)
        kept.add(id(view.curve.pixels))
    assert len(kept) == 1


def test_the_final_frame_is_the_snapshot(run):
    view = LossView(run, vocab=257, steps=40)
    assert view.widget is not None
    view.update()
    view.update(final=True)
    assert view.widget.value == LossView(run, vocab=257, steps=40).snapshot()


def clock(monkeypatch, view):
    """Put the view on a clock of our own, on which a frame costs `cost` seconds."""
    state = {"now": 0.0, "cost": 0.0}
    for name in ("perf_counter", "thread_time"):
        monkeypatch.setattr(lossview.time, name, lambda: state["now"])
    view._started, view._last = 0.0, -1e9

    def png(*_, **__):
        state["now"] += state["cost"]
        return b""

    monkeypatch.setattr(view.curve, "png", png)
    return state


def test_at_most_four_frames_a_second(run, monkeypatch):
    view = LossView(run)
    state = clock(monkeypatch, view)
    for tick in range(1000):
        state["now"] = tick * 0.01
        write(run, [entry(41 + tick)])
        view.update()
    assert 35 <= view.frames <= 40


def test_frames_cost_at_most_a_hundredth_of_a_long_run(run, monkeypatch):
    view = LossView(run)
    state = clock(monkeypatch, view)
    state["cost"], spent = 0.05, 0.0
    for tick in range(4000):
        state["now"] += 0.1
        write(run, [entry(41 + tick)])
        spent += state["cost"] * view.update()
    assert spent < lossview.CREDIT + lossview.SHARE * state["now"] + state["cost"]
    assert view.frames > 50


def test_final_draws_at_once_whatever_the_clock_says(run, monkeypatch):
    view = LossView(run)
    clock(monkeypatch, view)
    assert view.update() and not view.update() and view.update(final=True)


def test_a_spike_one_step_wide_is_visible_in_a_long_run(tmp_path):
    entries = [entry(step) for step in range(1, 12_001)]
    calm = pixels(LossView(write(tmp_path / "calm", entries), vocab=257).snapshot())
    entries[7000]["loss"] = 7.0
    spiked = pixels(LossView(write(tmp_path / "spiked", entries), vocab=257).snapshot())
    assert len(entries) > 10 * COLUMNS
    column = int(WIDTH * (0.075 + 0.9 * 7001 / 12_000))
    above = slice(int(HEIGHT * 0.2), int(HEIGHT * 0.26))  # between the spike's foot and its top, over the other curve
    darkness = (255 - spiked[above, column - 3 : column + 4]).sum(), (255 - calm[above, column - 3 : column + 4]).sum()
    assert darkness[0] > 2 * darkness[1] + 1000


def test_a_spike_beyond_the_frame_is_marked_and_named(tmp_path):
    view = LossView(write(tmp_path / "r", [entry(s, 1e5 if s == 20 else None) for s in range(1, 41)]), vocab=257)
    image = pixels(view.snapshot())
    assert view.curve.moving["note"].get_text() == "1 above the frame, highest 1e+05 at step 20"
    assert view.curve.top.get_ylim()[1] < 20
    assert near(image, RED) > 20


def test_values_that_are_not_finite_are_marked_and_counted(tmp_path):
    losses = {10: math.nan, 11: math.inf}
    view = LossView(write(tmp_path / "r", [entry(s, losses.get(s)) for s in range(1, 41)]), vocab=257)
    view.snapshot()
    assert view.curve.moving["note"].get_text() == "2 not finite, first at step 10"
    assert view.curve.moving["bad"].get_xdata().tolist() == [10, 11]
    assert view.summary().endswith(", 2 not finite")


def test_resumed_and_repeated_steps_show(tmp_path):
    run = write(tmp_path / "r", [entry(s) for s in range(1, 31)])
    write(run, [entry(s, 4.8, segment=2) for s in range(21, 41)])
    view = LossView(run, vocab=257)
    view.snapshot()
    assert view.curve.moving["old"].get_xdata() == list(range(21, 31))
    assert view.summary() == "LossView r: steps 1 to 40, loss 5.40 -> 4.80, smoothed 4.78, 1 resumed, 10 repeated"


def test_each_source_has_its_colour_and_name(run):
    view = LossView(run, vocab=257)
    view.snapshot()
    names = [view.curve.moving[f"name{n}"] for n in range(3)]
    assert [name.get_text() for name in names if name.get_visible()] == ["plays", "kjv"]
    assert view.curve.moving["source0"].get_xdata().tolist() == list(range(1, 41, 2))


def test_colours_give_way_to_the_range_of_values_in_a_long_run(tmp_path):
    view = LossView(write(tmp_path / "r", [entry(step) for step in range(1, COLUMNS + 2)]), vocab=257)
    view.snapshot()
    assert not view.curve.moving["name0"].get_visible() and not view.curve.moving["source0"].get_visible()
    assert len(view.curve.moving["raw"].get_xdata()) <= 2 * COLUMNS


def test_the_uniform_guess_is_drawn_at_ln_v(run):
    view = LossView(run, vocab=257)
    view.snapshot()
    still = [line for line in view.curve.top.lines if not line.get_animated()]
    assert [line.get_ydata()[0] for line in still] == [math.log(257)]


def test_vocabulary_and_length_come_from_the_run_config(run):
    (run / "config.json").write_text(json.dumps({"model": {"vocab": 300}, "train": {"steps": 41}}))
    view = LossView(run)
    view.snapshot()
    assert (view.curve.vocab, view.curve.steps) == (300, 41)
    assert view.curve.top.get_xlim() == (0, 41)


@pytest.mark.parametrize("steps, right", [(None, 50), (30, 50), (60, 60)])
def test_the_axis_is_the_plan_until_the_run_outgrows_it(run, steps, right):
    view = LossView(run, steps=steps)
    view.snapshot()
    assert view.curve.top.get_xlim() == (0, right)


def test_summary_is_one_line_before_and_after(run, tmp_path):
    assert LossView(tmp_path / "later").summary() == "LossView later: no steps yet"
    assert repr(LossView(run)) == "LossView small: steps 1 to 40, loss 5.40 -> 3.79, smoothed 4.00"


def test_display_bundle_has_a_picture_and_a_line_for_readers_without_a_kernel(run):
    bundle = LossView(run)._repr_mimebundle_()
    assert bundle["text/plain"] == LossView(run).summary()
    assert Image.open(io.BytesIO(base64.b64decode(bundle["image/png"]))).size == (WIDTH, HEIGHT)
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_frames_may_be_drawn_by_another_thread(run):
    view, failures = LossView(run), []

    def draw():
        try:
            view.update(final=True)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=draw)
    thread.start()
    thread.join()
    assert failures == [] and view.frames == 1


def test_a_million_steps_are_redrawn_in_half_a_second(tmp_path):
    view = LossView(tmp_path / "long", vocab=257)
    count = 1_000_000
    history = view.history
    history.step.extend(range(1, count + 1))
    history.segment.extend([1] * count)
    history.source.extend([0] * count)
    history.sources.append("kjv")
    for column in history.columns.values():
        column.extend([3.0] * count)
    view.curve.png(history)
    started = lossview.time.process_time()
    view.curve.png(history)
    assert lossview.time.process_time() - started < 0.5


def test_save_curve_writes_the_snapshot(run, tmp_path):
    path = save_curve(run, tmp_path / "curve.png")
    assert path.read_bytes() == LossView(run).snapshot()


def test_save_curve_names_the_log_it_did_not_find(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"found no gone\.loss\.json in .*, expected a run directory"):
        save_curve(tmp_path / "gone", tmp_path / "curve.png")
    assert not (tmp_path / "curve.png").exists()
