"""Every requirement is met somewhere that runs: tests/trace.toml names a test or a notebook cell for each.

Every public bug report of tests/bug_log.toml that can be tried here is tried, too; tests/test_bug_log.py has the rest.
"""

import pytest

from tests.imports import ROOT
from tests.trace_rows import (
    BUG_LOG,
    EXPECTED,
    MOST_CLAIMS,
    TRACE,
    VIEW_CLAIMS,
    VIEW_TABLE,
    bug_problems,
    claim_problems,
    collected_ids,
    read_bugs,
    read_rows,
    table_rows,
    trace_problems,
)


def complete():
    """Rows without a fault, over COLLECTED."""
    return {row: [f"tests/test_x.py::test_{row.replace('-', '_')}"] for row in EXPECTED}


COLLECTED = {claim for claims in complete().values() for claim in claims} | {"notebooks/00_start_here.ipynb::loss"}


@pytest.fixture(scope="module")
def collected():
    """Takes a minute: once for both files."""
    return collected_ids()


def test_every_requirement_has_a_test_that_runs(collected):
    assert trace_problems(read_rows(TRACE.read_text()), collected) == []


def test_every_bug_report_has_a_test_that_runs_or_a_reason(collected):
    assert bug_problems(read_bugs(BUG_LOG.read_text()), collected) == []


def test_every_row_of_the_table_of_live_views_has_a_test_that_runs(collected):
    claims = read_rows(VIEW_CLAIMS.read_text())
    assert list(claims) == table_rows((ROOT / "README.md").read_text(), VIEW_TABLE)
    assert [problem for row, tests in claims.items() for problem in claim_problems(row, tests, collected)] == []


def test_a_complete_trace_has_no_fault():
    rows = complete()
    rows["003-01"].append("notebooks/00_start_here.ipynb#loss")
    assert trace_problems(rows, COLLECTED) == []


@pytest.mark.parametrize(
    "row, claims, words",
    [
        ("003-07", [], "003-07: no test"),
        ("003-07", ["tests/test_x.py::test_99"], "test_99 does not run"),
        ("003-07", ["notebooks/00_start_here.ipynb#gone"], "#gone does not run"),
        ("003-07", ["notebooks/00_start_here.ipynb#Cell 3"], "is neither"),
        ("003-07", ["tests/test_x.py"], "is neither"),
        ("003-07", ["tests/test_x.py::test_003_07"] * 2, "names a test twice"),
        ("003-46", ["tests/test_x.py::test_003_07"], "003-46: no such requirement"),
    ],
)
def test_a_faulty_row_is_noticed(row, claims, words):
    faults = trace_problems({**complete(), row: claims}, COLLECTED)
    assert len(faults) == 1 and words in faults[0]


def test_a_missing_row_is_noticed():
    rows = complete()
    del rows["003-45"]
    assert trace_problems(rows, COLLECTED) == ["003-45: missing"]


def test_a_test_that_claims_too_much_is_noticed():
    shared = "tests/test_x.py::test_000_01"
    rows = {**complete(), **{row: [shared] for row in EXPECTED[:MOST_CLAIMS]}}
    assert trace_problems(rows, COLLECTED) == []
    rows[EXPECTED[MOST_CLAIMS]] = [shared]
    assert trace_problems(rows, COLLECTED) == [f"{shared}: claimed by {MOST_CLAIMS + 1} rows"]


def test_rows_are_plain_toml():
    assert read_rows('003-01 = ["tests/test_x.py::test_003_01"]\n') == {"003-01": ["tests/test_x.py::test_003_01"]}
