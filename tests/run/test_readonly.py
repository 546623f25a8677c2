"""A folder that may not be written to, or not be entered: one clear error, and nothing is changed."""

import os
import shutil
from pathlib import Path

import pytest

from andrea_lab.checkpoint.lock import LockError, RunLock, holder
from andrea_lab.run import samples, segments
from andrea_lab.run.directory import RunDirectory, RunError
from andrea_lab.run.losslog import LogError, LossLog, last_entry, read_log
from andrea_lab.run.state import read_state, write_state
from tests.reachable import reachable_folder

NOBODY = 65534  # a user without rights, for when the tests run as one who has them all


@pytest.fixture(params=[0o555, 0o444, 0], ids=["no writing", "no entering", "nothing"])
def shut(request):
    """A run with one logged step in a folder of these rights, seen by a user who has no others."""
    top = Path(reachable_folder())
    run = RunDirectory.create(top / "r", "{}")
    with LossLog(run.log) as log:
        log.append({"step": 1, "segment": 1, "loss": 1.0})
    run.path.chmod(request.param)
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield run, request.param == 0o555
    finally:
        if root:
            os.seteuid(0)
        run.path.chmod(0o755)
        names = sorted(file.name for file in run.path.iterdir())
        shutil.rmtree(top)
    assert names == ["config.json", "proxy.lock", "r.loss.json"]


def test_writing_is_refused_with_the_name_of_what_could_not_be_written(shut):
    run, _ = shut
    with pytest.raises(LockError, match=r"engine\.lock: found Permission denied, expected a folder where a lock"):
        RunLock(run.path, "engine").acquire()
    state = {"step": 1, "segment": 1, "log_bytes": 0, "policy": "x", "chooser": {}}
    sample = dict(step=1, segment=1, prompt="", tokens=1, temperature=1.0, seed=1, text="")
    for write in (
        lambda: LossLog(run.log),
        lambda: write_state(run, state),
        lambda: samples.append(run, sample),
        lambda: RunDirectory.create(run.path / "new", "{}"),
    ):
        with pytest.raises(PermissionError, match=str(run.path)):
            write()


def test_reading_works_or_names_what_could_not_be_read(shut):
    run, may_enter = shut
    if may_enter:
        assert last_entry(run.log)["step"] == 1 and read_state(run) is None and segments.read(run) == []
        assert holder(run.path, "engine") is None
        return
    for read, error in (
        (lambda: last_entry(run.log), LogError),
        (lambda: read_log(run.log), LogError),
        (lambda: read_state(run), RunError),
        (lambda: segments.read(run), RunError),
        (lambda: samples.read(run), RunError),
    ):
        with pytest.raises(error, match="found Permission denied, expected"):
            read()
    assert holder(run.path, "engine") is None
