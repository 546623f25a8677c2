"""Verdicts on learners' kernels: the reason and the lines, the same ones every time; and that the next check works."""

import os
import re

import nbformat
import pytest
from learners import WRONG
from nbclient import NotebookClient
from puzzles import PUZZLES

from andrea_lab import lesson
from andrea_lab.lesson import judge, limits, reasons
from andrea_lab.lesson.cases import case_list
from andrea_lab.lesson.mutants.bank import bank, build
from kernels.pairs import KERNELS

NAMES = [kernel.__name__ for _, _, kernel in WRONG + PUZZLES]
RIGHT = """
@kernel
def mine(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = a[i] + b[i]
"""


@pytest.mark.parametrize("name, reason, kernel", WRONG + PUZZLES, ids=NAMES)
def test_a_wrong_kernel_is_turned_down_with_its_reason(name, reason, kernel):
    result = lesson.check(name, kernel, compiled=reason == "refused")
    assert not result.passed and result.reason == reason, repr(result)
    assert reason in reasons.SAYS
    assert result.lines[0] == f"{name}: not yet: {reason}" and 2 <= len(result.lines) <= 5
    assert all(line.startswith("  ") for line in result.lines[1:])
    assert not re.search(r"/\w+/|0x[0-9a-f]|\d+\.\d{6}", repr(result)), "no path, no address, no last digits"


def test_every_reason_is_met():
    met = {reason for _, reason, _ in WRONG + PUZZLES}
    seen_elsewhere = {  # in tests of texts, of values, of limits, and in the exercises
        *("syntax error", "not a kernel", "time", "memory", "disk", "crash", "lost digits", "missing term", "sign"),
        *("wrong row factor", "wrong row term", "wrong column factor", "wrong column term", "not a number"),
        *("compiled differs", "error"),
    }
    assert set(reasons.SAYS) - met <= seen_elsewhere


def test_two_checks_say_the_same():
    for name, _, kernel in PUZZLES[:3]:
        assert repr(lesson.check(name, kernel, compiled=False)) == repr(lesson.check(name, kernel, compiled=False))


def test_a_right_kernel_passes_compiled_too():
    result = lesson.check("k_residual_add", RIGHT)
    assert result.passed and result.reason == "passed"
    assert repr(result) == (
        "k_residual_add: passed\n"
        "  on the check target, without a fault: one, odd, strong\n"
        "  and compiled; within 1e-05 of the float64 reference"
    )


@pytest.mark.parametrize("name", ["k_flash_fwd", "k_matmul_blocked", "k_embed_bwd", "k_adamw"])
def test_shipped_kernels_pass(name):
    result = lesson.check(name, KERNELS[name], compiled=False)
    assert result.passed, repr(result)


class Prickly:
    """An object that answers every question with an exception."""

    def method(self, a, b, out, n):
        out[0] = a[0]

    def __getattr__(self, name):
        raise RuntimeError(name)


MUST = {  # the reasons a mutant of each of these classes may get
    "barrier": {"missing barrier"},
    "atomic": {"missing atomic"},
    "accumulate": set(reasons.SAYS) - {"refused", "unsupported", "error"},
    "guard": set(reasons.SAYS) - {"refused", "unsupported", "error"},
}


@pytest.mark.parametrize("subject", ["k_layernorm_fwd", "k_layernorm_bwd", "k_layernorm_bwd_atomic", "k_softmax_bwd"])
def test_mutants_of_shipped_kernels_are_turned_down_with_a_reason_of_their_class(subject):
    found = [m for m in bank(subject) if m.cls in MUST]
    assert found
    for mutant in found:
        result = lesson.check(subject, build(mutant, subject, {}), compiled=False)
        assert not result.passed and result.reason in MUST[mutant.cls], f"{mutant}\n{result!r}"
    forgot = [m for m in found if m.cls == "accumulate" and re.match(r"d\w+\[[^]]*\] \+=", m.what)]
    for mutant in forgot:
        assert lesson.check(subject, build(mutant, subject, {}), compiled=False).reason == "forgot +=", str(mutant)


@pytest.mark.full
@pytest.mark.parametrize("name", list(KERNELS))
def test_every_shipped_kernel_passes_compiled_too(name):
    result = lesson.check(name, KERNELS[name])
    assert result.passed, repr(result)


def test_a_kernel_of_another_form_runs_the_cases_of_its_form():
    from kernels.attention_flash import make_forward

    result = lesson.check("k_flash_fwd", make_forward(4), compiled=False)
    fitting = [case.label for case in case_list("k_flash_fwd") if case.form]
    assert result.passed and f": {', '.join(fitting)}" in result.lines[1], repr(result)


@pytest.mark.parametrize(
    "given", [None, ..., "", "def k(a, b, out, n):\n    ...", "def k(a):\n    '''Doc.'''\n    pass"]
)
def test_nothing_yet_is_not_attempted(given):
    result = lesson.check("k_residual_add", given)
    assert (result.passed, result.reason, repr(result)) == (False, "not attempted", "k_residual_add: not attempted")


@pytest.mark.parametrize(
    "given, reason, says",
    [
        ("def k(a, b:\n    pass", "syntax error", r"line 1: .*def k\(a, b:"),
        ("def k(a, b, out, n):\nout[0] = 1", "syntax error", "line 2: expected an indented block"),
        ("def k(a, b, out, n):\n    out[0] = (a[0]", "syntax error", r"line 2: '\(' was never closed: out\[0\] = "),
        ("x = 1\0", "syntax error", "null bytes"),
        ("x = 3", "not a kernel", "the text defines no function"),
        (3, "not a kernel", "expected a kernel, found an int 3"),
        ([1], "not a kernel", "expected a kernel, found a list"),
        (lambda a, b, out, n: None, "not a kernel", "expected a kernel written with def"),
        (Prickly().method, "not a kernel", "expected a kernel, found a method"),
        ("def k(a, b, out, n):\n    out[0] = " + "-" * 100_000 + "1", "syntax error", "nested too deeply"),
        ("def k(a, b, out, n):\n    out[0] = " + "(" * 3_000, "syntax error", "line 2: too many nested parentheses"),
        ("def k(a, b, out, n):\n    return k(a, b, out, n)", "outside value", "uses 'k', a function"),
        ("def k(*arguments):\n    arguments[0][0] = 1", "signature", r"k takes 0 arguments \(\),"),
        (len, "not a kernel", "expected a kernel, found a builtin_function_or_method"),
        ("import os\nos.abort()\n" + RIGHT, "unsupported", "line 1: only imports and constants .*: import os"),
        ("while True:\n    pass\n" + RIGHT, "unsupported", "line 1: only imports and constants"),
        ("X = [0] * 10**10\n" + RIGHT, "unsupported", "line 1: only imports and constants"),
        ("X = 10**10**10\n" + RIGHT, "unsupported", "line 1: only imports and constants"),
        ("@print\n" + RIGHT.replace("@kernel\n", "").strip(), "unsupported", "line 2: @print on mine"),
        ("def k(a, b, out, n=open('x')):\n    out[0] = 1", "unsupported", "line 1: a default value on k"),
    ],
)
def test_what_is_no_kernel_is_told_in_a_line_or_two(given, reason, says):
    result = lesson.check("k_residual_add", given)
    assert result.reason == reason and len(result.lines) in (2, 3), repr(result)
    assert max(map(len, result.lines)) < 140
    assert re.search(says, result.lines[1])


def test_a_text_may_hold_constants_and_device_functions():
    text = "import math\nfrom numba import cuda, float32\nHALF = float32(0.5)\nTWO = 1 + 1\n"
    text += "@device\ndef half(x):\n    return x * HALF\n" + RIGHT.replace("a[i]", "half(a[i]) * float32(TWO)")
    assert lesson.check("k_residual_add", text, compiled=False).passed


@pytest.mark.parametrize("reason", ["time", "memory", "disk", "crash"])
def test_what_ends_the_compiled_run_is_told(monkeypatch, reason):
    def end(*_):
        raise limits.Ended(reason)

    monkeypatch.setattr(limits, "run", end)
    result = lesson.check("k_residual_add", RIGHT)
    assert (result.reason, len(result.lines)) == (reason, 3)
    assert result.lines[2].strip() == reasons.SAYS[reason]
    monkeypatch.undo()
    assert lesson.check("k_residual_add", RIGHT, compiled=False).passed


def test_an_object_that_answers_with_exceptions_is_no_kernel():
    assert lesson.check("k_residual_add", Prickly()).lines[1] == "  expected a kernel, found a Prickly"


def test_a_fault_of_our_own_does_not_stop_a_notebook(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("first\nsecond")

    monkeypatch.setattr(judge, "checked", broken)
    result = lesson.check("k_residual_add", RIGHT)
    assert repr(result) == "k_residual_add: not yet: error\n  RuntimeError: first"


def test_too_little_time_is_told():
    assert lesson.check("k_residual_add", RIGHT, seconds=0.05).reason == "time"


def test_a_compiled_result_that_differs_is_told(monkeypatch):
    monkeypatch.setattr(limits, "run", lambda message, _: {"results": [held for _, _, held, _ in message["launches"]]})
    result = lesson.check("k_residual_add", RIGHT)
    assert result.reason == "compiled differs" and "first failing, compiled: N=1 (one), out[0]: expected" in repr(
        result
    )


CELLS = [
    "from numba import cuda, float32\nfrom andrea_lab import lesson\nfrom kernels.target import kernel",
    "def mine(a, b, out, n:\n    pass",
    "@kernel\ndef mine(a, b, out, n):\n    i = cuda.grid(1)\n    while True:\n        out[0] = a[0]",
    "lesson.check('k_residual_add', mine)",
    RIGHT.strip().replace("if i < n:", "if i < n + 1:"),
    "lesson.check('k_residual_add', mine)",
    RIGHT.strip(),
    "lesson.check('k_residual_add', mine)",
]


def test_a_notebook_lives_through_it_and_names_its_cells(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    client = NotebookClient(notebook, timeout=120, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [cell.outputs[-1] if cell.outputs else None for cell in notebook.cells]
    assert shown[1].ename == "SyntaxError"
    endless, unguarded, right = (shown[n].data["text/plain"] for n in (3, 5, 7))
    assert "not yet: endless loop" in endless and "cell 3, line 4: while True:" in endless
    assert "not yet: no guard" in unguarded and "cell 5, line 5: out[i] = a[i] + b[i]" in unguarded
    assert right.startswith("k_residual_add: passed")
