"""Each rule for notebooks notices its breach."""

import base64
import io

import nbformat
import pytest
from nbformat.v4 import new_output
from PIL import Image

from tests.notebooks import samples
from tests.notebooks.rules import problems


def png(color):
    """A PNG of two by two pixels: one colour, or with one pixel of another."""
    picture = Image.new("RGB", (2, 2), "white")
    picture.putpixel((0, 0), color)
    data = io.BytesIO()
    picture.save(data, "png")
    return base64.b64encode(data.getvalue()).decode()


def shown(mime, data):
    """A cell output of one type."""
    return new_output("display_data", data={mime: data})


def check(tmp_path, change, name="07_sample.ipynb"):
    """The problems of the sample lesson after a change to it."""
    notebook = samples.lesson()
    change(notebook, notebook.cells[1])
    return problems(samples.write(tmp_path / name, notebook))


def test_the_sample_lesson_keeps_every_rule(tmp_path):
    assert check(tmp_path, lambda notebook, cell: None) == []
    picture = shown("image/png", png((1, 2, 3)))
    assert check(tmp_path, lambda notebook, cell: cell.outputs.append(picture)) == []


BREACHES = {
    "execution counts": lambda n, c: c.update(execution_count=None),
    "execution counts [2, 2]": lambda n, c: c.update(execution_count=2),
    "tag 'nbval-skip' excuses": lambda n, c: c.metadata.update(tags=["nbval-skip"]),
    "tag 'raises-exception' excuses": lambda n, c: c.metadata.update(tags=["raises-exception"]),
    "comment '# NBVAL_SKIP' excuses": lambda n, c: c.update(source="# NBVAL_SKIP\n1"),
    "comment '#NBVAL_IGNORE_OUTPUT' excuses": lambda n, c: c.update(source="#NBVAL_IGNORE_OUTPUT\n1"),
    "'clear_output'": lambda n, c: c.update(source="clear_output()"),
    "'display_id'": lambda n, c: c.update(source="display(1, display_id=True)"),
    "'Output('": lambda n, c: c.update(source="ipywidgets.Output()"),
    "a magic or shell line": lambda n, c: c.update(source="x = 1\n%matplotlib inline"),
    "empty": lambda n, c: c.update(source=" "),
    "text on stderr": lambda n, c: c.outputs[0].update(name="stderr"),
    "stored error ValueError": lambda n, c: c.update(
        outputs=[new_output("error", ename="ValueError", evalue="x", traceback=[])]
    ),
    "an SVG picture": lambda n, c: c.outputs.append(shown("image/svg+xml", "<svg/>")),
    "a blank picture": lambda n, c: c.outputs.append(shown("image/png", png((255, 255, 255)))),
    "a picture that is no PNG": lambda n, c: c.outputs.append(shown("image/png", "AAAA")),
    "2907 words": lambda n, c: n.cells[0].update(source="# A\n" + "word " * 2900),
    "707 words": lambda n, c: n.cells[0].update(source="# A\n" + "word " * 700),
    "median code cell has 11 lines": lambda n, c: c.update(source="\n".join("x" * 21)),
    "the longest code cell has 41 lines": lambda n, c: c.update(source="\n".join(["x = 1"] * 41)),
    "bytes, expected under 150000": lambda n, c: c.outputs[0].update(text="x" * 150_000),
    "the last heading is not 'what we have now'": lambda n, c: n.cells.pop(),
    "tag 'second' is on more than one cell": lambda n, c: c.metadata.update(tags=["second"]),
    "no code cell": lambda n, c: n.update(cells=[x for x in n.cells if x.cell_type == "markdown"]),
}


@pytest.mark.parametrize("words", BREACHES)
def test_a_breach_is_noticed(tmp_path, words):
    assert any(words in problem for problem in check(tmp_path, BREACHES[words]))


def test_a_wrong_name_is_noticed(tmp_path):
    assert check(tmp_path, lambda n, c: None, name="Untitled.ipynb") == [
        "name: expected NN_topic.ipynb, found Untitled.ipynb"
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda n: n.metadata.language_info.update(version="3.11.7"),
        lambda n: n.metadata.update(widgets={}),
        lambda n: n.cells[1].metadata.update(execution={"iopub.execute_input": "now"}),
        lambda n: n.cells[1].outputs.append(shown("application/vnd.jupyter.widget-view+json", {"model_id": "ab"})),
    ],
)
def test_noise_of_one_run_is_not_canonical(tmp_path, change):
    path = samples.write(tmp_path / "07_sample.ipynb", samples.lesson())
    notebook = nbformat.read(path, as_version=4)
    change(notebook)
    path.write_text(nbformat.writes(notebook) + "\n")
    assert problems(path) == ["not in canonical form: run tools/run_notebooks.py"]


def test_an_indent_by_an_editor_is_not_canonical(tmp_path):
    path = samples.write(tmp_path / "07_sample.ipynb", samples.lesson())
    path.write_text(path.read_text().replace("\n ", "\n  "))
    assert problems(path) == ["not in canonical form: run tools/run_notebooks.py"]


def test_a_broken_file_is_invalid(tmp_path):
    path = samples.write(tmp_path / "07_sample.ipynb", samples.lesson())
    whole = path.read_text()
    for broken in (whole.replace("c-second", "c-first"), whole.replace('"outputs": [', '"outs": [', 1), whole[:-9]):
        path.write_text(broken)
        assert [problem[:16] for problem in problems(path)] == ["invalid notebook"]
