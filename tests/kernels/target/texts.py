"""What the tests of the targets share: kernels from text, as modules of their own."""

import importlib.util
import itertools
import os

GIVEN = os.environ.get("ANDREA_CACHE")
numbers = itertools.count()
HEADER = """import math
import numpy as np
from numba import cuda, float32, float64, int32, int64
from kernels.target import device, kernel
"""


def load(path, name=None):
    """Import a file as a module."""
    name = name or f"kernels_of_test_{next(numbers)}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
