"""Configurations: presets load, and every mistake is one line with file, field, found and expected."""

import json
from pathlib import Path

import pytest

from andrea_lab.model.config import ConfigError, load_config, parse, presets

EXPERIMENTS = Path(__file__).parents[2] / "data" / "experiments"


def tiny() -> dict:
    model = {"vocab": 257, "context": 16, "width": 32, "heads": 4, "layers": 2}
    return {"name": "tiny", "model": model, "train": {"batch": 2, "context": 8, "steps": 3}}


def test_every_preset_loads_by_name():
    names = presets(EXPERIMENTS)
    assert names == ["ANDREA-120M", "ANDREA-12M", "ANDREA-480M", "ANDREA-nano"]
    assert [load_config(name, EXPERIMENTS).name for name in names] == names


def test_defaults_are_the_pinned_numbers():
    train = parse(tiny(), "tiny").train
    assert (train.lr, train.warmup, train.min_lr, train.clip, train.decay) == (3e-4, 2000, 0.1, 1.0, 0.1)
    assert (train.beta1, train.beta2, train.eps, train.save_every) == (0.9, 0.999, 1e-8, 100)
    assert (train.gemm, train.tokenizer, train.microbatches) == ("blas", "bytes", 1)
    assert not parse(tiny(), "tiny").model.tie_embeddings


def test_json_round_trip(tmp_path):
    config = parse(tiny(), "tiny")
    (tmp_path / "c.json").write_text(config.to_json())
    assert load_config(tmp_path / "c.json") == config


def test_with_train_checks_what_it_changes():
    config = parse(tiny(), "tiny")
    assert config.with_train(steps=9, seed=None).train.steps == 9
    with pytest.raises(ConfigError, match=r"tiny: train\.steps: found 0, expected greater than or equal to 1"):
        config.with_train(steps=0)


MISTAKES = [
    ("model", "heads", 5, "model.heads: found 5, expected a divisor of width 32"),
    ("model", "width", "32", 'model.width: found "32", expected a valid integer'),
    ("model", "width", 32.5, "model.width: found 32.5, expected a valid integer"),
    ("model", "width", True, "model.width: found true, expected a valid integer"),
    ("model", "vocab", 2**31, "model.vocab: found 2147483648, expected less than or equal to 2147483647"),
    ("model", "tie_embeddings", 1, "model.tie_embeddings: found 1, expected a valid boolean"),
    ("model", "depth", 3, "model.depth: found an unknown key, expected one of vocab, context, width, heads, layers"),
    ("train", "context", 17, "train.context: found 17, expected at most model.context = 16"),
    ("train", "lr", 0, "train.lr: found 0, expected greater than 0"),
    ("train", "lr", float("inf"), "train.lr: found Infinity, expected a finite number"),
    ("train", "gemm", "mkl", "train.gemm: found \"mkl\", expected 'blas' or 'kernels'"),
    ("train", "sources", [], "train.sources: found [], expected at least one name"),
    ("train", "sources", ["a", "a"], "train.sources: found ['a', 'a'], expected at least one name and none twice"),
    ("train", "beta1", 1.0, "train.beta1: found 1.0, expected less than 1"),
]


@pytest.mark.parametrize(("part", "key", "value", "message"), MISTAKES)
def test_a_mistake_is_one_line_with_field_found_expected(tmp_path, part, key, value, message):
    data = tiny()
    data[part][key] = value
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_missing_key_and_wrong_shape():
    data = tiny()
    del data["model"]["heads"]
    with pytest.raises(ConfigError, match=r"^x: model\.heads: found nothing, expected a value$"):
        parse(data, "x")
    with pytest.raises(ConfigError, match=r"^x: configuration: found \[1\], expected"):
        parse([1], "x")
    with pytest.raises(ConfigError, match=r"and 2 more"):
        parse({"name": "x", "oops": 1}, "x")


FILES = [
    (b"", "no JSON"),
    (b"\xff\xfe\x00", "no JSON"),
    (b'{"name": "a", "name": "b"}', "key 'name' twice"),
    (b"[" * 100_000, "nested too deeply"),
]


@pytest.mark.parametrize(("content", "message"), FILES)
def test_unreadable_files(tmp_path, content, message):
    path = tmp_path / "c.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(str(path)) and message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_such_file_or_preset(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="Is a directory"):
        load_config(tmp_path)
    with pytest.raises(ConfigError, match="found 'ANDREA-13M', expected a .json file or one of ANDREA-120M"):
        load_config("ANDREA-13M", EXPERIMENTS)
