"""The cadence: what a kill costs with files and without, a sample for each file, a restart at the end of each epoch."""

import hashlib

import pytest

from andrea_lab.engine.batches import Batches
from andrea_lab.engine.engine import engine
from andrea_lab.engine.errors import EngineError
from andrea_lab.proxy.loop import resume, train
from andrea_lab.run import samples
from andrea_lab.run.directory import RunDirectory
from tests.proxy.runs import QUIET, Killed, die_at, outcome, small


@pytest.mark.parametrize(("save_every", "repeated"), [(1, 1), (5, 3), (0, None)])
def test_a_kill_costs_the_steps_since_the_last_file_and_without_files_all_of_them(tmp_path, save_every, repeated):
    cfg = small(tmp_path, steps=24, save_every=save_every)
    with pytest.raises(Killed):
        train(cfg, tmp_path / "r", on_entry=die_at(18), **QUIET)
    if repeated is None:
        with pytest.raises(EngineError, match="no step_NNNNNN.bin"):
            resume(tmp_path / "r", **QUIET)
    else:
        found = resume(tmp_path / "r", until=18, **QUIET)
        assert (found.audit["replayed"], found.audit["different"]) == (repeated, 0)


def test_each_file_has_its_sample_and_each_sample_a_file_that_gives_it_again(tmp_path):
    cfg = small(tmp_path, steps=20, save_every=5, sample_every=5, sample_tokens=12, keep=0)
    train(cfg, tmp_path / "r", **QUIET)
    run = RunDirectory(tmp_path / "r")
    found = samples.read(run)
    assert [sample["step"] for sample in found] == [5, 10, 15, 20]
    assert sorted(path.name for path in run.path.glob("step_*.bin")) == [run.weights(s["step"]).name for s in found]
    for sample in found:
        ask = {key: sample[key] for key in ("prompt", "tokens", "temperature", "seed")}
        with engine(cfg, weights=run.weights(sample["step"])) as made:
            assert made.sample(ask)["text"] == sample["text"]
    assert len({sample["text"] for sample in found}) == 4


def test_a_restart_at_the_end_of_each_epoch_reads_the_next_epoch_as_a_straight_run_does(tmp_path, monkeypatch):
    cfg = small(tmp_path, steps=24, save_every=0, batch=12)
    text = tmp_path / "cat.txt"
    text.write_text(text.read_text()[:1600])
    cfg = cfg.with_train(sources=[str(text)])
    fill, seen = Batches.fill, []

    def recording(self, source, seed, draw, tokens, targets):
        fill(self, source, seed, draw, tokens, targets)
        seen.append(hashlib.sha256(tokens.tobytes() + targets.tobytes()).hexdigest())

    monkeypatch.setattr(Batches, "fill", recording)
    train(cfg, tmp_path / "straight", **QUIET)
    straight, epoch = seen[:], 8
    assert (epoch + 1) * 12 * 16 > 1600 and len(straight) == 24 == 3 * epoch
    seen.clear()
    train(cfg, tmp_path / "r", until=epoch, **QUIET)
    for end in (2 * epoch, 3 * epoch):
        resume(tmp_path / "r", until=end, **QUIET)
    assert seen == straight and len(set(seen)) == 24, "no epoch repeats a batch of another"
    assert outcome(tmp_path / "r", 24) == outcome(tmp_path / "straight", 24)
