"""The file needs nothing of ours: any Python without a single package reads it, and writes one that we take."""

import struct
import subprocess
import sys

import numpy as np

from andrea_lab.checkpoint.load import load
from tests.checkpoint.material import N, arrays, bits, blank, put

READS = """
import array, importlib.util, struct, sys
assert importlib.util.find_spec("numpy") is None
with open(sys.argv[1], "rb") as file:
    step, n = struct.unpack("<ii", file.read(8))
    regions = [array.array("f", file.read(4 * n)) for _ in "wmv"]
    assert file.read() == b""
for region in regions:
    if sys.byteorder == "big":
        region.byteswap()
print(step, n, *(repr(sum(region.tolist())) for region in regions))
"""
WRITES = """
import struct, sys
w, m, v = ([float(i * k) for i in range(24)] for k in (1, -2, 3))
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<ii72f", 41, 24, *w, *m, *v))
"""


def bare(code: str, path) -> str:
    """Run code in a Python that sees no installed package."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_dozen_lines_without_a_package_read_what_we_saved(tmp_path):
    path = put(tmp_path, 112_700, 1).file
    step, n, *sums = bare(READS, path).split()
    assert (int(step), int(n)) == (112_700, N)
    assert [float(total) for total in sums] == [sum(region.tolist()) for region in arrays(1)]


def test_what_three_lines_without_a_package_write_is_a_weight_file(tmp_path):
    path = tmp_path / "step_000041.bin"
    bare(WRITES, path)
    into = blank()
    loaded = load(path, *into)
    assert (loaded.step, loaded.verified) == (41, False)
    assert bits(into) == struct.pack("<72f", *(float(i * k) for k in (1, -2, 3) for i in range(24)))
    assert np.array_equal(into[2], 3 * np.arange(24))
