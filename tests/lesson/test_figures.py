"""Figures have a fixed size, the same bytes on a second drawing, and words; runs are always new."""

import io

import matplotlib
import numpy as np
from PIL import Image

from andrea_lab.lesson import figure, fresh_run, picture, readable


def drawn():
    fig, axes = figure(1, 2, width=6.0, height=2.0)
    axes[0].plot(np.arange(5) ** 2)
    axes[1].imshow(np.eye(4))
    axes[0].set_xlabel("steps")
    return picture(fig, "A parabola beside a diagonal.")


def test_a_picture_has_a_fixed_size_and_repeatable_bytes():
    first, second = drawn(), drawn()
    assert first._repr_png_() == second._repr_png_()
    assert Image.open(io.BytesIO(first.png)).size == (600, 200)


def test_a_picture_reads_as_a_sentence_without_its_pixels():
    assert repr(drawn()) == "[A parabola beside a diagonal.]"


def test_the_style_stays_inside_the_figure():
    before = dict(matplotlib.rcParams)
    drawn()
    assert dict(matplotlib.rcParams) == before


def test_a_run_is_fresh_every_time(tmp_path, monkeypatch):
    monkeypatch.setenv("ANDREA_RUNS", str(tmp_path / "runs"))
    first, second = fresh_run("start-here"), fresh_run("start-here")
    assert first != second and not first.exists() and not second.exists()
    assert first.name == second.name == "start-here"


def test_readable_text_is_visible_ascii_in_lines_of_limited_width():
    assert readable("ab\ncd\x07é\ufffd ef", 6) == "ab /\ncd···\nef"
    assert readable("abcdefgh", 5) == "abcde\nfgh"
