"""The workbook's notebooks: their form, that their tests cannot pass by accident, that another processor agrees."""

import subprocess
import sys

import pytest

from tests.notebooks import driver
from tests.notebooks.rules import problems

NOTEBOOKS = sorted((driver.ROOT / "notebooks").glob("*.ipynb"))
# Running every notebook once more takes its time; the first one is enough for a plain run.
FIRST_THEN_FULL = [
    pytest.param(path, id=path.name, marks=[pytest.mark.full] if n else []) for n, path in enumerate(NOTEBOOKS)
]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.name)
def notebook(request):
    return request.param


def test_no_number_is_used_twice():
    numbers = [int(path.name[:2]) for path in NOTEBOOKS]
    assert numbers == sorted(set(numbers))
    assert NOTEBOOKS[0].name == "00_start_here.ipynb"


def test_keeps_the_rules(notebook):
    assert problems(notebook) == []


def test_every_cell_is_a_test(notebook, request):
    """A plain run collects every code cell of every notebook."""
    collected = {item.name for item in request.session.items if item.path == notebook}
    if not collected:  # only a part of the tests was asked for
        args = [sys.executable, "-m", "pytest", "--collect-only", "-q", str(notebook)]
        done = subprocess.run(args, cwd=driver.ROOT, capture_output=True, text=True, check=True)
        collected = {line.split("::")[1] for line in done.stdout.splitlines() if "::" in line}
    assert collected == set(driver.cell_names(notebook))


@pytest.mark.parametrize("path", FIRST_THEN_FULL)
def test_every_altered_text_output_is_noticed(path, tmp_path):
    altered = tmp_path / path.name
    touched = driver.alter(path, altered)
    verdicts = driver.run_notebooks([altered], tmp_path / "report.xml")
    assert touched
    assert [cell for (_, cell), text in verdicts.items() if text] == touched


@pytest.mark.parametrize("path", FIRST_THEN_FULL)
def test_another_processor_prints_the_same(path, tmp_path):
    env = driver.other_processor(tmp_path / "cache")
    verdicts = driver.run_notebooks([path], tmp_path / "report.xml", "--nbval-cell-timeout=600", env=env)
    assert {cell: text for (_, cell), text in verdicts.items() if text} == {}
    assert len(verdicts) == len(driver.cell_names(path))


@pytest.mark.full
def test_all_notebooks_pass_in_one_fresh_process(tmp_path):
    verdicts = driver.run_notebooks(NOTEBOOKS, tmp_path / "report.xml")
    assert [cell for cell, text in verdicts.items() if text] == []
