"""The engine and its run directory: what a resume finds, what a save leaves, what goes wrong on the way."""

import hashlib
import os
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest

from andrea_lab.checkpoint import save as saving
from andrea_lab.checkpoint.lock import LockError, RunLock, holder
from andrea_lab.checkpoint.save import SaveError
from andrea_lab.checkpoint.single import CheckpointError
from andrea_lab.checkpoint.sums import read_sum
from andrea_lab.engine import engine as engine_module
from andrea_lab.engine import store as store_module
from andrea_lab.engine.errors import EngineError
from andrea_lab.engine.signals import Aborted, Signals, Stopped
from tests.engine.tiny import config, engine, one, vectors

CONFIG = config(gemm="kernels", keep=0)


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "engine.lock")


def run(folder, steps: int, **options):
    """An engine that has done and saved some steps, closed."""
    made = engine(CONFIG, run_dir=folder, **options)
    for step in range(made.done + 1, made.done + steps + 1):
        one(made)
        made.save({"step": step, "entry": {"step": step, "segment": 3, "loss": 0.5}})
    made.close()
    return made


def flip(path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def shas(made) -> dict[str, str]:
    return {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in vectors(made).items()}


# ---------------------------------------------------------------------------------------------------- resume


def test_a_resume_goes_on_from_the_newest_with_the_same_bits(tmp_path):
    run(tmp_path, 2)
    whole, again = engine(CONFIG), engine(CONFIG, run_dir=tmp_path, resume=True)
    for _ in range(2):
        one(whole)
    digest = hashlib.sha256((tmp_path / "step_000002.bin").read_bytes()).hexdigest()
    expected = {"file": "step_000002.bin", "step": 2, "sha256": digest, "verified": True, "reason": ""}
    expected |= {"entry": {"step": 2, "segment": 3, "loss": 0.5}, "rejected": []}
    assert again.loaded == expected | {"config": hashlib.sha256(CONFIG.to_json().encode()).hexdigest()}
    assert again.done == 2 and one(again)["loss"] == one(whole)["loss"]
    assert shas(again) == shas(whole)
    again.close()


def test_a_resume_walks_back_over_what_does_not_pass_and_says_why(tmp_path):
    run(tmp_path, 4)
    flip(tmp_path / "step_000004.bin", 8 + 4 * 7)
    (tmp_path / "step_000003.bin").write_bytes((tmp_path / "step_000003.bin").read_bytes()[:-1])
    (tmp_path / "step_000009.bin").write_bytes(b"")
    (tmp_path / "step_000010.bin").mkdir()
    before = names(tmp_path)
    made = engine(CONFIG, run_dir=tmp_path, resume=True)
    assert (made.done, made.loaded["file"]) == (2, "step_000002.bin")
    rejected = [(each["file"], each["verdict"]) for each in made.loaded["rejected"]]
    assert rejected == [("step_000009.bin", "torn"), ("step_000004.bin", "flipped"), ("step_000003.bin", "torn")]
    assert "w wte" in made.loaded["rejected"][1]["reason"]
    assert names(tmp_path) == before, "nothing is removed for being damaged"
    made.close()


def test_a_file_without_its_sum_loads_and_is_called_unverified(tmp_path):
    run(tmp_path, 1)
    (tmp_path / "step_000001.bin.sum").unlink()
    made = engine(CONFIG, run_dir=tmp_path, resume=True)
    assert (made.loaded["verified"], made.loaded["entry"], made.done) == (False, None, 1)
    assert "found no sum" in made.loaded["reason"]
    made.close()


def test_a_run_never_begins_anew_by_itself(tmp_path):
    with pytest.raises(EngineError, match="found no checkpoint that loads \\(no step_NNNNNN.bin\\), expected one"):
        engine(CONFIG, run_dir=tmp_path, resume=True)
    run(tmp_path, 1)
    flip(tmp_path / "step_000001.bin", 100)
    with pytest.raises(EngineError, match=r"found no checkpoint that loads \(.*step_000001.bin: w wte: found other"):
        engine(CONFIG, run_dir=tmp_path, resume=True)
    assert holder(tmp_path, "engine") is None, "an engine that was not made holds no lock"
    with pytest.raises(EngineError, match="resume: found no run_dir"):
        engine(CONFIG, resume=True)


def test_weights_of_another_model_do_not_pass(tmp_path):
    run(tmp_path, 1)
    with pytest.raises(EngineError, match="found 41856 parameters, expected 33632"):
        engine(config(tied=True), run_dir=tmp_path, resume=True)


def test_litter_of_a_killed_process_is_swept_by_the_next_engine(tmp_path):
    run(tmp_path, 1)
    (tmp_path / ".step_000002.bin.4194304999-0.tmp").write_bytes(b"half")
    engine(CONFIG, run_dir=tmp_path, resume=True).close()
    assert names(tmp_path) == ["step_000001.bin", "step_000001.bin.sum"]


def test_a_directory_has_one_engine(tmp_path):
    first = engine(CONFIG, run_dir=tmp_path)
    other = engine(CONFIG, run_dir=tmp_path)
    one(first)
    with pytest.raises(LockError, match=rf"found engine {os.getpid()} .*expected no other"):
        one(other)
    assert other.done == 0
    with pytest.raises(LockError):
        engine(CONFIG, run_dir=tmp_path, resume=True)
    first.close()
    assert one(other)["step"] == 1
    other.close()


OTHER = 2**22 + 1  # a process number that no system gives


@pytest.mark.parametrize(
    ("engine_pid", "proxy_pid", "waits"),
    [
        (OTHER, None, True),
        (OTHER, os.getpid(), True),
        (OTHER, os.getppid(), True),
        (OTHER, OTHER + 1, False),
        (os.getpid(), None, False),
    ],
    ids=["no-proxy", "proxy-is-ours", "proxy-is-our-parents", "proxy-of-its-own", "engine-is-ours"],
)
def test_a_resume_waits_for_an_engine_whose_proxy_is_gone(tmp_path, monkeypatch, engine_pid, proxy_pid, waits):
    """It may be saving. One whose proxy is another process is at work, and one in this process will not end."""
    run(tmp_path, 1)
    pids = {"engine": engine_pid, "proxy": proxy_pid}
    monkeypatch.setattr(store_module, "holder", lambda _, role: pids[role] and SimpleNamespace(pid=pids[role]))
    orphan, looks = RunLock(tmp_path, "engine").acquire(), []

    def poll():
        looks.append(1)
        if len(looks) == 3:
            orphan.release()
        return []

    if waits:
        made = engine(CONFIG, run_dir=tmp_path, resume=True, poll=poll)
        assert made.done == 1
        made.close()
    else:
        with pytest.raises(LockError, match="expected no other"):
            engine(CONFIG, run_dir=tmp_path, resume=True, poll=poll)
        assert not looks
    orphan.release()


@pytest.mark.parametrize("looks", [0, 1, 12])
def test_a_stop_while_it_loads_or_compiles_writes_nothing_and_lets_go(tmp_path, looks):
    run(tmp_path, 2)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    seen = []

    def poll():
        seen.append(1)
        return ["stop"] if len(seen) > looks else []

    with pytest.raises(Stopped, match="nothing was written"):
        engine(CONFIG, run_dir=tmp_path, resume=True, poll=poll)
    assert len(seen) == looks + 1, "it ended at the first look that said so"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert holder(tmp_path, "engine") is None


def test_an_engine_is_polled_between_the_kernels_it_compiles_and_the_pieces_it_loads(tmp_path, monkeypatch):
    run(tmp_path, 1)
    seen = []
    made = engine(CONFIG, run_dir=tmp_path, poll=lambda: seen.append(1) or [])
    assert len(seen) > 10 * CONFIG.model.layers
    seen.clear()
    made.load(tmp_path / "step_000001.bin")
    assert len(seen) >= 3
    seen.clear()
    made.sample({"prompt": "", "tokens": 4, "temperature": 0.0, "seed": 1})
    assert len(seen) >= 4
    seen.clear()
    made.evaluate({"source": "noise", "batches": 3})
    assert len(seen) == 3
    seen.clear()
    one(made)
    made.save({"step": 2, "entry": {}})
    assert len(seen) >= 1 + 2 + 3
    made.close()


# ---------------------------------------------------------------------------------------------------- saves


def test_a_save_in_the_background_has_the_bytes_of_its_call(tmp_path):
    made = engine(CONFIG, run_dir=tmp_path)
    one(made)
    held = vectors(made)
    assert made.save({"step": 1, "entry": None, "wait": False}) == {"file": "step_000001.bin", "sha256": None}
    for name in ("weights", "m", "v"):
        made.arena.view(name)[...] = 0.25
    made.done = 2
    made.save({"step": 2, "entry": None})
    made.close()
    data = (tmp_path / "step_000001.bin").read_bytes()
    assert data[8:] == b"".join(held[name].tobytes() for name in ("weights", "m", "v"))


def test_a_step_is_saved_once_and_the_sum_holds_its_entry(tmp_path):
    made = engine(CONFIG, run_dir=tmp_path)
    one(made)
    entry = {"step": 1, "segment": 2, "loss": 5.5}
    assert made.save({"step": 1, "entry": entry, "wait": False})["sha256"] is None
    saved = made.save({"step": 1, "entry": entry})
    assert saved == made.save({"step": 1, "entry": entry, "wait": False}) and len(saved["sha256"]) == 64
    made.close()
    found = read_sum(tmp_path / "step_000001.bin")
    assert (found.entry, found.segment, found.sha256) == (entry, 2, saved["sha256"])
    assert found.config == hashlib.sha256(CONFIG.to_json().encode()).hexdigest()
    assert {"w wte", "m layer0.W_Q", "v ln_f.beta"} <= {part[0] for part in found.parts}
    assert names(tmp_path) == ["step_000001.bin", "step_000001.bin.sum"]


def test_a_load_waits_for_the_save_before_it(tmp_path):
    made = engine(CONFIG, run_dir=tmp_path)
    one(made)
    before = shas(made)
    made.save({"step": 1, "entry": None, "wait": False})
    assert made.load(tmp_path / "step_000001.bin") == 1
    assert shas(made) == before and made.loaded["verified"]
    made.close()


def test_old_checkpoints_go_as_the_configuration_says(tmp_path):
    made = engine(config(gemm="kernels", keep=2), run_dir=tmp_path)
    for step in range(1, 6):
        one(made)
        made.save({"step": step, "entry": None, "wait": False})
    made.close()
    assert [name for name in names(tmp_path) if name.endswith(".bin")] == ["step_000004.bin", "step_000005.bin"]


def broken(monkeypatch, times: int):
    """Let the next `times` saves fail."""
    real, left = saving.save, [times]

    def fail(*args, **options):
        if left[0]:
            left[0] -= 1
            raise SaveError("step_000001.bin: found No space left on device, expected room")
        return real(*args, **options)

    monkeypatch.setattr("andrea_lab.checkpoint.saver.save", fail)


@pytest.mark.parametrize("hears", ["step", "save", "close", "evaluate", "load"])
def test_a_failed_save_in_the_background_is_heard_by_the_next_call(tmp_path, monkeypatch, hears):
    made = engine(CONFIG, run_dir=tmp_path)
    one(made)
    broken(monkeypatch, 1)
    made.save({"step": 1, "entry": None, "wait": False})
    while made.store._saver.pending:
        time.sleep(0.01)
    calls = {
        "step": lambda: one(made),
        "save": lambda: made.save({"step": 1, "entry": None}),
        "close": made.close,
        "evaluate": lambda: made.evaluate({"source": "noise", "batches": 1}),
        "load": lambda: made.load(tmp_path / "step_000001.bin"),
    }
    with pytest.raises(SaveError, match="No space left"):
        calls[hears]()
    if hears != "close":
        assert made.done == 1 and len(made.save({"step": 1, "entry": None})["sha256"]) == 64, "asked again it is saved"
    made.close()


def test_a_run_that_is_to_go_on_notes_failed_saves_and_goes_on(tmp_path, monkeypatch):
    made = engine(config(gemm="kernels", save_errors="go_on"), run_dir=tmp_path)
    one(made)
    broken(monkeypatch, 2)
    made.save({"step": 1, "entry": None, "wait": False})
    one(made)
    with pytest.raises(SaveError):
        made.save({"step": 2, "entry": None})  # this one itself, which was waited for
    assert len(made.save_errors) == 1 and "No space left" in made.save_errors[0]
    made.save({"step": 2, "entry": None, "wait": False})
    made.close()
    assert [name for name in names(tmp_path) if name.endswith(".bin")] == ["step_000002.bin"]


def test_an_interruption_in_an_update_is_not_saved_or_trained_on(tmp_path, monkeypatch):
    made = engine(CONFIG, run_dir=tmp_path)
    one(made)
    made.save({"step": 1, "entry": None})
    real = engine_module.run

    def interrupted(launches, **options):
        if launches is made._update:
            real(launches[:1])
            raise KeyboardInterrupt
        real(launches, **options)

    monkeypatch.setattr(engine_module, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one(made)
    monkeypatch.setattr(engine_module, "run", real)
    for call in (lambda: one(made), lambda: made.save({"step": 1, "entry": None})):
        with pytest.raises(EngineError, match="broken off after step 1, expected a load"):
            call()
    made.load(tmp_path / "step_000001.bin")
    assert one(made)["step"] == 2
    flip(tmp_path / "step_000001.bin", 3000)
    with pytest.raises(CheckpointError):
        made.load(tmp_path / "step_000001.bin")
    with pytest.raises(EngineError, match="expected a load"):
        one(made)
    made.close()


def test_an_interruption_in_a_microbatch_leaves_no_gradient_behind(monkeypatch):
    made, twin = engine(CONFIG), engine(CONFIG)
    real = engine_module.run

    def interrupted(launches, **options):
        real(launches, **options)
        if launches is made._microbatch:
            raise KeyboardInterrupt

    monkeypatch.setattr(engine_module, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one(made)
    monkeypatch.setattr(engine_module, "run", real)
    one(made), one(twin)
    assert shas(made) == shas(twin)


# ---------------------------------------------------------------------------------------------------- signals


def test_sigusr1_changes_no_bit_and_makes_one_file_each(tmp_path):
    quiet = engine(CONFIG)
    for _ in range(6):
        one(quiet)
    with Signals() as signals:
        made = engine(CONFIG, run_dir=tmp_path, signals=signals)
        for step in range(1, 7):
            for _ in range(step % 4):
                os.kill(os.getpid(), signal.SIGUSR1)
            result = one(made)
            assert result["want"] == (["save"] if step % 4 else [])
            if result["want"]:
                made.save({"step": step, "entry": None, "wait": step % 2 == 0})
            assert signals.poll() == [], "the wish is met"
        left = shas(made)
        made.close()
    again = engine(CONFIG, run_dir=tmp_path, resume=True)
    assert left == shas(again) == shas(quiet)
    again.close()
    saved = [f"step_00000{step}.bin" for step in (1, 2, 3, 5, 6)]
    assert [name for name in names(tmp_path) if name.endswith(".bin")] == saved


def test_sigusr1_then_sigterm_is_one_file_of_one_step(tmp_path):
    with Signals() as signals:
        made = engine(CONFIG, run_dir=tmp_path, signals=signals)
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert one(made)["want"] == ["save", "stop"]
        first = made.save({"step": 1, "entry": None, "wait": False})
        assert signals.poll() == ["stop"]
        assert made.save({"step": 1, "entry": None})["file"] == first["file"]
        made.close()
    assert names(tmp_path) == ["step_000001.bin", "step_000001.bin.sum"]


class During(Signals):
    """Signals that come at every look."""

    def __init__(self, *kinds):
        super().__init__()
        self.kinds, self.looks = kinds, 0

    def poll(self):
        if self.kinds:
            self.looks += 1
            for kind in self.kinds:
                os.kill(os.getpid(), kind)
        return super().poll()


@pytest.mark.parametrize("kinds", [(signal.SIGTERM,), (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)])
def test_signals_during_a_save_do_not_touch_it(tmp_path, kinds):
    with During() as signals:
        made = engine(CONFIG, run_dir=tmp_path, signals=signals)
        one(made)
        held = vectors(made)
        signals.kinds = kinds
        saved = made.save({"step": 1, "entry": None})
        signals.kinds = ()
        assert signals.looks >= 3 and signals.poll() == ["stop"], "a save that was asked for meanwhile is this one"
        made.close()
    data = (tmp_path / "step_000001.bin").read_bytes()
    assert hashlib.sha256(data).hexdigest() == saved["sha256"]
    assert data[8:] == b"".join(held[name].tobytes() for name in ("weights", "m", "v"))
    assert names(tmp_path) == ["step_000001.bin", "step_000001.bin.sum"]


def test_an_abort_during_a_save_leaves_what_was_saved_before_and_nothing_else(tmp_path):
    with During() as signals:
        made = engine(CONFIG, run_dir=tmp_path, signals=signals)
        one(made)
        made.save({"step": 1, "entry": None})
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        one(made)
        signals.kinds = (signal.SIGINT, signal.SIGINT)
        with pytest.raises(Aborted):
            made.save({"step": 2, "entry": None})
        signals.kinds = ()
        made.close()
    assert names(tmp_path) == ["step_000001.bin", "step_000001.bin.sum"]
    assert all((tmp_path / name).read_bytes() == data for name, data in before.items() if name != "engine.lock")


def test_a_stop_ends_a_sample_and_an_evaluation_early(tmp_path):
    with Signals() as signals:
        made = engine(CONFIG, signals=signals)
        ask = {"prompt": "", "tokens": 30, "temperature": 1.0, "seed": 1}
        whole, mean = made.sample(ask), made.evaluate({"source": "noise", "batches": 4})
        first = made.evaluate({"source": "noise", "batches": 1})
        signals.ask("stop")
        assert made.sample(ask)["tokens"] == 1 and whole["tokens"] == 30
        assert made.evaluate({"source": "noise", "batches": 4}) == first and mean["batches"] == 4
        assert np.isfinite(first["loss"])
