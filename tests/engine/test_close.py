"""The end of an engine that still has a save under way."""

import os
import threading

import pytest

from andrea_lab.checkpoint import save as saving
from andrea_lab.checkpoint.lock import holder
from andrea_lab.checkpoint.saver import Saver
from tests.engine.tiny import config, engine, one


def test_a_close_that_is_interrupted_keeps_the_lock_until_the_save_is_done(tmp_path, monkeypatch):
    real, waiting, may = saving.save, Saver.wait, threading.Event()

    def slow(*args, **options):
        assert may.wait(60)
        return real(*args, **options)

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr("andrea_lab.checkpoint.saver.save", slow)
    made = engine(config(gemm="kernels"), run_dir=tmp_path)
    one(made)
    made.save({"step": 1, "entry": None, "wait": False})
    monkeypatch.setattr(Saver, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.close()
    assert holder(tmp_path, "engine").pid == os.getpid()
    monkeypatch.setattr(Saver, "wait", waiting)
    may.set()
    made.close()
    assert holder(tmp_path, "engine") is None and (tmp_path / "step_000001.bin").is_file()
