"""What a report says: the whole text, names of cells, float64, the order of faults, faults raised by the target."""

import linecache
import sys
import types

import numpy as np
import pytest
from check_kernels import F, k_flag, k_reverse, k_rows, ramp
from numba import cuda, float32

import kernels
from kernels.target import KernelFault

REVERSE = """\
check k_reverse, grid 1, block 64: 1 fault
race  check_kernels.py:{0}: s[t] = x[t]
    block 0: thread 0 writes s[0], thread 63 reads it (line {1}) [64 places]
    -> no barrier between them: cuda.syncthreads() after line {0} and before line {1}
orders  the result depends on the order: y[0] is 63 or nan (16 of 64 elements differ)
global  x: 64 reads, 0 writes; 8 sectors, best 8
global  y: 0 reads, 64 writes; 8 sectors, best 8
shared  s: 64 reads, 64 writes; 4 bank cycles, best 4"""


def line_of(kernel, text):
    """The line of a kernel that holds a text."""
    code = kernel.fn.__code__
    lines = linecache.getlines(code.co_filename)
    return next(n for n in range(code.co_firstlineno, len(lines)) if text in lines[n - 1])


def test_the_whole_text():
    report = kernels.check(k_reverse)[1, 64](ramp(64), np.zeros(64, F))
    lines = line_of(k_reverse, "s[t] = x[t]"), line_of(k_reverse, "s[63 - t]")
    assert repr(report) == REVERSE.format(*lines)


def test_faults_in_the_order_of_their_weight_with_exact_counts():
    report = kernels.check(k_rows, orders=0)[1, 64](ramp(40), np.zeros(8, F), 16)
    assert [(f.kind, f.array, f.count) for f in report.faults] == [
        ("out_of_bounds", "x", 24),
        ("out_of_bounds", "y", 8),
        ("unset", "v", 4),
    ]
    first = report.faults[0]
    assert (first.block, first.threads, first.index) == ((0, 0, 0), ((40, 0, 0),), (40,))
    assert report.out_of_bounds == report.faults[:2] and report.unset_reads == report.faults[2:]


def test_float64_is_named_by_line_and_variable():
    report = kernels.check(k_rows, orders=0)[1, 32](ramp(32), np.zeros(32, F), 0)
    assert report.float64 == ((line_of(k_rows, "0.5"), "v"),)
    meant = kernels.check(k_rows, orders=0)[1, 32](ramp(32).astype(np.float64), np.zeros(32), 0)
    assert meant.float64 == ()


def test_one_value_from_many_threads_is_said_to_be_that():
    report = kernels.check(k_flag)[2, 64](ramp(128), np.zeros(1, np.int32))
    (fault,) = report.same_value
    assert report.faults == report.races == (fault,) and fault.severity == "note"
    assert "write the same value into found[0]" in fault.message


def test_a_kernel_of_a_notebook_is_named_by_cell_and_line(monkeypatch):
    text = "def k_cell(x):\n    x[cuda.grid(1) + 1] = float32(1.0)\n"
    file = "/tmp/ipykernel_4711/1234.py"
    monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(True), file))
    space = {"cuda": cuda, "float32": float32}
    exec(compile(text, file, "exec"), space)
    assert "out of bounds  notebook cell, line 2:" in repr(kernels.check(space["k_cell"])[1, 32](ramp(32)))
    shell = types.SimpleNamespace(compile=types.SimpleNamespace(_filename_map={file: 7}))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    report = repr(kernels.check(space["k_cell"])[1, 32](ramp(32)))
    assert "out of bounds  cell 7, line 2: x[cuda.grid(1) + 1] = float32(1.0)" in report and "4711" not in report


def test_the_target_raises_what_a_check_reports():
    x, y = ramp(64), np.full(64, 7, F)
    with kernels.use("check"):
        assert kernels.current() == "check"
        with pytest.raises(KernelFault, match="race at check_kernels.py") as caught:
            k_reverse[1, 64](x, y)
        launch = k_flag[1, 2].bind(np.zeros(2, F), np.zeros(1, np.int32))
        launch.run()
    assert caught.value.report.races and "\n" not in str(caught.value)
