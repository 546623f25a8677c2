"""A kernel written in a notebook is named by cell and line, in a report that another process writes the same."""

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
SESSION = """
    import os, sys
    os.chdir({root!r})
    sys.path.insert(0, {root!r})
    from ipykernel.compiler import XCachingCompiler
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.compile = XCachingCompiler()
    cells = ['''
    import numpy as np
    from numba import cuda, float32
    import kernels
    ''', '''
    def late(x, y):
        s = cuda.shared.array(32, float32)
        t = cuda.threadIdx.x
        s[t] = x[t]
        y[t] = s[31 - t]
    ''', '''
    print(kernels.check(late)[1, 32](np.arange(32, dtype=np.float32), np.zeros(32, np.float32)))
    ''', '''
    def late(x, y):
        y[cuda.grid(1) + 1] = x[cuda.grid(1)]
    ''', '''
    print(kernels.check(late)[1, 32](np.arange(32, dtype=np.float32), np.zeros(32, np.float32)))
    ''', '''
    def late(x, y)
        y[0] = 1
    ''', '''
    print(kernels.check(late)[1, 31](np.arange(32, dtype=np.float32), np.zeros(32, np.float32)).ok)
    ''']
    for cell in cells:
        shell.run_cell(cell.strip() + "\\n", store_history=True)
"""


def session(seed: str) -> str:
    text = textwrap.dedent(SESSION).format(root=str(ROOT)).replace("    '''", "'''")
    env = {"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "IPYTHONDIR": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_report_names_cell_and_line_and_no_path():
    text = session("1")
    race, bounds = text.split("check late", 2)[1:]
    assert "race  cell 2, line 4: s[t] = x[t]" in race, text
    assert "cell 4, line 2: y[cuda.grid(1) + 1] = x[cuda.grid(1)]" in bounds, text
    assert "/tmp" not in text and "ipykernel" not in text
    # After a cell that did not compile the kernel of the cell before is still there, and the next check works.
    assert text.rstrip().endswith("True"), text


def test_two_processes_write_one_report():
    assert session("1") == session("2")
