"""The picture of several runs: what is drawn where, for any log."""

import io
import json
import math
import os

import numpy as np
import pytest
from PIL import Image

from andrea_lab.run.directory import RunError
from andrea_lab.run.losslog import LossLog
from andrea_lab.view import comparison as module
from andrea_lab.view.comparison import comparison, save_comparison
from tests.run.made import entry, logged


def run(folder, first, last, level=4.0, fork=None, **train):
    losses = {step: level + math.exp(-step / 40) + 0.1 * math.sin(step) for step in range(first, last + 1)}
    made = logged(folder, losses, **train)
    if fork is not None:
        origin = {"from": "../a", "step": fork, "sha256": "0" * 64, "changes": {}}
        made.fork.write_text(json.dumps(origin))
    return folder


def drawn(monkeypatch, runs):
    """The axes of the picture, and the picture."""
    kept = []
    monkeypatch.setattr(module, "picture", lambda figure, words: (kept.append(figure), real(figure, words))[1])
    made = comparison(runs)
    return kept[0].axes[0], made


real = module.picture


def test_a_png_of_fixed_size_and_a_sentence(tmp_path):
    runs = [run(tmp_path / "a", 1, 300), run(tmp_path / "hot", 100, 300, 3.0, fork=100)]
    made = comparison(runs)
    image = Image.open(io.BytesIO(made.png))
    assert image.size == (900, 450) and image.format == "PNG" and len(made.png) < 60_000
    assert made.words.startswith("loss curves: a from step 1 to 300, smoothed loss 3.99;")
    assert "hot from step 100 to 300, smoothed loss 2.99" in made.words and "hot forked at step 100" in made.words
    assert comparison(runs).png == made.png


def test_each_run_has_a_curve_a_name_and_the_fork_and_ln_v_are_marked(tmp_path, monkeypatch):
    runs = [run(tmp_path / name, 1, 200, level) for name, level in (("a", 4.0), ("b", 3.0))]
    runs.append(run(tmp_path / "c", 100, 200, 2.0, fork=100))
    axes, _ = drawn(monkeypatch, runs)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b", "c"]
    thick = [line for line in axes.lines if line.get_linewidth() == 2.0]
    assert len({line.get_color() for line in thick}) == 3
    ends = [line.get_ydata()[-1] for line in thick]
    assert ends == pytest.approx([4.0, 3.0, 2.0], abs=0.1)
    levels = [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--" and line not in thick]
    assert math.log(257) in levels
    words = [text.get_text() for text in axes.texts]
    assert "fork at step 100" in words and "ln V = 5.55, a uniform guess over V = 257" in words
    assert any(list(line.get_xdata()) == [100, 100] for line in axes.lines)


def test_a_long_past_does_not_press_what_came_after_the_fork(tmp_path, monkeypatch):
    runs = [run(tmp_path / "a", 1, 2000), run(tmp_path / "b", 1900, 2000, fork=1900)]
    axes, _ = drawn(monkeypatch, runs)
    left, right = axes.get_xlim()
    assert 1850 < left < 1900 and 2000 < right < 2010


def test_a_loss_that_is_not_finite_and_one_that_leaves_the_frame_are_told(tmp_path, monkeypatch):
    a = run(tmp_path / "a", 1, 100)
    b = run(tmp_path / "b", 1, 100)
    with LossLog(b / "b.loss.json") as log:
        log.append(entry(60, 400.0))
        log.append(entry(101, math.inf))
    axes, made = drawn(monkeypatch, [a, b])
    assert axes.get_ylim()[1] < 7
    assert "b is not finite, first at step 101" in made.words and "b: 1 above the frame" in made.words
    marks = {line.get_marker(): list(line.get_xdata()) for line in axes.lines if line.get_linestyle() == "None"}
    assert marks == {"X": [101], "^": [60]}


def test_long_runs_are_drawn_by_columns_with_every_spike(tmp_path, monkeypatch):
    a, b = run(tmp_path / "a", 1, 5000), run(tmp_path / "b", 1, 5000, 3.0)
    with LossLog(a / "a.loss.json") as log:
        log.append(entry(2500, 5.4))
    axes, _ = drawn(monkeypatch, [a, b])
    faint = [line for line in axes.lines if line.get_alpha() == 0.3]
    assert all(len(line.get_xdata()) <= 2 * 800 for line in faint)
    assert np.nanmax(faint[0].get_ydata()) == pytest.approx(5.4)


@pytest.mark.parametrize("name", ["_hidden", "$x_1$", "a" * 100])
def test_any_name_may_stand_in_the_legend(tmp_path, monkeypatch, name):
    axes, _ = drawn(monkeypatch, [run(tmp_path / name, 1, 20), run(tmp_path / "b", 1, 20)])
    shown = axes.get_legend().get_texts()
    assert len(shown) == 2 and len(shown[0].get_text()) <= 30


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path, monkeypatch):
    axes, _ = drawn(monkeypatch, [run(tmp_path / x / "run", 1, 20) for x in "ab"])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a/run", "b/run"]


def test_a_single_step_and_a_config_that_says_nothing(tmp_path, monkeypatch):
    runs = [run(tmp_path / "a", 1, 1), run(tmp_path / "b", 1, 1)]
    for folder in runs:
        (folder / "config.json").write_text("[]")
    axes, made = drawn(monkeypatch, runs)
    assert not [text for text in axes.texts if "ln V" in text.get_text()]
    assert made.png.startswith(b"\x89PNG")


def test_wrong_runs_are_named(tmp_path):
    a = run(tmp_path / "a", 1, 5)
    with pytest.raises(RunError, match="found 1 runs, expected 2 to 6"):
        comparison([a])
    logged(tmp_path / "empty", {})
    with pytest.raises(RunError, match=r"empty\.loss\.json: found no step, expected at least one"):
        comparison([a, tmp_path / "empty"])
    with pytest.raises(RunError, match="found no folder"):
        comparison([a, tmp_path / "none"])


def test_the_file_is_written_as_a_whole(tmp_path):
    runs = [run(tmp_path / name, 1, 20) for name in "ab"]
    out = tmp_path / "c.png"
    out.write_text("old")
    assert save_comparison(runs, out) == out and out.read_bytes() == comparison(runs).png
    with pytest.raises(OSError):
        save_comparison(runs, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c.png"]
