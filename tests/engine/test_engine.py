"""The verbs: plain JSON in and out, in order, and a step that fails changes nothing."""

import hashlib
import json
import math

import numpy as np
import pytest

from andrea_lab.checkpoint.save import save
from andrea_lab.checkpoint.single import CheckpointError
from andrea_lab.engine.errors import EngineError, TrainingStopped
from andrea_lab.model.config import ConfigError, parse
from tests.engine.tiny import RandomBatches, config, engine, one, vectors


def test_every_verb_speaks_json(tmp_path):
    made = engine(run_dir=tmp_path)
    result = one(made)
    assert list(result) == ["step", "loss", "grad_norm", "clip", "lr", "tokens", "ms", "want"]
    saved = made.save({"step": 1, "entry": {"step": 1}})
    assert set(saved) == {"file", "sha256"}
    held_out = made.evaluate({"source": "noise", "batches": 2})
    text = made.sample({"prompt": "a", "tokens": 5, "temperature": 0.7, "seed": 1})
    for value in (result, saved, held_out, text):
        assert json.loads(json.dumps(value, allow_nan=False)) == value
    assert result["loss"] == pytest.approx(math.log(257), abs=0.1)
    assert (result["tokens"], result["want"], result["step"]) == (32, [], 1)
    assert all(float(str(np.float32(result[key]))) == result[key] for key in ("loss", "grad_norm", "clip", "lr", "ms"))
    made.close()


def test_the_same_seed_draws_the_same_model_and_another_does_not():
    a, b, c = (vectors(engine(config(seed=seed)))["weights"] for seed in (1, 1, 2))
    assert a.tobytes() == b.tobytes() != c.tobytes()


def test_first_weights_are_the_pinned_ones():
    made = engine()
    for name, array in made.graph.weights.items():
        kind = name.split(".")[-1]
        if kind in ("gamma", "beta"):
            assert np.all(np.array(array) == (kind == "gamma"))
        else:
            scale = 0.02 / (2.0 if kind in ("W_O", "W_2") else 1.0)  # 1/sqrt(2 * 2 layers)
            assert np.std(array) == pytest.approx(scale, rel=0.1) and abs(np.mean(array)) < scale / 5
    assert not np.any(made.arena.view("m")) and not np.any(made.arena.view("v"))


def test_steps_come_in_order():
    made = engine()
    with pytest.raises(EngineError, match="step: found 2, expected 1"):
        one(made, 2)
    one(made)
    with pytest.raises(EngineError, match="found 1, expected 2"):
        one(made, 1)


def test_a_step_without_targets_is_refused():
    made = engine(config(batch=1), batches=RandomBatches())
    made.batches.fill = lambda source, seed, draw, tokens, targets: targets.fill(-1)
    with pytest.raises(EngineError, match="found no target"):
        one(made)


def test_loss_falls_on_a_batch_seen_again():
    made = engine(config(lr=1e-2, warmup=0))
    losses = [made.step({"step": s, "source": "noise", "draw": 7})["loss"] for s in range(1, 21)]
    assert losses[-1] < losses[0] - 2


def test_save_writes_the_vectors_once(tmp_path):
    made = engine(run_dir=tmp_path)
    one(made)
    first = made.save({"step": 1, "entry": {}})
    assert made.save({"step": 1, "entry": {}}) == first
    data = (tmp_path / first["file"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == first["sha256"]
    held = vectors(made)
    assert data[8:] == b"".join(held[name].tobytes() for name in ("weights", "m", "v"))
    with pytest.raises(EngineError, match="found step 2, expected 1"):
        made.save({"step": 2, "entry": {}})
    with pytest.raises(EngineError, match="without a run directory"):
        engine().save({"step": 0, "entry": {}})


def test_training_goes_on_from_a_file_with_the_same_bits(tmp_path):
    whole = engine(run_dir=tmp_path)
    for _ in range(3):
        one(whole)
    whole.save({"step": 3, "entry": {}})
    results = [one(whole) for _ in range(3)]
    again = engine(weights=tmp_path / "step_000003.bin")
    for expected in results:
        got = one(again)
        assert {k: v for k, v in got.items() if k != "ms"} == {k: v for k, v in expected.items() if k != "ms"}
    for name, array in vectors(again).items():
        assert array.tobytes() == vectors(whole)[name].tobytes()


def test_weights_of_another_model_are_refused(tmp_path):
    save(tmp_path, 1, *(np.zeros(9, np.float32) for _ in range(3)))
    with pytest.raises(CheckpointError, match="found 9 parameters, expected 41856"):
        engine(weights=tmp_path / "step_000001.bin")


PLANTS = [
    ("layer1.W_1", math.nan, "layer1.W_1"),
    ("wte", math.inf, "wte"),
    ("layer0.W_Q", 3e38, "layer0.q"),
    ("layer1.W_2", 3e38, "layer1.x"),
]


@pytest.mark.parametrize(("tensor", "value", "bad"), PLANTS)
def test_what_is_not_finite_stops_the_run_and_is_named(tmp_path, tensor, value, bad):
    made = engine(config(lr=0.7, clip=0.0), run_dir=tmp_path)
    one(made)
    made.graph.weights[tensor][...] = value
    before = vectors(made)
    with pytest.raises(TrainingStopped) as caught:
        one(made)
    stop = caught.value
    assert (stop.step, stop.tensor) == (2, bad)
    assert f"step 2: {bad} is not finite" in str(stop) and "\n" not in str(stop)
    assert "lower train.lr" in stop.advice and "train.clip" in stop.advice and "train.warmup" in stop.advice
    assert not (math.isfinite(stop.result["loss"]) and math.isfinite(stop.result["grad_norm"]))
    assert made.done == 1
    for name, array in vectors(made).items():
        assert array.tobytes() == before[name].tobytes(), name
    if math.isfinite(value):
        made.save({"step": 1, "entry": {}})
    else:
        with pytest.raises(CheckpointError, match=rf"w {tensor}\[0\]: found {value}"):
            made.save({"step": 1, "entry": {}})


def test_sampling_is_a_function_of_its_request_and_keeps_training_as_it_was():
    made, twin = engine(), engine()
    one(made), one(twin)
    ask = {"prompt": "the ", "tokens": 40, "temperature": 1.0, "seed": 3}
    first = made.sample(ask)
    assert made.sample(ask) == first
    assert made.sample(ask | {"seed": 4}) != first
    greedy = made.sample(ask | {"temperature": 0.0})
    assert made.sample(ask | {"temperature": 0.0, "seed": 9}) == greedy
    assert made.sample(ask | {"tokens": 0})["text"] == ""
    assert made.evaluate({"source": "noise", "batches": 1}) == twin.evaluate({"source": "noise", "batches": 1})
    assert one(made)["loss"] == one(twin)["loss"]
    for name, array in vectors(made).items():
        assert array.tobytes() == vectors(twin)[name].tobytes()


def test_scores_of_a_short_window_do_not_depend_on_the_padding():
    made = engine(config(gemm="kernels"))
    window = [256, 104, 105]
    first = np.array(made.sampler.scores(window))
    made.graph.arrays["tokens"][...] = 7
    assert np.array_equal(made.sampler.scores(window), first)
    assert first.shape == (257,)


@pytest.mark.parametrize(("key", "value"), [("tokens", -1), ("temperature", -0.1), ("temperature", math.nan)])
def test_impossible_requests_for_text(key, value):
    with pytest.raises(EngineError, match=f"sample: {key}: found"):
        engine().sample({"prompt": "", "tokens": 1, "temperature": 1.0, "seed": 1} | {key: value})


def test_wishes_are_polled_between_microbatches_and_handed_on():
    seen = []

    def poll():
        seen.append(1)
        return ["stop"] if limit and len(seen) > limit else []

    limit = 0
    made = engine(config(batch=1, microbatches=3), poll=poll)
    limit = len(seen) + 2
    assert one(made)["want"] == ["stop"]
    assert len(seen) >= limit + 2


def test_a_tokeniser_with_more_ids_than_the_model_is_refused():
    data = config().model_dump()
    data["model"]["vocab"] = 200
    with pytest.raises(ValueError, match="257"):
        engine(parse(data, "x"), batches=None)


def test_an_unknown_source_is_refused():
    with pytest.raises(ConfigError, match=r"train\.sources: found 'bible', expected a file or one of"):
        engine(config(sources=["bible"]), batches=None)


def test_arena_is_the_plan_and_every_array_is_in_it():
    made = engine()
    assert made.arena.nbytes == made.plan.total
    start = made.arena.view("weights").ctypes.data
    for name, region in made.plan.by_name.items():
        view = made.arena.view(name)
        assert view.ctypes.data == start + region.offset and view.ctypes.data % 64 == 0
        assert view.nbytes == region.nbytes and view.shape == region.shape and str(view.dtype) == region.dtype
