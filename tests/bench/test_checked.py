"""`bench check` on one run of each side, and what it does with a kernel that is wrong."""

import json

import numpy as np
import pytest

from andrea_lab.bench import checked
from andrea_lab.bench.server import BenchError


def test_a_quick_run():
    result = checked.run(quick=True)
    json.dumps(result, allow_nan=False)
    assert [x["name"] for x in result["launches"]] == list(checked.CASES)
    assert all(x["check_s"] > 0 and x["orders_s"] > 0 and x["simulator_s"] > 0 for x in result["launches"])
    assert checked.figures(result).markdown().count("\n| ") == 2 + len(checked.CASES)
    assert checked.figures(result).rich().row_count == len(checked.CASES)


def test_a_launch_with_a_fault_is_not_timed(monkeypatch):
    k, config, args, out, expected = checked._rows_case()
    broken = (*args[:4], args[4] + 1, args[5])  # one column too many
    with pytest.raises(BenchError, match="out of bounds"):
        checked._measure("rows", k, config, broken, out, expected, 0)


def test_a_launch_with_a_wrong_result_is_not_timed():
    k, config, args, out, expected = checked._rows_case()
    with pytest.raises(BenchError, match="relative error"):
        checked._measure("rows", k, config, args, out, expected + np.float64(1e-3), 0)
