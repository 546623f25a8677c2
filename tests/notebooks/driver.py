"""Runs notebooks in a pytest of their own and reads the verdict on each cell."""

import os
import platform
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import matplotlib
import nbformat

ROOT = Path(__file__).resolve().parents[2]
# Another processor, as far as one machine can be another: BLAS, Numba and NumPy choose code for an older one.
OTHER_PROCESSOR = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+bmi,+bmi2,+f16c,+popcnt,+sse4.2",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4",
}


def other_processor(cache):
    """The environment of a process that must compile everything anew, for an older processor where we know one."""
    names = OTHER_PROCESSOR if platform.machine() == "x86_64" else {}
    # matplotlib keeps its font list: finding the fonts again takes time and says so on stderr.
    return {**names, "XDG_CACHE_HOME": str(cache), "MPLCONFIGDIR": matplotlib.get_cachedir()}


def run_notebooks(paths, report, *options, env=None):
    """Tests the notebooks in a fresh process: {(file name, cell): message}, an empty message for a pass.

    `report` is a path for pytest's XML report. A cell that is skipped or expected to fail gives "skipped".
    """
    command = [sys.executable, "-m", "pytest", "-p", "tests.notebooks.strict", "-p", "no:cacheprovider", "-q"]
    command += ["-m", "", f"--junitxml={report}", "-o", "junit_family=xunit1", f"--rootdir={ROOT}", "-c"]
    command += [str(ROOT / "pyproject.toml"), *options, *map(str, paths)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env={**clean, **(env or {})}, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    verdicts = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        text = "".join(f"{c.get('message')}\n{c.text}" for c in case if c.tag in ("failure", "error"))
        skipped = case.find("skipped") is not None
        verdicts[Path(case.get("file")).name, case.get("name")] = "skipped" if skipped else text
    return verdicts


def cell_names(path):
    """The names of a notebook's code cells as tests, in order."""
    code = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    return [(cell.metadata.get("tags") or [f"Cell {number}"])[0] for number, cell in enumerate(code)]


def text_outputs(cell):
    """The (holder, key) pairs under which a code cell stores text that a test compares."""
    for output in cell.outputs:
        if output.output_type == "stream":
            yield output, "text"
        for mime in output.get("data", {}):
            if mime.startswith("text/"):
                yield output.data, mime


def alter(source, target):
    """Copies a notebook with every text output changed; returns the names of the cells that must fail now."""
    notebook = nbformat.read(source, as_version=4)
    touched = []
    code = [c for c in notebook.cells if c.cell_type == "code"]
    for name, cell in zip(cell_names(source), code, strict=True):
        places = list(text_outputs(cell))
        for holder, key in places:
            holder[key] = holder[key] + " (altered)"
        if places:
            touched.append(name)
    nbformat.write(notebook, target)
    return touched
