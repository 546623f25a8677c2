"""The five verbs, the same tests for an engine in this process and for one in a process of its own."""

import hashlib
import json
import math
import os
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from andrea_lab.checkpoint.lock import LockError, holder
from andrea_lab.checkpoint.single import CheckpointError, read, step_of
from andrea_lab.checkpoint.sums import read_sum
from andrea_lab.engine.client import EngineProcess
from andrea_lab.engine.engine import Engine
from andrea_lab.engine.errors import EngineError, TrainingStopped
from andrea_lab.engine.signals import Signals
from andrea_lab.model.config import ConfigError
from tests.engine.tiny import config, sums

RESULT = ["step", "loss", "grad_norm", "clip", "lr", "tokens", "ms", "want"]


class Made:
    """An engine of either form, its run directory and what it needs to be made again."""

    def __init__(self, form: type, folder: Path):
        self.form, self.folder = form, folder / "run"
        self.folder.mkdir()
        self.config = sums(folder, keep=0)
        self.signals = Signals()
        self.engine = form(self.config, run_dir=self.folder, signals=self.signals)

    def step(self, **more):
        step = self.engine.done + 1
        return self.engine.step({"step": step, "source": "sums", "draw": step - 1} | more)

    def again(self, **options):
        return self.form(self.config, run_dir=self.folder, **options)


def saved(made: Made) -> Path:
    """The file of the last step."""
    return made.folder / made.engine.save({"step": made.engine.done, "entry": None})["file"]


@pytest.fixture(scope="module", params=[Engine, EngineProcess])
def made(request, tmp_path_factory):
    found = Made(request.param, tmp_path_factory.mktemp("verbs"))
    yield found
    found.engine.close()


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    """An engine in this process, without a run directory, to compare with."""
    folder = tmp_path_factory.mktemp("twin")
    made = Engine(sums(folder))
    yield made
    made.close()


def test_what_it_is(made):
    assert made.engine.sources == ["sums"] and made.engine.loaded is None and made.engine.done == 0
    machine = made.engine.machine
    assert set(machine) == {"target", "gemm", "cpu", "versions", "threads", "pid"}
    assert (machine["pid"] == os.getpid()) == (made.form is Engine)
    assert made.engine.poll() == [] and made.engine.save_errors == []


def test_steps_have_the_same_values_in_either_form(made, twin):
    twin.done = 0
    twin._draw_weights()
    for name in ("m", "v"):
        twin.arena.view(name)[...] = 0
    for step in (1, 2):
        found = made.step()
        expected = twin.step({"step": step, "source": "sums", "draw": step - 1})
        assert list(found) == RESULT and found | {"ms": 0} == expected | {"ms": 0}
        assert all(type(found[key]) is type(expected[key]) for key in RESULT)
        assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert made.engine.done == 2


def test_requests_that_make_no_sense_are_refused_and_change_nothing(made):
    done = made.engine.done
    for request, message in [
        ({"step": 9, "source": "sums", "draw": 0}, f"step: found 9, expected {done + 1}, the one after the last"),
        ({"step": done + 1, "source": "noise", "draw": 0}, "source: found 'noise', expected one of sums"),
        ({"step": done + 1, "draw": 0}, "step: source: found nothing, expected text"),
        ({"step": "1", "source": "sums", "draw": 0}, "step: found '1', expected a whole number"),
        ({"step": done + 1, "source": "sums", "draw": 1.5}, "step: draw: found 1.5, expected a whole number"),
    ]:
        with pytest.raises((EngineError, ConfigError), match=message):
            made.engine.step(request)
    with pytest.raises(EngineError, match=f"save: found step 7, expected {done}"):
        made.engine.save({"step": 7, "entry": None})
    with pytest.raises(EngineError, match="sample: temperature: found nan, expected 0 or more"):
        made.engine.sample({"prompt": "", "tokens": 1, "temperature": math.nan, "seed": 1})
    with pytest.raises(EngineError, match="evaluate: batches: found '3', expected a whole number"):
        made.engine.evaluate({"source": "sums", "batches": "3"})
    assert made.engine.done == done and made.step()["step"] == done + 1


def test_a_save_is_the_file_its_digest_says(made):
    made.step()
    step = made.engine.done
    entry = {"step": step, "segment": 4, "loss": 1.25}
    answer = made.engine.save({"step": step, "entry": entry})
    path = made.folder / answer["file"]
    assert answer == {"file": f"step_{step:06d}.bin", "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert made.engine.save({"step": step, "entry": entry}) == answer
    assert read_sum(path).entry == entry
    made.step()
    later = {"step": made.engine.done, "entry": None}
    assert made.engine.save(later | {"wait": False})["sha256"] in (None, *_sha(made, made.engine.done))
    assert made.engine.save(later)["sha256"] == _sha(made, made.engine.done)[0]


def _sha(made, step: int) -> list[str]:
    path = made.folder / f"step_{step:06d}.bin"
    return [hashlib.sha256(path.read_bytes()).hexdigest()] if path.exists() else []


def test_sampling_and_evaluating_are_functions_of_their_request(made, twin):
    ask = {"prompt": "1 and ", "tokens": 8, "temperature": 1, "seed": 3}
    first = made.engine.sample(ask)
    assert first == made.engine.sample(ask) and first["tokens"] == 8
    mean = made.engine.evaluate({"source": "sums", "batches": 2})
    assert mean == made.engine.evaluate({"source": "sums", "batches": 2}) and mean["batches"] == 2
    twin.load(saved(made))
    assert twin.sample(ask) == first and twin.evaluate({"source": "sums", "batches": 2}) == mean


def test_text_of_any_kind_may_be_the_prompt(made):
    for prompt in ("", "\n\0\u2028", "žluťoučký", "\U0001f600"):
        assert made.engine.sample({"prompt": prompt, "tokens": 1, "temperature": 0.5, "seed": 1})["tokens"] == 1
    with pytest.raises(EngineError, match=r"sample: prompt: found '\\ud800', which UTF-8 does not have"):
        made.engine.sample({"prompt": "\ud800", "tokens": 1, "temperature": 0.5, "seed": 1})


def test_a_wish_is_handed_on_and_a_save_meets_it(made):
    made.signals.ask("save")
    made.step()
    assert made.engine.poll() == ["save"]
    made.engine.save({"step": made.engine.done, "entry": None})
    assert made.engine.poll() == []


def test_another_engine_is_refused_while_this_one_is_at_work(made):
    made.step()
    with pytest.raises(LockError, match=f"found engine {holder(made.folder, 'engine').pid} .*expected no other"):
        other = made.again()
        try:
            other.step({"step": 1, "source": "sums", "draw": 0})
        finally:
            other.close()


def test_a_file_that_does_not_load_is_named_and_one_that_does_is_taken(made):
    good = saved(made)
    torn = made.folder / "torn.bin"
    torn.write_bytes(good.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"torn.bin: found \d+ bytes") as caught:
        made.engine.load(torn)
    assert caught.value.verdict == "torn"
    assert made.step()["step"] == made.engine.done, "a file that is refused at once changes nothing"
    assert made.engine.load(good) == made.engine.done == step_of(good.name)
    assert made.engine.loaded["file"] == good.name and made.engine.loaded["verified"]
    made.step()


def test_a_stopped_training_is_carried_with_all_its_fields(made):
    """Weights that overflow: the file is written by hand and has no sum, so it loads unverified."""
    good = saved(made)
    step, w, m, v = read(good)
    w[:] = 3e38
    broken = made.folder / "broken.bin"
    broken.write_bytes(np.array([step, len(w)], "<i4").tobytes() + w.tobytes() + m.tobytes() + v.tobytes())
    made.engine.load(broken)
    with (
        np.errstate(all="ignore"),
        pytest.raises(TrainingStopped, match=f"step {step + 1}: .* is not finite") as caught,
    ):
        made.step()
    stop = caught.value
    assert stop.step == step + 1 and stop.tensor and "lower train.lr" in stop.advice
    assert list(stop.result) == RESULT and not math.isfinite(stop.result["loss"])
    assert made.engine.done == step
    made.engine.load(good)
    assert math.isfinite(made.step()["loss"])


def test_a_resume_takes_the_newest_that_passes(made):
    """The last test of the module: it ends the engine that the others share."""
    made.step()
    step = made.engine.done
    saved(made)
    newest = made.folder / "step_000999.bin"
    newest.write_bytes(b"torn")
    made.engine.close()
    made.engine.close()
    with closing(made.again(resume=True)) as again:
        assert again.loaded["rejected"][0]["file"] == newest.name and again.loaded["rejected"][0]["verdict"] == "torn"
        assert again.loaded["verified"] and again.done == again.loaded["step"] == step
        assert again.step({"step": step + 1, "source": "sums", "draw": 0})["step"] == step + 1


@pytest.mark.parametrize("form", [Engine, EngineProcess])
def test_what_cannot_be_made_is_told_the_same_way(form, tmp_path):
    with pytest.raises(ConfigError, match=r"train\.sources: found 'bible', expected a file or one of"):
        form(config(sources=["bible"]))
