"""What a docstring says of a kernel's traffic is what the check target counts: array by array, exactly."""

import inspect
import re
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from stated_traffic import Counts, evaluate, names, part, stated, statement

import kernels
from andrea_lab.lesson import origin
from andrea_lab.lesson.cases import case_list
from kernels.pairs import KERNELS
from kernels.target import KernelError, kernel

EACH = pytest.mark.parametrize("name", sorted(KERNELS))
PARTS = ("Maths", "Shapes", "Threads", "Shared memory", "Reads + writes", "Saves", "Changed")
WORDS = {"reads", "writes", "atomics", "and", "each", "where", "ceil", "min", "count"}


@EACH
def test_docstring_has_its_parts_in_order(name):
    text = inspect.getdoc(KERNELS[name].fn)
    first, rest = text.split("\n", 1)
    assert len(first) > 10 and first.endswith(".") and rest.startswith("\n")
    found = re.findall(rf"^({'|'.join(map(re.escape, PARTS))}): ", text, re.M)
    assert found in (list(PARTS), list(PARTS[:-1])), f"{name}: {found}"
    words = set(re.findall(r"\w+", part(KERNELS[name], "Shapes")))
    arrays = {a for a, value in counted(name)[0].known.items() if isinstance(value, np.ndarray)}
    assert arrays <= words, f"{name}: no shape of {arrays - words}"


@dataclass
class Counted:
    """One launch: what it was, what a formula may use, and the counts of the check target by array."""

    label: str
    known: dict
    counts: dict[str, Counts]
    same: dict[str, int]  # arrays by identity: two parameters may be one array

    def wrong(self, said: dict[str, Counts]) -> str:
        """The first array of which something else is said than was counted; "" if there is none."""
        for identity in {self.same[a] for a in said | self.counts}:
            group = [a for a in self.same if self.same[a] == identity]
            left, right = (summed(side, group) for side in (said, self.counts))
            if left != right:
                return f"{self.label}: {', '.join(group)} stated {left}, counted {right}"
        return ""


def summed(counts, group):
    rows = [counts.get(array, Counts()) for array in group]
    return Counts(*(sum(getattr(row, kind) for row in rows) for kind in ("reads", "writes", "atomics")))


def launches(name):
    """(label, kernel, grid, block, args): the example, with two blocks where any is legal, and every small case."""
    k = KERNELS[name]
    for block in (k.default_block, 96) if k.any_block else k.blocks:
        grid, args = k.example(block)
        yield f"example, block {block}", k, grid, block, args
    for case in case_list(name):
        made = origin.variant(k.kernel, constants=case.form) if case.form else k
        yield case.label, made, case.grid, case.block, case.fresh()


@cache
def counted(name):
    """Every launch of a kernel on the check target."""
    found = []
    for label, k, grid, block, args in launches(name):
        known = names(k, grid, block, args)
        report = kernels.check(k, orders=0)[grid, block](*args)
        assert report.ok, repr(report)
        arrays = report.traffic.arrays.items()
        counts = {a: Counts(t.reads, t.writes, t.atomics) for a, t in arrays if t.space == "global"}
        same = {a: id(v) for a, v in zip(inspect.signature(k.fn).parameters, args, strict=True)}
        found.append(Counted(label, known, counts, same))
    return found


def wrong(name, sentence):
    """What is wrong with a sentence about a kernel, in the first launch where something is."""
    for launch in counted(name):
        found = launch.wrong(evaluate(sentence, launch.known, launch.same, name))
        if found:
            return found
    return ""


@EACH
def test_stated_traffic_is_counted_traffic(name):
    assert len(counted(name)) >= 4
    assert wrong(name, statement(KERNELS[name])) == ""


def changed(name):
    """The statement of a kernel with one number or size changed by 1, once for each of them."""
    sentence, known = statement(KERNELS[name]), counted(name)[0].known
    for found in re.finditer(r"[\w.]+\b(?! =)", sentence):
        if found[0] in WORDS or isinstance(known.get(found[0]), np.ndarray):
            continue
        before, after = sentence[: found.start()], sentence[found.end() :]
        yield f"{before}({found[0]} {'-' if before.endswith('/ ') else '+'} 1){after}"


@EACH
def test_no_number_and_no_size_of_a_statement_can_be_another(name):
    sentences = list(changed(name))
    assert sentences
    for sentence in sentences:
        try:
            assert wrong(name, sentence), f"agrees too: {sentence}"
        except KernelError as error:
            assert "expected a whole number" in str(error)


def test_one_more_access_than_stated_is_seen():
    k = KERNELS["k_layernorm_fwd"].kernel
    text = origin.text_of(k)
    assert text.count("rstd[row] = rs") == 1
    more = origin.variant(k, text.replace("rstd[row] = rs", "rstd[row] = rs + float32(0.0) * beta[0]"))
    grid, args = KERNELS["k_layernorm_fwd"].example(32)
    found = kernels.check(more, orders=0)[grid, 32](*args).traffic.arrays["beta"].reads
    assert found == stated(more, grid, 32, *args)["beta"].reads + grid


def test_sizes_are_enough():
    """At the size of a real model, from arrays that take no memory."""
    N, C = 8 * 1024, 768
    inp, row, column = (np.broadcast_to(np.float32(0.0), shape) for shape in ((N, C), (C,), (N,)))
    k = KERNELS["k_layernorm_fwd"]
    found = stated(k, N, 32, inp, row, row, inp, column, column, C, np.float32(1e-5))
    assert found["inp"] == Counts(reads=3 * N * C) and found["out"] == Counts(writes=N * C)
    assert sum(c.reads for c in found.values()) == 5 * N * C
    assert sum(c.writes for c in found.values()) == N * C + 2 * N


def described(shapes, traffic):
    """A kernel of which this is said."""

    def k_told(inp, targets, out, n):
        """Something told."""

    k_told.__doc__ = f"Something told.\n\nShapes: {shapes}.\nReads + writes: {traffic}. So it is.\nSaves: nothing.\n"
    return kernel(k_told)


def told(traffic, shapes="inp, targets (B, T); out (2*n,)"):
    ids = np.array([[1, -1, 2], [0, 5, -1]], np.int32)
    args = (np.zeros((2, 3), np.float32), ids, np.zeros(8, np.float32), 4)
    return stated(described(shapes, traffic), (5, 2), (4, 8), *args)


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("7", 7),
        ("2 B T", 12),
        ("n (B + 1) / 2", 6),
        ("3 (T - 1) (B + n)", 36),
        ("ceil(T / 2) n", 8),
        ("1 / 2 n", 2),
        ("n ceil(n / T)", 8),
        ("min(B, T) + 1", 3),
        ("gridDim blockDim", 320),
        ("gridDim.y blockDim.x", 8),
        ("n count(targets >= 0) - 1", 15),
    ],
)
def test_formulas(formula, value):
    assert told(f"reads inp {formula}") == {"inp": Counts(reads=value)}
    assert told(f"reads inp m; where m = {formula}") == {"inp": Counts(reads=value)}


def test_sentences():
    found = told("reads inp, targets and out n each; writes out hits T; atomics inp 1; where hits = B")
    assert found == {"inp": Counts(4, 0, 1), "targets": Counts(4), "out": Counts(4, 6)}


@pytest.mark.parametrize(
    ("traffic", "message"),
    [
        ("3 reads", 'starts with "3 reads", expected "reads ..."'),
        ("reads inp 2 M", "has the name M, expected one of .*B, T, n"),
        ("reads image n", '"reads image n" names no parameter'),
        ("reads inp n; moves out n", 'has "moves out n", expected one of reads, writes, atomics'),
        ("reads inp n / 3", '"n / 3" is 4/3, expected a whole number'),
        ("reads inp n +", 'k_told: "n \\+" is no formula'),
        ("reads inp n % 2", 'has "% 2", expected a number, a name or a sign'),
        ("reads inp targets", '"targets" is no formula'),
    ],
)
def test_what_cannot_be_evaluated_is_said_in_one_line(traffic, message):
    with pytest.raises(KernelError, match=message) as error:
        told(traffic)
    assert "\n" not in str(error.value)


def test_shapes_are_compared_with_the_arrays():
    with pytest.raises(KernelError, match=re.escape("out has shape (8,), expected 3*n = 12")):
        told("reads inp n", shapes="inp, targets (B, T); out (3*n,)")
    with pytest.raises(KernelError, match=re.escape("out has shape (8,), expected n = 4")):
        told("reads inp n", shapes="out (n,)")
    with pytest.raises(KernelError, match=re.escape("inp has shape (2, 3), expected (B, T, C)")):
        told("reads inp n", shapes="inp (B, T, C)")
