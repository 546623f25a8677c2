"""Every bug of the list is found: its kind first, its line named."""

import inspect
import re
from pathlib import Path

import bugs_barrier
import bugs_bounds
import bugs_global
import bugs_rest
import bugs_shared
import bugs_unset
import bugs_warp
import legal_memory
import legal_sync
import numpy as np
import pytest
from bugs_common import BUGS, LEGAL
from numba import cuda, float32

import kernels

MODULES = (bugs_shared, bugs_global, bugs_warp, bugs_barrier, bugs_bounds, bugs_unset, bugs_rest)
LEGAL_MODULES = (legal_memory, legal_sync)


def check(entry, budget=1_000, **options):
    return kernels.check(entry.fn, budget=budget, **options)[entry.launch](*entry.arguments())


def names_line(fault, line: int) -> bool:
    """Whether the fault is at this line, or says it as the other side of the same fault."""
    return fault.line == line or re.search(rf"\bline {line}\b", fault.message) is not None


@pytest.mark.parametrize("entry", BUGS, ids=lambda entry: entry.name)
def test_bug_is_found_at_its_line(entry):
    report = check(entry, orders=0)
    assert not report.ok, f"{entry.name}: no fault found, expected {entry.kinds}"
    first = report.faults[0]
    assert first.kind in entry.kinds, f"{entry.name}: expected {entry.kinds} first, found\n{report!r}"
    right = [fault for fault in report.faults if fault.kind in entry.kinds and names_line(fault, entry.line)]
    assert right, f"{entry.name}: line {entry.line} is not named in\n{report!r}"
    assert right[0].file.endswith(f"{entry.fn.__module__.split('.')[-1]}.py")
    assert right[0].source.strip() in Path(inspect.getsourcefile(entry.fn)).read_text()
    assert right[0].hint and right[0].message and right[0].count >= 1


def test_the_list_is_long_and_of_all_kinds():
    assert len(BUGS) >= 40
    assert len({entry.name for entry in BUGS}) == len(BUGS)
    kinds = {kind for entry in BUGS for kind in entry.kinds}
    assert kinds == {"race", "lost_update", "same_value", "barrier", "out_of_bounds", "unset", "limits", "endless"}


@pytest.mark.parametrize(
    "group", ["race", "lost_update", "same_value", "barrier", "out_of_bounds", "unset", "limits", "endless"]
)
def test_faults_are_in_the_list_of_their_kind(group):
    entry = next(e for e in BUGS if e.kinds == (group,))
    report = check(entry, orders=0)
    lists = {"race": "races", "barrier": "divergent_barriers", "unset": "unset_reads", "lost_update": "lost_updates"}
    found = getattr(report, lists.get(group, group))
    assert found and all(fault.kind == group or group == "race" for fault in found)
    if group in ("lost_update", "same_value"):
        assert set(found) <= set(report.races)


@pytest.mark.parametrize("name", ["all_write_one_flag", "all_write_one_scale"])
def test_same_value_is_a_note(name):
    entry = next(e for e in BUGS if e.name == name)
    report = check(entry, orders=0)
    assert {(fault.kind, fault.severity) for fault in report.faults} == {("same_value", "note")}


def harmless_and_not(flag, total, x):
    i = cuda.grid(1)
    flag[0] = float32(1.0)
    total[0] += x[i]


def test_same_value_is_ranked_below_every_other_fault():
    """The note comes last although its line comes first."""
    flag, total, x = (np.zeros(n, np.float32) for n in (1, 1, 64))
    report = kernels.check(harmless_and_not, orders=0)[2, 32](flag, total, x)
    assert [fault.kind for fault in report.faults] == ["lost_update", "same_value"]
    assert [fault.severity for fault in report.faults] == ["error", "note"]


def test_the_thread_the_block_and_the_index_are_named():
    entry = next(e for e in BUGS if e.name == "guard_forgotten")
    fault = check(entry, orders=0).out_of_bounds[0]
    # Thread 36 of block 1 is element 100, the first one that is not there.
    assert fault.array in ("x", "y") and "100" in str(fault.index) and "36" in str(fault.threads)
    assert "1" in str(fault.block)
    assert fault.count == 28 or fault.count == 56


@pytest.mark.parametrize("entry", [e for e in BUGS if e.name in (
    "reverse_without_barrier", "product_without_second_barrier", "sum_into_one_cell", "barrier_under_the_guard",
    "halo_not_loaded", "last_block_without_fence", "stride_never_halved")], ids=lambda e: e.name)  # fmt: skip
def test_a_report_is_the_same_twice_and_three_lines_a_fault(entry):
    first, second = repr(check(entry)), repr(check(entry))
    assert first == second
    assert "0x" not in first and "/tmp" not in first
    report = check(entry, orders=0)
    lines = repr(report).splitlines()
    for fault in report.faults:
        (at,) = [i for i, text in enumerate(lines) if re.search(rf"[^\d]{fault.line}: ", text) and
                 fault.source.strip()[:20] in text][:1]  # fmt: skip
        assert lines[at + 1].startswith(" ") and lines[at + 2].startswith(" ")


ORDER_SHOWS = (
    "reverse_without_barrier",
    "tree_without_barrier_in_loop",
    "scan_in_one_buffer",
    "every_finder_writes_its_place",
    "counter_read_while_it_is_raised",
    "smoothing_in_place",
    "broadcast_again_without_barrier",
)


@pytest.mark.parametrize("name", ORDER_SHOWS)
def test_another_order_of_the_threads_shows_another_result(name):
    entry = next(e for e in BUGS if e.name == name)
    orders = check(entry, orders=4, seed=3).orders
    assert orders.differs and orders.ran >= 2
    assert len(set(map(str, orders.values))) >= 2 and not orders.rounding_only


def test_a_fault_leaves_the_arguments_alone_unless_the_launch_ran_to_its_end():
    for name in ("barrier_under_the_guard", "stride_never_halved", "block_of_2048_threads"):
        entry = next(e for e in BUGS if e.name == name)
        arguments, fresh = entry.arguments(), entry.arguments()
        kernels.check(entry.fn, budget=1_000)[entry.launch](*arguments)
        for found, before in zip(arguments, fresh, strict=True):
            np.testing.assert_array_equal(found, before, err_msg=name)


def test_the_table_of_the_readme_is_of_this_list():
    """Its counts are the list's, and its column for our own check says what the tests above say: all of them."""
    root = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
    section = (root / "README.md").read_text().split("## What can find a wrong kernel")[1].split("`andrea mutants`")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    counts = [(int(row[1]), row[2]) for row in rows[2:]]
    groups = [sum(e.group == group for e in BUGS) for group in dict.fromkeys(e.group for e in BUGS)]
    assert sorted(n for n, _ in counts[:-2]) == sorted(groups)
    assert counts[-2] == (len(BUGS), str(len(BUGS))) and counts[-1] == (len(LEGAL), "0")
    assert all(found == str(n) for n, found in counts[:-1])
