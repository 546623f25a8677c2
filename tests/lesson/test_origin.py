"""A kernel taken apart to plain values and built again, as another process does it."""

import functools
import json
import math
import subprocess
import sys

import numpy as np
import pytest
from numba import cuda, float32, int32

from andrea_lab.lesson import origin
from andrea_lab.paths import ROOT
from kernels.pairs import KERNELS
from kernels.target import device, kernel

WIDTH = 4
HALF = np.float32(0.5)
SHAPE = (2, 3)
TABLE = [1.0, 2.0]


@device
def scaled(x):
    return x * HALF


@functools.cache
def make(rows):
    @kernel
    def k_made(out, n):
        i = cuda.grid(1)
        if i < n:
            out[i] = scaled(float32(rows * WIDTH)) + float32(SHAPE[1]) + math.sqrt(float32(4.0)) + float32(np.pi)

    return k_made


@cuda.jit
def k_jitted(out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = float32(int32(i))


def k_bare(out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = float32(WIDTH)


@kernel
def k_reads_a_list(out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = TABLE[0]


def again(made):
    """Through JSON, as between two processes."""
    return origin.unpacked(json.loads(json.dumps(origin.packed(made))))


def ran(made):
    out = np.zeros(5, np.float32)
    made[1, 32](out, 5)
    return out.tolist()


def test_a_kernel_made_by_a_function_keeps_what_it_closes_over():
    assert ran(again(make(3))) == ran(make(3)) == [pytest.approx(6 + 3 + 2 + np.pi)] * 5
    assert ran(again(make(5)))[0] == pytest.approx(10 + 3 + 2 + np.pi)


@pytest.mark.parametrize("made, expected", [(k_jitted, [0, 1, 2, 3, 4]), (k_bare, [4] * 5)])
def test_a_dispatcher_and_a_plain_function_are_kernels_too(made, expected):
    assert ran(again(made)) == expected


@pytest.mark.parametrize("name", list(KERNELS))
def test_every_shipped_kernel_travels(name):
    held = KERNELS[name]
    travelled = again(held)
    assert travelled.params == list(held.fn.__code__.co_varnames[: held.fn.__code__.co_argcount])
    assert travelled.source.tree.lineno == origin.tree_of(held).lineno


def test_it_works_in_another_process(tmp_path):
    code = (
        "import json, sys, numpy as np\nfrom andrea_lab.lesson import origin\n"
        "k = origin.unpacked(json.load(sys.stdin))\nout = np.zeros(5, np.float32)\n"
        "k[1, 32](out, 5)\nprint(out.tolist())"
    )
    text = json.dumps(origin.packed(make(3)))
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert json.loads(done.stdout) == ran(make(3))


def test_what_a_kernel_may_not_use_is_named():
    with pytest.raises(origin.OriginError, match=r"^k_reads_a_list uses 'TABLE', a list; a kernel may use numbers"):
        origin.packed(k_reads_a_list)
    for wrong, what in ((3, "an int 3"), ("text", "a str 'text'"), (np.zeros(2), "a ndarray"), (None, "a NoneType")):
        with pytest.raises(origin.OriginError, match=f"^expected a kernel, found {what}$"):
            origin.plain(wrong)


def test_lines_of_a_kernel_built_again_are_those_of_its_file():
    made = again(k_bare)
    assert made.fn.__code__.co_firstlineno == k_bare.__code__.co_firstlineno


def test_a_changed_text_makes_another_kernel_and_leaves_the_first_alone():
    changed = origin.variant(k_bare, origin.text_of(k_bare).replace("float32(WIDTH)", "float32(WIDTH + 1)"))
    assert ran(kernel(changed)) == [5] * 5 and ran(kernel(k_bare)) == [4] * 5


def test_the_preamble_of_a_kernel_makes_its_text_a_file(tmp_path):
    text = origin.preamble(make(3)) + "\n\n" + origin.text_of(make(3)) + "\n"
    path = tmp_path / "mine.py"
    path.write_text(text)
    namespace = {}
    exec(compile(text, str(path), "exec"), namespace)
    assert ran(namespace["k_made"]) == ran(make(3))
