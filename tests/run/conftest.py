"""A run directory without a run."""

import pytest

from andrea_lab.run.directory import RunDirectory


@pytest.fixture
def run(tmp_path):
    """The run directory `r`, new, its configuration empty."""
    return RunDirectory.create(tmp_path / "r", "{}")
