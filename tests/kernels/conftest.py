"""Kernel tests share plain modules of this folder (judges, cases, suite)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
