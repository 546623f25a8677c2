"""Reads tests/trace.toml and tests/bug_log.toml and checks them against the tests that exist."""

import re
import subprocess
import sys
import tomllib
from collections import Counter

from tests.imports import ROOT

TRACE = ROOT / "tests" / "trace.toml"
BUG_LOG = ROOT / "tests" / "bug_log.toml"
VIEW_CLAIMS = ROOT / "tests" / "view_claims.toml"
VIEW_TABLE = "### Beside other tools"
EXPECTED = [f"000-{number:02d}" for number in (*range(1, 29), *range(37, 53))]
EXPECTED += [f"003-{number:02d}" for number in (*range(1, 46), 49, 53, 54, 55)]
MOST_CLAIMS = 4
BUGS = range(1, 51)
REPORT = re.compile(r"[\w.-]+/[\w.-]+#[1-9][0-9]*")


def read_rows(text):
    """{requirement: [test ids]} from the text of a trace file."""
    return tomllib.loads(text)


def read_bugs(text):
    """[{id, reports, symptom, and tests or reason}] from the text of a bug log."""
    return tomllib.loads(text)["bug"]


def table_rows(text, heading):
    """The first cells of the first table below a heading of the README, its head left out."""
    lines = iter(text.partition(f"\n{heading}\n")[2].splitlines())
    table = []
    for line in lines:
        if line.startswith("|"):
            table.append(line.split("|")[1].strip())
        elif table:
            break
    return table[2:]


def node_id(claim):
    """A claim as pytest names it: `notebooks/x.ipynb#tag` is the test `notebooks/x.ipynb::tag`."""
    return claim.replace(".ipynb#", ".ipynb::")


def collected_ids():
    """Every test of the project, slow ones and notebook cells included, without parameters in brackets."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return {re.sub(r"\[.*\]$", "", line) for line in done.stdout.splitlines() if "::" in line}


def claim_problems(row, claims, collected):
    """What is wrong with the tests that a row names, one line each."""
    problems = [] if claims else [f"{row}: no test"]
    for claim in claims:
        if not re.fullmatch(r"tests/[\w/]+\.py::\w+(::\w+)?|notebooks/\w+\.ipynb#[a-z][a-z0-9-]*", claim):
            problems.append(f"{row}: {claim} is neither tests/FILE.py::TEST nor notebooks/NAME.ipynb#tag")
        elif node_id(claim) not in collected:
            problems.append(f"{row}: {claim} does not run")
    return problems + ([f"{row}: names a test twice"] if len(set(claims)) < len(claims) else [])


def trace_problems(rows, collected):
    """What is wrong with the rows, one line each."""
    problems = [f"{row}: missing" for row in EXPECTED if row not in rows]
    problems += [f"{row}: no such requirement" for row in rows if row not in EXPECTED]
    for row, claims in rows.items():
        problems += claim_problems(row, claims, collected)
    uses = Counter(claim for claims in rows.values() for claim in set(claims))
    return problems + [f"{claim}: claimed by {n} rows" for claim, n in uses.items() if n > MOST_CLAIMS]


def bug_problems(bugs, collected):
    """What is wrong with the bug log, one line each."""
    ids = Counter(bug.get("id") for bug in bugs)
    problems = [f"bug {n}: missing" for n in BUGS if n not in ids]
    problems += [f"bug {n}: no such row" for n in ids if n not in BUGS]
    problems += [f"bug {n}: there {times} times" for n, times in ids.items() if times > 1]
    for bug in bugs:
        row = f"bug {bug.get('id')}"
        reports = bug.get("reports", [])
        if not reports or not all(REPORT.fullmatch(report) for report in reports):
            problems.append(f"{row}: reports: found {reports}, expected some OWNER/NAME#NUMBER")
        problems += [f"{row}: no {field}" for field in ("symptom", "reason") if not bug.get(field, "x").strip()]
        if set(bug) not in ({"id", "reports", "symptom", "tests"}, {"id", "reports", "symptom", "reason"}):
            found = ", ".join(bug)
            problems.append(f"{row}: found {found}, expected id, reports, symptom and one of tests and reason")
        if "tests" in bug:
            problems += claim_problems(row, bug["tests"], collected)
    return problems
