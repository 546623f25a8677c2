"""The changes that make mutants: what each class does to a small kernel, and that every change is one."""

import ast
import textwrap

import pytest

from andrea_lab.lesson.mutants import CLASSES, bank
from andrea_lab.lesson.mutants.bank import mutants_of, original, source_of, subjects
from andrea_lab.lesson.mutants.changes import changed, edits

KERNEL = '''
@kernel
def k_some(x, y, out, n):
    """Words."""
    part = cuda.shared.array(NT, float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    part[tx] = x[ty, tx]
    cuda.syncthreads()
    acc = float32(0.0)
    top = float32(LOWEST)
    if tx < n and ty < n:
        for j in range(ty, n, NT):
            acc += part[j] * float32(0.5) - y[j]
            top = max(top, acc)
    else:
        acc = top
    cuda.atomic.add(out, ty, acc)
'''
OUTSIDE = {"LOWEST": -3e38, "NT": 8}


def made(cls):
    """what -> text of the changes of one class, each text as a list of lines."""
    tree = ast.parse(textwrap.dedent(KERNEL)).body[0]
    rows = edits(tree, OUTSIDE.get)
    return {what: changed(tree, OUTSIDE.get, i) for i, (c, _, what) in enumerate(rows) if c == cls}


@pytest.mark.parametrize(
    ("cls", "what", "line"),
    [
        ("atomic", "cuda.atomic.add(out, ty, acc) as +=", "    out[ty] += acc"),
        ("guard", "if tx < n and ty < n: without tx < n", "    if ty < n:"),
        ("guard", "if tx < n and ty < n: without ty < n", "    if tx < n:"),
        ("accumulate", "acc += part[j] * float32(0.5) - y[j] as =", "acc = part[j] * float32(0.5) - y[j]"),
        ("offbyone", "range(ty, n, NT) as range(ty, n + 1, NT)", "for j in range(ty, n + 1, NT):"),
        ("offbyone", "range(ty, n, NT) as range(ty, n - 1, NT)", "for j in range(ty, n - 1, NT):"),
        ("offbyone", "range(ty, n, NT) as range(ty + 1, n, NT)", "for j in range(ty + 1, n, NT):"),
        ("offbyone", "tx < n as tx <= n", "if tx <= n and ty < n:"),
        ("offbyone", "x[ty, tx] as x[ty + 1, tx]", "part[tx] = x[ty + 1, tx]"),
        ("offbyone", "part[tx] as part[tx - 1]", "part[tx - 1] = x[ty, tx]"),
        ("const", "acc += part[j] * float32(0.5) - y[j]: 0.5 as 0.55", "float32(0.55)"),
        ("const", "acc = float32(0.0): 0.0 as 1", "acc = float32(1.0)"),
        ("const", "top = float32(LOWEST): LOWEST as 0", "top = float32(0.0)"),
        ("term", "max(top, acc) as acc", "top = acc"),
        ("term", "range(ty, n, NT) as range(ty, n)", "for j in range(ty, n):"),
        ("term", "part[j] * float32(0.5) as float32(0.5)", "acc += float32(0.5) - y[j]"),
        ("term", "part[j] * float32(0.5) - y[j] as part[j] * float32(0.5) + y[j]", "float32(0.5) + y[j]"),
        ("axes", "x[ty, tx] as x[tx, ty]", "part[tx] = x[tx, ty]"),
        ("axes", "cuda.threadIdx.x as cuda.threadIdx.y", "tx = cuda.threadIdx.y"),
    ],
)
def test_each_class_changes_what_it_says(cls, what, line):
    assert line in made(cls)[what]


def test_what_is_left_out_is_gone():
    (text,) = made("barrier").values()
    assert "syncthreads" not in text
    assert set(made("init")) == {"no part[tx] = x[ty, tx]", "no acc = float32(0.0)", "no top = float32(LOWEST)"}
    always = made("guard")["if tx < n and ty < n: always"]
    assert "if" not in always.split() and "acc = top" not in always and "acc +=" in always
    assert "Words" not in always and "@kernel" not in always


def test_sizes_of_shared_arrays_stay_as_they_are():
    for cls in CLASSES:
        for text in made(cls).values():
            assert "part = cuda.shared.array(NT, float32)" in text


@pytest.mark.parametrize("subject", ["k_layernorm_bwd", "k_softmax_fwd", "k_matmul_tiled", "gelu_slope", "at"])
def test_every_mutant_is_another_function(subject):
    texts = [m.text for m in mutants_of(subject)]
    assert len(set(texts)) == len(texts) > 5 and original(subject) not in texts
    for text in texts:
        compile(text, subject, "exec")


def test_the_tree_is_left_as_it_was():
    source = source_of("k_layernorm_fwd")
    before = ast.dump(source.tree)
    assert changed(source.tree, source.lookup, 20) and edits(source.tree, source.lookup)
    assert ast.dump(source.tree) == before
    with pytest.raises(IndexError, match="change 9999 of k_layernorm_fwd"):
        changed(source.tree, source.lookup, 9999)


def test_the_bank_covers_every_kernel_and_device_function():
    mutants = bank()
    assert {m.subject for m in mutants} == set(subjects()) >= {"at", "dot", "gelu", "clip_scale", "dlogit"}
    assert {m.cls for m in mutants} == set(CLASSES) and len(mutants) > 4000
    assert len({m.key for m in mutants}) == len(mutants)
    lines = source_of("k_sum").text.splitlines()
    for m in bank("k_sum", "barrier"):
        assert "syncthreads" in lines[m.line - source_of("k_sum").first]
