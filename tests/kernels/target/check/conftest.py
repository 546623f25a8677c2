"""Tests of the check target share the lists beside them, and the compile cache with the tests of the kernels."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
GIVEN = os.environ.get("ANDREA_CACHE")


@pytest.fixture(scope="session", autouse=True)
def own_cache():
    """Not a cache of one's own, as the tests of the CPU target have: what is compiled here is the shipped kernels."""
    with pytest.MonkeyPatch.context() as patch:
        if GIVEN is None:
            patch.delenv("ANDREA_CACHE", raising=False)
        else:
            patch.setenv("ANDREA_CACHE", GIVEN)
        yield
