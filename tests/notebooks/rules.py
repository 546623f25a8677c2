"""What a notebook of the workbook must look like; `problems(path)` lists every breach in one line each."""

import base64
import io
import re
import statistics
import warnings

import nbformat
from nbval.plugin import comment_markers, metadata_tags
from PIL import Image

from tests.notebooks.strict import is_blank
from tools.run_notebooks import canonical

WORDS = (800, 2000)
MEDIAN_LINES = 6
MOST_LINES = 40
MOST_BYTES = 150_000
LAST_HEADING = "what we have now"
# Marks with which a runner would skip a cell, or take any output or exception for right.
EXCUSING_TAGS = {*metadata_tags, "skip-execution", "remove-cell"}
EXCUSING_COMMENTS = re.compile(r"#\s*(?:" + "|".join(map(re.escape, comment_markers)) + r")\b")
# Output that a notebook test sees frame by frame, so that what is stored cannot match.
LIVE_OUTPUT = re.compile(r"\b(clear_output|display_id|update_display|set_matplotlib_formats)\b|\bOutput\(")
SHELL_LINE = re.compile(r"^\s*[!%]", re.MULTILINE)


def problems(path):
    """Every breach of the rules in one notebook file."""
    text = path.read_text(encoding="utf-8")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            notebook = nbformat.reads(text, as_version=4)
            nbformat.validate(notebook)
    except (nbformat.ValidationError, nbformat.reader.NotJSONError, Warning) as error:
        return [f"invalid notebook: {str(error).splitlines()[0]}"]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [
        *form_problems(path, text, notebook),
        *size_problems(text, notebook, code),
        *execution_problems(code),
        *(f"{label(n, cell)}: {p}" for n, cell in enumerate(code, 1) for p in cell_problems(cell)),
    ]


def label(number, cell):
    """How a message names a code cell."""
    return "code cell {} ({})".format(number, ", ".join(cell.metadata.get("tags", [])) or "no tag")


def form_problems(path, text, notebook):
    """Name, canonical text, unique tags, the closing section."""
    if not re.fullmatch(r"\d\d_[a-z0-9_]+\.ipynb", path.name):
        yield f"name: expected NN_topic.ipynb, found {path.name}"
    if text != canonical(notebook):
        yield "not in canonical form: run tools/run_notebooks.py"
    tags = [tag for cell in notebook.cells for tag in cell.metadata.get("tags", [])]
    for tag in sorted({tag for tag in tags if tags.count(tag) > 1}):
        yield f"tag {tag!r} is on more than one cell"
    headings = re.findall(r"^#+ *(.+)$", prose(notebook), re.MULTILINE)
    if not headings or LAST_HEADING not in headings[-1].lower():
        yield f"the last heading is not {LAST_HEADING!r}"


def prose(notebook):
    """All markdown of a notebook."""
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def size_problems(text, notebook, code):
    """Words, lines of code, bytes."""
    words = len(re.findall(r"\w[\w'-]*", prose(notebook)))
    if not WORDS[0] <= words <= WORDS[1]:
        yield f"{words} words of text, expected {WORDS[0]} to {WORDS[1]}"
    lines = [len(cell.source.splitlines()) for cell in code]
    if not lines:
        yield "no code cell"
        return
    if statistics.median(lines) > MEDIAN_LINES:
        yield f"median code cell has {statistics.median(lines):g} lines, expected at most {MEDIAN_LINES}"
    if max(lines) > MOST_LINES:
        yield f"the longest code cell has {max(lines)} lines, expected at most {MOST_LINES}"
    if len(text.encode()) >= MOST_BYTES:
        yield f"{len(text.encode())} bytes, expected under {MOST_BYTES}"


def execution_problems(code):
    """Every code cell was run, once, from top to bottom."""
    counts = [cell.execution_count for cell in code]
    if counts != list(range(1, len(code) + 1)):
        yield f"execution counts {counts}, expected 1 to {len(code)} in order: run tools/run_notebooks.py"


def cell_problems(cell):
    """Marks, live output, shell lines, stderr, errors and pictures of one code cell."""
    if not cell.source.strip():
        yield "empty"
    for tag in sorted(EXCUSING_TAGS.intersection(cell.metadata.get("tags", []))):
        yield f"tag {tag!r} excuses the cell from its test"
    for found in EXCUSING_COMMENTS.findall(cell.source):
        yield f"comment {found!r} excuses the cell from its test"
    for found in LIVE_OUTPUT.finditer(cell.source):
        yield f"{found.group()!r} makes output that cannot be compared; update a widget's traits instead"
    if SHELL_LINE.search(cell.source):
        yield "a magic or shell line; write Python"
    for output in cell.outputs:
        yield from output_problems(output)


def output_problems(output):
    """One stored output."""
    if output.output_type == "error":
        yield f"stored error {output.ename}"
    if output.output_type == "stream" and output.name == "stderr":
        yield "text on stderr"
    data = output.get("data", {})
    if "image/svg+xml" in data:
        yield "an SVG picture; use PNG"
    if "image/png" in data:
        try:
            with Image.open(io.BytesIO(base64.b64decode(data["image/png"]))) as picture:
                if is_blank(picture):
                    yield "a blank picture"
        except (OSError, ValueError):
            yield "a picture that is no PNG"
