"""Every requirement is met somewhere that runs: tests/trace.toml names a test or a notebook cell for each."""

import pytest

from tests.trace_rows import EXPECTED, MOST_CLAIMS, TRACE, collected_ids, read_rows, trace_problems

COLLECTED = {f"tests/test_x.py::test_{row[-2:]}" for row in EXPECTED} | {"notebooks/00_start_here.ipynb::loss"}


def complete():
    """Rows without a fault, over COLLECTED."""
    return {row: [f"tests/test_x.py::test_{row[-2:]}"] for row in EXPECTED}


def test_every_requirement_has_a_test_that_runs():
    assert trace_problems(read_rows(TRACE.read_text()), collected_ids()) == []


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
        ("003-07", ["tests/test_x.py::test_07"] * 2, "names a test twice"),
        ("003-46", ["tests/test_x.py::test_07"], "003-46: no such requirement"),
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
    shared = "tests/test_x.py::test_01"
    rows = {**complete(), **{row: [shared] for row in EXPECTED[:MOST_CLAIMS]}}
    assert trace_problems(rows, COLLECTED) == []
    rows[EXPECTED[MOST_CLAIMS]] = [shared]
    assert trace_problems(rows, COLLECTED) == [f"{shared}: claimed by {MOST_CLAIMS + 1} rows"]


def test_rows_are_plain_toml():
    assert read_rows('003-01 = ["tests/test_x.py::test_01"]\n') == {"003-01": ["tests/test_x.py::test_01"]}
