"""A folder for tests that sync a thousand times."""

import os
import tempfile
from pathlib import Path

import pytest

MEMORY = "/dev/shm"


@pytest.fixture
def quick_path(tmp_path):
    """A new folder in memory, where the system has one: there a sync takes no time. Else one on the disk."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)
