"""What the bits of a step hang on besides the configuration, for the records of a run."""

import os
import platform
from importlib.metadata import version
from typing import Any

from andrea_lab.model.config import Config
from kernels.target import current, threads
from kernels.target.processor import processor

FEATURES = ("avx2", "fma", "avx512f", "neon", "sve")  # what the order of sums may hang on
PACKAGES = ("numpy", "numba", "llvmlite")


def machine(config: Config) -> dict[str, Any]:
    """Target, who multiplies matrices, processor with its vector features, versions, threads, process."""
    name, features = processor()
    present = [feature for feature in FEATURES if f"+{feature}" in features.split(",")]
    versions = {"python": platform.python_version()} | {package: version(package) for package in PACKAGES}
    facts = {"target": current(), "gemm": config.train.gemm, "cpu": f"{name} {'+'.join(present)}".strip()}
    return facts | {"versions": versions, "threads": threads(), "pid": os.getpid()}
