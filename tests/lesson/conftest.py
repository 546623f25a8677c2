"""Every test has a score card of its own; tests share plain modules of this folder (learners)."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def score_card(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDREA_PROGRESS", str(tmp_path / "progress"))
    return tmp_path / "progress"
