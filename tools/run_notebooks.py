"""Runs notebooks from top to bottom and stores what they print: `python tools/run_notebooks.py [NOTEBOOK ...]`.

The only way stored outputs are made. With no name every notebook in notebooks/ is run. A notebook is written back in
one canonical form (fixed metadata, nbformat's own layout), so that running it again changes nothing. One that fails is
left as it was.
"""

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

ROOT = Path(__file__).resolve().parent.parent
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# A widget's model lives as long as its kernel: stored, it would show as an error. Its text and picture stay.
WIDGET = "application/vnd.jupyter.widget-view+json"
DROPPED_MIME = (WIDGET,)
CELL_SECONDS = 600
# Bits do not depend on the number of threads, so one is left to others; whether a bar appears depends on the clock.
KERNEL_ENV = {"ANDREA_THREADS": "1", "ANDREA_BARS": "0"}
# A port that was free when it was chosen may be another program's when the kernel has started; another start helps.
START_TRIES = 3
NO_START = "died before replying"


def canonical(notebook: nbformat.NotebookNode) -> str:
    """The text of a notebook file: fixed metadata, only tags kept on cells, nothing that differs from run to run."""
    clean = nbformat.from_dict(notebook)
    clean.metadata = nbformat.from_dict(METADATA)
    clean.nbformat, clean.nbformat_minor = 4, 5
    for cell in clean.cells:
        cell.metadata = nbformat.from_dict({"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {})
        for output in cell.get("outputs", []):
            if "data" in output:
                output.metadata = nbformat.from_dict({})
                for mime in DROPPED_MIME:
                    output.data.pop(mime, None)
    return nbformat.writes(clean) + "\n"


def execute(path: Path) -> nbformat.NotebookNode:
    """Runs a notebook in a fresh kernel, in its own folder, with an empty score card; returns it with its outputs.

    Raises CellExecutionError when a cell raises, DeadKernelError when the kernel dies.
    """
    for tries_left in reversed(range(START_TRIES)):
        try:
            return _execute(path)
        except RuntimeError as error:
            if NO_START not in str(error) or not tries_left:
                raise


def _execute(path: Path) -> nbformat.NotebookNode:
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        store_widget_state=True,
        record_timing=False,
        coalesce_streams=True,
    )
    with tempfile.TemporaryDirectory(prefix="andrea-progress-") as score_card:
        client.execute(env={**os.environ, **KERNEL_ENV, "ANDREA_PROGRESS": score_card})
    settle(notebook, client.widget_buffers)
    return notebook


def settle(notebook: nbformat.NotebookNode, buffers: dict) -> None:
    """A picture that was live is stored as it looked in the end, not as it looked when it was first shown."""
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        data = output.get("data", {})
        last = buffers.get(data.get(WIDGET, {}).get("model_id"), {}).get(("still",), {}).get("data")
        if last and "image/png" in data:
            data["image/png"] = last


def main(names: list[str]) -> int:
    """Runs the notebooks named, or all of them; 1 when one failed."""
    failed = False
    for path in [Path(name).resolve() for name in names] or sorted((ROOT / "notebooks").glob("*.ipynb")):
        try:
            text = canonical(execute(path))
        except (CellExecutionError, DeadKernelError) as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            failed = True
            continue
        changed = text != path.read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {'outputs stored' if changed else 'unchanged'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
