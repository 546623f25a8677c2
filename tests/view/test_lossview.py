"""The view without a page: its line, its picture, its file, and what it says of bad input."""

import base64
import io
import json
import math
import subprocess
import sys

import pytest
from PIL import Image

from andrea_lab.run.losslog import encode
from andrea_lab.view import LossView


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


def test_the_picture_is_a_function_of_the_run(run):
    first, second = (LossView(run, vocab=257, steps=40).snapshot() for _ in range(2))
    assert first == second and len(first) < 60_000
    assert Image.open(io.BytesIO(first)).size == (900, 450)
    view = LossView(run, vocab=257, steps=100)
    view.snapshot()
    write(run, [entry(step) for step in range(41, 61)])
    assert view.snapshot() == LossView(run, vocab=257, steps=100).snapshot()


def test_vocabulary_length_and_span_come_from_the_run_config(run):
    (run / "config.json").write_text(json.dumps({"model": {"vocab": 257}, "train": {"steps": 400}}))
    assert LossView(run).snapshot() == LossView(run, vocab=257, steps=400, smooth=20).snapshot()
    assert LossView(run, vocab=300).snapshot() != LossView(run).snapshot()


def test_the_summary_is_one_line_before_and_after(run, tmp_path):
    assert LossView(tmp_path / "later").summary() == "LossView later: no steps yet"
    assert repr(LossView(run)) == "LossView small: steps 1 to 40, loss 5.40 -> 3.79, smoothed 4.00"
    both = LossView([run, tmp_path / "later"])
    assert both.summary() == f"{LossView(run).summary()}; later: no steps yet"


def test_the_summary_counts_what_is_odd(tmp_path):
    run = write(tmp_path / "r", [entry(s) for s in range(1, 31)])
    write(run, [entry(s, 4.8, segment=2) for s in range(21, 41)])
    line = "LossView r: steps 1 to 40, loss 5.40 -> 4.80, smoothed 4.78, 1 resumed, 10 repeated"
    assert LossView(run).summary() == line
    with open(run / "r.loss.json", "a") as file:
        file.write("torn\n" + encode(entry(41, math.nan)) + "\n" + encode(entry(42, math.inf)) + "\n")
    assert LossView(run).summary() == (
        "LossView r: steps 1 to 42, loss 5.40 -> inf, smoothed 4.78, 2 not finite, 1 resumed, 10 repeated, 1 unreadable"
    )


def test_runs_of_one_name_are_told_apart(tmp_path):
    for where in ("a", "b"):
        (tmp_path / where).mkdir()
    runs = [write(tmp_path / where / "r", [entry(1)]) for where in ("a", "b")]
    assert [feed.name for feed in LossView(runs).feeds] == ["a/r", "b/r"]
    assert LossView(runs).snapshot() != LossView(runs[::-1]).snapshot()


@pytest.mark.parametrize(
    "runs, options, told",
    [
        ([], {}, "LossView: found 0 runs, expected 1 to 6"),
        (list("abcdefg"), {}, "LossView: found 7 runs, expected 1 to 6"),
        (["a", "b", "./a"], {}, "LossView: found a twice, expected different runs"),
        ("a", {"smooth": 0}, "smooth: found 0, expected a number of steps >= 1"),
    ],
)
def test_what_cannot_be_shown_is_named(runs, options, told):
    with pytest.raises(ValueError) as error:
        LossView(runs, **options)
    assert str(error.value) == told


def test_a_reader_without_a_kernel_gets_a_picture_and_a_line(run):
    view = LossView(run)
    bundle = view._repr_mimebundle_()
    assert bundle["text/plain"] == view.summary()
    assert base64.b64decode(bundle["image/png"]) == view.snapshot()
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] == view.widget.model_id
    view.widget.close()


def test_a_view_whose_widget_was_closed_is_shown_as_a_picture(run):
    view = LossView(run)
    view.widget.close()
    assert view._repr_mimebundle_().keys() == {"text/plain", "image/png"}


def test_save_writes_the_picture(run, tmp_path):
    path = LossView(run).save(tmp_path / "curve.png")
    assert path.read_bytes() == LossView(run).snapshot()


def test_save_names_the_log_it_did_not_find(run, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"found no gone\.loss\.json in .*, expected a run directory"):
        LossView([run, tmp_path / "gone"]).save(tmp_path / "curve.png")
    assert not (tmp_path / "curve.png").exists()


def test_the_import_brings_neither_matplotlib_nor_widgets():
    code = "import sys, andrea_lab.view; print({'matplotlib', 'PIL', 'ipywidgets', 'anywidget'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "set()\n"
