"""Small notebooks made on the spot, to test the machinery that tests notebooks."""

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.run_notebooks import canonical, execute

PICTURE = """\
import io
import matplotlib.image
import numpy as np
from IPython.display import Image
def picture(height, width, top):
    pixels = np.linspace(0, top, height * width, dtype=np.float32).reshape(height, width)
    data = io.BytesIO()
    matplotlib.image.imsave(data, pixels, vmin=0, vmax=1, format="png")
    return Image(data.getvalue())"""

CELLS = {
    "stream": "print('one line')",
    "result": "6 * 7",
    "both": "print('first')\n'then'",
    "threads": "import os\nos.environ['ANDREA_THREADS']",
    "score-card": "os.listdir(os.environ['ANDREA_PROGRESS'])",
    "helper": PICTURE,
    "png": "picture(8, 12, 1.0)",
    "widget": "import ipywidgets\nipywidgets.FloatProgress(value=3.0)",
    "silent": "x = 1",
}


def build(cells):
    """A notebook object with one tagged code cell per entry."""
    made = [new_code_cell(source, id=f"c-{tag}", metadata={"tags": [tag]}) for tag, source in cells.items()]
    return new_notebook(cells=made)


def write(path, notebook):
    """Writes a notebook in canonical form."""
    path.write_text(canonical(notebook), encoding="utf-8")
    return path


def run_and_write(path, cells):
    """Runs the cells and writes the notebook with what they print."""
    nbformat.write(build(cells), path)
    return write(path, execute(path))


def lesson():
    """A notebook that keeps every rule, with outputs written by hand."""
    notebook = build({"first": "print('one')", "second": "2"})
    first, second = notebook.cells
    first.execution_count, second.execution_count = 1, 2
    first.outputs = [new_output("stream", name="stdout", text="one\n")]
    second.outputs = [new_output("execute_result", data={"text/plain": "2"}, execution_count=2)]
    text = "# A lesson\n\n" + "word " * 900
    last = new_markdown_cell("## What we have now\n\nTwo numbers.", id="m-last")
    notebook.cells = [new_markdown_cell(text, id="m-first"), first, second, last]
    return notebook
