"""Random kernels that share memory: the races found are those of a brute-force oracle, line for line."""

import linecache
import re

import numpy as np
import pytest
from numba import cuda, float64
from race_generator import BLOCK, BLOCKS, SIZE, oracle, program

import kernels


def build(text: str, seed: int):
    name = f"<sharing {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"cuda": cuda, "float64": float64}
    exec(compile(text, name, "exec"), space)
    return space["kernel"]


def reported(report) -> dict:
    """Unordered pairs of lines -> kinds, as the report names them."""
    found = {}
    for fault in report.faults:
        other = re.search(r"\bline (\d+)", fault.message)
        pair = frozenset((fault.line, int(other[1]) if other else fault.line))
        kind = "same_value" if fault.kind == "same_value" else "race"
        found[pair] = "race" if "race" in (kind, found.get(pair)) else kind
    return found


def compare(seed: int) -> str:
    """Check one random kernel; which of "clean", "race", "same_value" it was."""
    text, plain = program(seed)
    expected = oracle(plain)
    g, out = np.zeros(SIZE * BLOCKS), np.zeros(BLOCK * BLOCKS)
    report = kernels.check(build(text, seed), orders=0)[BLOCKS, BLOCK](g, out)
    assert {fault.kind for fault in report.faults} <= {"race", "lost_update", "same_value"}, f"{report!r}\n{text}"
    found = reported(report)
    both = f"found {found}\nexpected {expected}\n{report!r}\n{text}"
    assert set(found) == set(expected), both
    # What is called harmless is harmless, and where nothing else is wrong it is called that.
    assert all(expected[pair] == "same_value" for pair in found if found[pair] == "same_value"), both
    kinds = set(expected.values())
    assert kinds != {"same_value"} or set(found.values()) == kinds, both
    return "race" if "race" in kinds else "same_value" if kinds else "clean"


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_races_are_those_of_the_oracle(first):
    for seed in range(first, first + 20):
        compare(seed)


@pytest.mark.full
@pytest.mark.parametrize("first", range(1000, 4000, 100))
def test_many_races_are_those_of_the_oracle(first):
    for seed in range(first, first + 100):
        compare(seed)


def test_the_kernels_are_of_all_kinds():
    kinds = [max(set(oracle(program(seed)[1]).values()), default="clean") for seed in range(120)]
    assert kinds.count("clean") >= 10 and len(set(kinds)) == 3
