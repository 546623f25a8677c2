"""Kernels written in notebook cells, run twice, edited and loaded again."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernels.target import KernelRefused

F = np.float32
ROOT = Path(__file__).parents[3]
IMPORTS = """
import math
import numpy as np
from numba import cuda, float32
from kernels.target import device, kernel, use
use("cpu")
"""
CELL = """
@kernel
def k(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] = x[i] * float32({factor})
"""


@pytest.fixture
def shell(monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # a shell puts its own there; put it back
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.run_cell(IMPORTS).raise_error()
    yield shell
    shell.reset()
    InteractiveShell.clear_instance()


def cell(shell, text):
    result = shell.run_cell(text, store_history=True)
    result.raise_error()
    return result.result


def test_a_kernel_in_a_cell(shell):
    cell(shell, CELL.format(factor=2))
    cell(shell, "x = np.arange(8, dtype=np.float32)\nk[1, 8](x, 8)")
    assert np.array_equal(shell.user_ns["x"], 2 * np.arange(8))


def test_a_cell_run_again_gives_another_kernel_and_the_old_one_stays(shell):
    cell(shell, CELL.format(factor=2) + "old = k[1, 8]")
    cell(shell, CELL.format(factor=5))
    cell(shell, "x, y = np.ones(8, np.float32), np.ones(8, np.float32)\nk[1, 8](x, 8)\nold(y, 8)")
    assert shell.user_ns["x"].tolist() == [5] * 8
    assert shell.user_ns["y"].tolist() == [2] * 8


def test_a_device_function_of_another_cell_defined_again(shell):
    cell(shell, "@device\ndef f(v):\n    return v + float32(1)")
    cell(shell, "@kernel\ndef g(x):\n    x[cuda.grid(1)] = f(x[cuda.grid(1)])")
    cell(shell, "x = np.zeros(4, np.float32)\ng[1, 4](x)")
    cell(shell, "@device\ndef f(v):\n    return v + float32(10)")
    cell(shell, "g[1, 4](x)")
    assert shell.user_ns["x"].tolist() == [11] * 4


def test_a_constant_of_the_notebook(shell):
    cell(shell, "SIZE = 4\n@kernel\ndef g(x):\n    x[cuda.grid(1)] = SIZE")
    cell(shell, "x = np.zeros(4, np.float32)\ng[1, 4](x)\nSIZE = 9\ny = np.zeros(4, np.float32)\ng[1, 4](y)")
    assert shell.user_ns["x"].tolist() == [4] * 4 and shell.user_ns["y"].tolist() == [9] * 4


def test_a_name_that_only_looks_like_a_variable_of_the_notebook(shell):
    """`threadIdx.x` is not the notebook's x."""
    cell(shell, "x = np.arange(3)\n@kernel\ndef g(out):\n    out[cuda.threadIdx.x] = cuda.blockDim.x")
    cell(shell, "y = np.zeros(4, np.float32)\ng[1, 4](y)\nx = 'text'\ng[1, 4](y)")
    assert shell.user_ns["y"].tolist() == [4] * 4


def test_a_refusal_names_the_cells_line_and_no_file(shell):
    cell(shell, "@kernel\ndef g(x):\n    i = cuda.grid(1)\n    if i < 3:\n        cuda.syncthreads()\n    x[i] = i")
    with pytest.raises(KernelRefused) as caught:
        shell.user_ns["g"][1, 4](np.zeros(4, F))
    message = str(caught.value)
    assert message.startswith("cell 1, line 5: kernel g: cuda.syncthreads() under a condition")
    assert "ipython" not in message and "/tmp" not in message


def test_a_file_edited_after_import_is_taken_as_it_was(write):
    module = write("\n@kernel\ndef k(x):\n    x[0] = float32(1)\n")
    path = Path(module.__file__)
    path.write_text("# nothing like a kernel\n" * 30)
    x = np.zeros(1, F)
    module.k[1, 1](x)
    assert x[0] == 1


def test_a_module_loaded_again(tmp_path, monkeypatch):
    """`from m import k` follows importlib.reload, and so does a configuration kept from before."""
    import importlib
    import linecache

    path = tmp_path / "reloaded_kernels.py"
    header = "from numba import cuda, float32\nfrom kernels.target import kernel\n\n\n"
    one = "@kernel\ndef k(x):\n    x[0] = float32({})\n\n\n"
    text = f"{one}first = k\n\n\n{one}"
    path.write_text(header + text.format(1, 2))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = importlib.import_module("reloaded_kernels")
    k, kept, first = module.k, module.k[1, 1], module.first
    x = np.zeros(1, F)
    assert [(c(x), x[0])[1] for c in (k[1, 1], kept, first[1, 1])] == [2, 2, 1]
    path.write_text(header + text.format(3, 44))
    linecache.checkcache(str(path))
    importlib.reload(module)
    assert [(c(x), x[0])[1] for c in (k[1, 1], kept, module.k[1, 1])] == [44, 44, 44]
    del sys.modules["reloaded_kernels"]


AUTORELOAD = """
import sys, os, time
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
def cell(text):
    r = shell.run_cell(text, store_history=True)
    r.raise_error()
header = 'from numba import cuda, float32\\nfrom kernels.target import device, kernel\\nSTEP = {step}\\n'
body = '''
@device
def f(v):
    return v + float32({add})

@kernel
def k(x):
    i = cuda.grid(1)
    x[i] = f(x[i]) * float32({factor}) + STEP
'''
path = os.path.join(sys.argv[1], 'edited.py')
clock = [time.time()]
def write(step, add, factor):
    open(path, 'w').write(header.format(step=step) + body.format(add=add, factor=factor))
    clock[0] += 10
    os.utime(path, (clock[0], clock[0]))
write(0, 1, 1)
cell('%load_ext autoreload')
cell('%autoreload ' + sys.argv[2])
cell('import numpy as np, edited\\nfrom edited import k\\nfrom kernels.target import use')
cell('use("cpu")\\nx = np.zeros(1, np.float32)\\nc = k[1, 1]')
out = []
def launch():
    for call in ('k[1, 1](x)', 'edited.k[1, 1](x)', 'c(x)'):
        cell('x[0] = 0\\n' + call)
        out.append(float(shell.user_ns['x'][0]))
launch()
write(0, 1, 3); launch()
write(0, 5, 3); launch()
write(7, 5, 3); launch()
print(out)
"""


@pytest.mark.parametrize("mode", ["2", "3", "complete"])
def test_edits_followed_by_autoreload(tmp_path, mode):
    env = os.environ | {"PYTHONPATH": str(ROOT), "ANDREA_CACHE": str(tmp_path / "cache"), "IPYTHONDIR": str(tmp_path)}
    command = [sys.executable, "-c", AUTORELOAD, str(tmp_path), mode]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip().splitlines()[-1:] == [str([1.0] * 3 + [3.0] * 3 + [15.0] * 3 + [22.0] * 3)], (
        done.stdout + done.stderr
    )
