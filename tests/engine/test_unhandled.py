"""SIGTERM in the middle of a step: without a handler the work since the last file is gone, with one nothing is."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from andrea_lab.checkpoint.verify import survey

ROOT = Path(__file__).parents[2]

LOOP = """
import os, signal, sys
from contextlib import nullcontext
from pathlib import Path
from andrea_lab.engine.engine import Engine
from andrea_lab.engine.signals import Signals
from tests.engine.tiny import sums

class Struck(Engine):
    def _load(self, *args):
        if self.done == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return super()._load(*args)

folder, handled = Path(sys.argv[1]), sys.argv[2] == "handled"
(folder / "run").mkdir()
with Signals() if handled else nullcontext() as signals:
    made = Struck(sums(folder), run_dir=folder / "run", signals=signals)
    for step in range(1, 9):
        want = made.step({"step": step, "source": "sums", "draw": step - 1})["want"]
        print("did", step, flush=True)
        if step % 3 == 0 or "stop" in want:
            made.save({"step": step, "entry": None})
        if "stop" in want:
            break
    made.close()
"""


@pytest.mark.parametrize(
    ("handled", "code", "done", "saved"), [(False, -signal.SIGTERM, 4, 3), (True, 0, 5, 5)], ids=["default", "handled"]
)
def test_a_signal_in_a_step_costs_what_was_not_saved_unless_it_is_handled(tmp_path, handled, code, done, saved):
    command = [sys.executable, "-c", LOOP, tmp_path, "handled" if handled else "default"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (code, "")
    assert ended.stdout.split("\n")[-2] == f"did {done}"
    found = survey(tmp_path / "run")
    assert (found[-1].step, found[-1].verdict) == (saved, "committed")
