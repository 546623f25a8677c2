"""Reads tests/trace.toml and checks it against the tests that exist."""

import re
import subprocess
import sys
import tomllib
from collections import Counter

from tests.imports import ROOT

TRACE = ROOT / "tests" / "trace.toml"
EXPECTED = [f"003-{number:02d}" for number in range(1, 46)]
MOST_CLAIMS = 4


def read_rows(text):
    """{requirement: [test ids]} from the text of a trace file."""
    return tomllib.loads(text)


def node_id(claim):
    """A claim as pytest names it: `notebooks/x.ipynb#tag` is the test `notebooks/x.ipynb::tag`."""
    return claim.replace(".ipynb#", ".ipynb::")


def collected_ids():
    """Every test of the project, slow ones and notebook cells included, without parameters in brackets."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return {re.sub(r"\[.*\]$", "", line) for line in done.stdout.splitlines() if "::" in line}


def trace_problems(rows, collected):
    """What is wrong with the rows, one line each."""
    problems = [f"{row}: missing" for row in EXPECTED if row not in rows]
    problems += [f"{row}: no such requirement" for row in rows if row not in EXPECTED]
    problems += [f"{row}: no test" for row, claims in rows.items() if not claims]
    for row, claims in rows.items():
        for claim in claims:
            if not re.fullmatch(r"tests/[\w/]+\.py::\w+(::\w+)?|notebooks/\w+\.ipynb#[a-z][a-z0-9-]*", claim):
                problems.append(f"{row}: {claim} is neither tests/FILE.py::TEST nor notebooks/NAME.ipynb#tag")
            elif node_id(claim) not in collected:
                problems.append(f"{row}: {claim} does not run")
        if len(set(claims)) < len(claims):
            problems.append(f"{row}: names a test twice")
    uses = Counter(claim for claims in rows.values() for claim in set(claims))
    return problems + [f"{claim}: claimed by {n} rows" for claim, n in uses.items() if n > MOST_CLAIMS]
