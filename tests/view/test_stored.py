"""The live view in a notebook that was run from top to bottom: what is stored is the final curve and one line."""

import base64
import io

import nbformat
from PIL import Image

from andrea_lab.paths import ROOT
from tools.run_notebooks import canonical, execute

SHOW = """from pathlib import Path
from andrea_lab.run.losslog import encode
from andrea_lab.view import LossView

run = Path("small")
run.mkdir()
view = LossView(run, vocab=257, steps=30)
view"""
TRAIN = """for step in range(1, 31):
    with open(run / "small.loss.json", "a") as log:
        log.write(encode({"step": step, "segment": 1, "source": "kjv", "loss": 5.5 - step / 12, "lr": 1e-3}) + "\\n")
    view.update()
view.update(final=True)
print(view.summary())"""
DONE = "LossView(run, vocab=257, steps=30)"
STILL = "from IPython.display import Image\nImage(view.snapshot())"


def test_the_final_curve_is_stored_where_the_live_one_was(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    path = tmp_path / "00_view.ipynb"
    cells = [
        nbformat.v4.new_code_cell(source, id=name)
        for name, source in zip("abcd", (SHOW, TRAIN, STILL, DONE), strict=True)
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    stored = nbformat.reads(canonical(execute(path)), as_version=4)
    (live,), (line,), (still,), (done,) = (cell.outputs for cell in stored.cells)
    assert sorted(live.data) == ["image/png", "text/plain"]
    assert live.data["text/plain"] == "LossView small: no steps yet"
    assert line.text == "LossView small: steps 1 to 30, loss 5.42 -> 3.00, smoothed 3.29\n"
    final = base64.b64decode(live.data["image/png"])
    assert final == base64.b64decode(still.data["image/png"])
    assert base64.b64decode(done.data["image/png"]) == final, "shown when the run was over"
    assert done.data["text/plain"] + "\n" == line.text
    assert Image.open(io.BytesIO(final)).size == (900, 450)
