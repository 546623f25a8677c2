"""The notebook tests themselves: what is right passes, everything else fails, quickly and by name."""

import time

import nbformat
import pytest
from nbformat.v4 import new_output

from tests.notebooks import driver, samples, strict
from tests.notebooks.samples import CELLS
from tools import run_notebooks
from tools.run_notebooks import canonical, execute

# For each damage: what is done to a cell of the good notebook, and the words its failure must hold.
DAMAGE = {
    "unrun": ("silent", {"execution_count": None}, "never run"),
    "ignored": ("stream", {"source": "# NBVAL_IGNORE_OUTPUT\nprint('one line')"}, "excuse it from the comparison"),
    "skipped": ("silent", {"source": "# NBVAL_SKIP\nx = 1"}, "excuse it from the comparison"),
    "raises": ("silent", {"source": "# NBVAL_RAISES_EXCEPTION\nx = 1"}, "excuse it from the comparison"),
    "wrong": ("result", {"source": "6 * 8"}, "Cell outputs differ"),
    "magic": ("silent", {"source": "%notmagic\nx = 1", "outputs": []}, "answered 'error'"),
    "blank": ("png", {"source": "picture(8, 12, 0.0)"}, "picture 1 is blank"),
    "wide": ("png", {"source": "picture(8, 13, 1.0)"}, "stored with (12, 8) pixels, drawn with (13, 8)"),
    "twice": ("png", {"source": "display(picture(8, 12, 1.0))\npicture(8, 12, 1.0)"}, "dissimilar number of outputs"),
    "slow": ("silent", {"source": "import time\ntime.sleep(60)"}, "Timeout of 5 seconds"),
}
USAGE = new_output("stream", name="stderr", text="UsageError: Line magic function `%notmagic` not found.\n")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A notebook run once, in canonical form."""
    return samples.run_and_write(tmp_path_factory.mktemp("good") / "90_good.ipynb", CELLS)


@pytest.fixture(scope="module")
def verdicts(good, tmp_path_factory):
    """The good notebook and one with a damaged copy of a cell for every damage, tested in one process."""
    folder = tmp_path_factory.mktemp("bad")
    notebook = nbformat.read(good, as_version=4)
    originals = {cell.metadata.tags[0]: cell for cell in notebook.cells}
    for name, (tag, change, _) in DAMAGE.items():
        cell = nbformat.from_dict({**originals[tag], "id": f"c-{name}", "metadata": {"tags": [name]}, **change})
        cell.outputs += [USAGE] if name == "magic" else []
        notebook.cells.append(cell)
    nbformat.write(notebook, folder / "bad.ipynb")
    return driver.run_notebooks([good, folder / "bad.ipynb"], folder / "report.xml", "--nbval-cell-timeout=5")


def failed(verdicts, name):
    """The failed cells of one notebook and their messages."""
    return {cell: text for (file, cell), text in verdicts.items() if file == f"{name}.ipynb" and text}


def test_a_right_notebook_passes_cell_by_cell(verdicts):
    assert [cell for file, cell in verdicts if file == "90_good.ipynb"] == list(CELLS)
    assert failed(verdicts, "90_good") == {}


def test_damaged_cells_fail_and_no_other(verdicts):
    assert list(failed(verdicts, "bad")) == list(DAMAGE)


@pytest.mark.parametrize("name", DAMAGE)
def test_a_failure_says_what_is_wrong(verdicts, name):
    assert DAMAGE[name][2] in verdicts["bad.ipynb", name]


def test_every_altered_text_output_is_noticed(good, tmp_path):
    touched = driver.alter(good, tmp_path / "altered.ipynb")
    assert touched == ["stream", "result", "both", "threads", "score-card", "png", "widget"]
    found = failed(driver.run_notebooks([tmp_path / "altered.ipynb"], tmp_path / "report.xml"), "altered")
    assert list(found) == touched


def test_a_dead_kernel_fails_at_once_and_excuses_nothing(tmp_path):
    cells = {
        "before": "1",
        "kill": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        "after": "2",
        "last": "3",
    }
    notebook = samples.build(cells)
    for number, cell in enumerate(notebook.cells, 1):
        cell.execution_count = number
    notebook.cells[0].outputs = [new_output("execute_result", data={"text/plain": "1"}, execution_count=1)]
    path = samples.write(tmp_path / "dead.ipynb", notebook)
    start = time.monotonic()
    verdicts = driver.run_notebooks([path], tmp_path / "report.xml")
    assert time.monotonic() - start < 60  # the time-out of a cell is 180 s
    assert list(failed(verdicts, "dead")) == ["kill", "after", "last"]
    assert "the kernel died while this cell ran" in verdicts["dead.ipynb", "kill"]
    assert "skipped" not in verdicts.values()


def test_two_workers_share_no_notebook(tmp_path):
    paths = [samples.write(tmp_path / f"9{n}_lesson.ipynb", samples.lesson()) for n in range(2)]
    verdicts = driver.run_notebooks(paths, tmp_path / "report.xml", "-n", "2")
    assert len(verdicts) == 4
    assert not any(verdicts.values())


def test_running_again_changes_nothing(good):
    assert canonical(execute(good)) == good.read_text()


@pytest.mark.parametrize("start", ["stored", "tested"])
@pytest.mark.parametrize("failures, started", [(0, True), (2, True), (3, False)])
def test_a_kernel_whose_port_was_taken_is_started_again(monkeypatch, start, failures, started):
    calls = []

    def begin(*_):
        calls.append(None)
        if len(calls) <= failures:
            raise RuntimeError("Kernel died before replying to kernel_info")

    monkeypatch.setattr(run_notebooks, "_execute", begin)
    monkeypatch.setattr(strict.RunningKernel, "__init__", begin)
    call = (lambda: execute("x.ipynb")) if start == "stored" else strict.WatchedKernel
    if started:
        call()
    else:
        with pytest.raises(RuntimeError, match="died before replying"):
            call()
    assert len(calls) == min(failures + 1, 3)
