"""A system that has no SIGUSR1: the command line trains there as anywhere, and a stop saves."""

import subprocess
import sys

from andrea_lab.run.losslog import read_log
from tests.proxy.runs import PATIENCE, ROOT, digests, log_of, small

WITHOUT = """
import signal, sys
del signal.SIGUSR1, signal.SIGHUP
from andrea_lab.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_training_and_resuming_need_no_sigusr1(tmp_path):
    (tmp_path / "c.json").write_text(small(tmp_path, steps=4, save_every=2).to_json())
    for call in (["train", tmp_path / "c.json", "--run", tmp_path / "r", "--until", "3"], ["resume", tmp_path / "r"]):
        command = [sys.executable, "-c", WITHOUT, *map(str, call), "--json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert [entry["step"] for entry in read_log(log_of(tmp_path / "r")).entries] == [1, 2, 3, 4]
    assert digests(tmp_path / "r", 4)
