"""The bug log: public reports of lost or wrong checkpoints, and for each what is tried here or why it is not yet.

That the tests it names run is looked up in tests/test_trace.py, which collects them anyway.
"""

import pytest

from tests.trace_rows import BUG_LOG, BUGS, bug_problems, read_bugs

REPORTS, SYMPTOM = ["owner/name#1", "other.owner/na_me-2#29"], "it was gone"
COLLECTED = {"tests/test_x.py::test_a"}


def complete():
    """A log without a fault, over COLLECTED."""
    known = [{"id": n, "reports": REPORTS, "symptom": SYMPTOM} for n in BUGS]
    return [bug | ({"reason": "later"} if bug["id"] % 5 == 0 else {"tests": list(COLLECTED)}) for bug in known]


def test_most_reports_are_tried_and_reasons_are_short():
    bugs = read_bugs(BUG_LOG.read_text())
    assert [bug["id"] for bug in bugs] == list(BUGS)
    assert sum("tests" in bug for bug in bugs) >= 40
    assert all(len(bug["symptom"]) <= 120 and len(bug.get("reason", "")) <= 120 for bug in bugs)


def test_no_report_is_there_twice():
    reports = [report for bug in read_bugs(BUG_LOG.read_text()) for report in bug["reports"]]
    assert len(reports) == len(set(reports)) > 90


def test_a_complete_log_has_no_fault():
    assert bug_problems(complete(), COLLECTED) == []


@pytest.mark.parametrize(
    "change, words",
    [
        ({"tests": []}, "bug 1: no test"),
        ({"tests": ["tests/test_x.py::test_b"]}, "test_b does not run"),
        ({"tests": ["tests/test_x.py"]}, "is neither"),
        ({"tests": ["tests/test_x.py::test_a"] * 2}, "names a test twice"),
        ({"reason": "later"}, "found id, reports, symptom, tests, reason, expected id, reports, symptom and one of"),
        ({"more": 1}, "expected id, reports, symptom and one of tests and reason"),
        ({"symptom": " "}, "bug 1: no symptom"),
        ({"reports": []}, "expected some OWNER/NAME#NUMBER"),
        ({"reports": ["name#1"]}, "reports: found ['name#1'], expected some OWNER/NAME#NUMBER"),
        ({"reports": ["owner/name"]}, "expected some OWNER/NAME#NUMBER"),
    ],
)
def test_a_faulty_row_is_noticed(change, words):
    first, *rest = complete()
    problems = bug_problems([first | change, *rest], COLLECTED)
    assert len(problems) == 1 and words in problems[0]


def test_a_row_without_tests_and_without_a_reason_is_noticed():
    first, *rest = complete()
    del first["tests"]
    assert ["one of tests and reason" in problem for problem in bug_problems([first, *rest], COLLECTED)] == [True]


def test_a_missing_a_doubled_and_an_unknown_row_are_noticed():
    first, second, *rest = complete()
    assert bug_problems([second, *rest], COLLECTED) == ["bug 1: missing"]
    assert bug_problems([first, second, second, *rest], COLLECTED) == ["bug 2: there 2 times"]
    assert bug_problems([first, second, *rest, first | {"id": 51}], COLLECTED) == ["bug 51: no such row"]
