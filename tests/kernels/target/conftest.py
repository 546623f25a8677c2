"""Tests of the targets: kernels from text, a compile cache of their own, the CPU target."""

import importlib.util
import itertools
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

GIVEN = os.environ.get("ANDREA_CACHE")
_numbers = itertools.count()
HEADER = """import math
import numpy as np
from numba import cuda, float32, float64, int32, int64
from kernels.target import device, kernel
"""


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


def load(path, name=None):
    """Import a file as a module."""
    name = name or f"kernels_of_test_{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def write(tmp_path):
    """write(text): a module with the usual imports and that text."""

    def make(text, header=HEADER):
        path = tmp_path / f"k{next(_numbers)}.py"
        path.write_text(header + text)
        return load(path)

    return make
