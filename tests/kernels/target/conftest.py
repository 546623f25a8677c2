"""Tests of the targets: kernels from text, a compile cache of their own, the CPU target."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from texts import HEADER, load, numbers


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Nothing here reads or writes the user's cache."""
    patch = pytest.MonkeyPatch()
    patch.setenv("ANDREA_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def on_cpu():
    from kernels.target import use

    with use("cpu"):
        yield


@pytest.fixture
def write(tmp_path):
    """write(text): a module with the usual imports and that text."""

    def make(text, header=HEADER):
        path = tmp_path / f"k{next(numbers)}.py"
        path.write_text(header + text)
        return load(path)

    return make
