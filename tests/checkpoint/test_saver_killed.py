"""Savers that are killed, in tests' doubles and for real, and one whose process ends with a save under way."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from andrea_lab.checkpoint.files import sweep
from andrea_lab.checkpoint.saver import Saver
from andrea_lab.checkpoint.single import file_name, step_of
from andrea_lab.checkpoint.verify import scan
from tests.checkpoint.faults import CHANGES, Crash, Crashing, Watched
from tests.checkpoint.material import N, arrays, bits, names, newest_good

LONG = 60  # seconds that no wait here ever takes


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("rotate, keep", [("after", 1), ("after", 2), ("before", 1), ("before", 2)])
def test_killed_anywhere_in_save_and_rotation_the_last_verified_loads(tmp_path, rotate, keep, wait):
    def run(folder, files):
        """Two saves and, on `files`, a third; then what a start after the kill does, and a fourth."""
        folder.mkdir()
        options = {"keep": keep, "rotate": rotate}
        first = Saver(folder, N, **options)
        for step in (1, 2):
            first.save(step, *arrays(step))
        third = Saver(folder, N, files=files, **options)
        third.save(3, *arrays(3), wait=wait)
        third.wait()

    watched = Watched(CHANGES)
    run(tmp_path / "whole", watched)
    assert len(watched.ops) > 10 and [step_of(path.name) for path in scan(tmp_path / "whole")] == [2, 3][-keep:]
    for at in range(1, len(watched.ops) + 1):
        folder = tmp_path / str(at)
        with pytest.raises(Crash):
            run(folder, Crashing(at, "after" if at % 2 else "before"))
        step, found, loaded = newest_good(folder)
        assert step in (2, 3) and found == bits(arrays(step)) and loaded.verified, f"operation {at}"
        sweep(folder)
        again = Saver(folder, N, keep=keep, rotate=rotate)
        for step in (3, 4):
            again.save(step, *arrays(step))
        assert names(folder) == [f"{file_name(s)}{e}" for s in (3, 4)[-keep:] for e in ("", ".sum")]


CHILD = """
import sys, numpy as np
from pathlib import Path
from andrea_lab.checkpoint.saver import Saver
n, folder = int(sys.argv[2]), Path(sys.argv[1])
{body}
"""
RESIDENT = """
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
before = resident()
saver = Saver(folder, n)
print((resident() - before) / (12 * n))
"""
LEAVING = """
import threading, time
from andrea_lab.checkpoint.files import Files
class Late(Files):
    def free(self, path):  # the first thing a save does: here not before the process has begun to end
        while threading.main_thread().is_alive():
            time.sleep(0.001)
        return super().free(path)
one = np.ones(n, np.float32)
Saver(folder, n, files=Late()).save(1, one, one, one, wait=False)
"""

SAVING = """
saver = Saver(folder, n, keep=1)
for step in range(int(sys.argv[3]), 10**6):
    live = np.full(n, step, np.float32)
    saver.save(step, live, live, live, wait=False)
    live.fill(-1)
    saver.wait()
    print(step, flush=True)
"""
ROOT = Path(__file__).resolve().parents[2]


def command(body, *arguments) -> list[str]:
    return [sys.executable, "-c", CHILD.format(body=body), *map(str, arguments)]


def child(body, folder, n) -> str:
    done = subprocess.run(command(body, folder, n), cwd=ROOT, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def test_the_memory_of_the_copy_is_there_before_the_first_save(tmp_path):
    assert 0.98 < float(child(RESIDENT, tmp_path, 4_000_000)) < 1.1


def test_a_process_that_ends_without_closing_still_saves(tmp_path):
    child(LEAVING, tmp_path, 3_000_000)
    step, found, loaded = newest_good(tmp_path, 3_000_000)
    assert step == 1 and loaded.verified and found == bits([np.ones(3_000_000, np.float32)] * 3)


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.full)])
def test_killed_for_real_at_any_time_what_was_acknowledged_loads(tmp_path, kills):
    """One checkpoint is kept; a process saves without pause and is killed, again and again, in one folder."""
    n, step, rng = 300_000, 0, np.random.default_rng(kills)
    for _ in range(kills):
        with subprocess.Popen(command(SAVING, tmp_path, n, step + 1), cwd=ROOT, stdout=subprocess.PIPE) as process:
            lines = [process.stdout.readline() for _ in range(rng.integers(1, 4))]
            time.sleep(rng.uniform(0, 0.03))
            process.kill()
            lines += process.stdout.readlines()
        acknowledged = int([line for line in lines if line.endswith(b"\n")][-1])
        step, found, loaded = newest_good(tmp_path, n)
        assert step in (acknowledged, acknowledged + 1) and loaded.verified
        assert found == bits([np.full(n, step, np.float32)] * 3)
        sweep(tmp_path)
        assert len(scan(tmp_path)) <= 2 and len(os.listdir(tmp_path)) <= 5
