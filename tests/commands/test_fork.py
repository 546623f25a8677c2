"""`andrea fork`, `compare` and `pin`: what they say and what they leave."""

import json

import pytest

from andrea_lab.checkpoint.sums import read_sum
from andrea_lab.commands.fork import settings
from andrea_lab.model.config import ConfigError, load_config
from andrea_lab.run.directory import RunDirectory
from andrea_lab.run.fork import origin
from tests.run.made import entry


def test_fork_makes_a_run_and_names_what_to_do_next(call, run):
    changes = ("--set", "lr=1e-2", "--set", "warmup=3")
    code, out, err = call("fork", "tiny", "--step", 10, "--into", "hot", *changes)
    assert (code, err) == (0, "")
    assert "forked tiny at step 10 into hot: train.lr 0.001 -> 0.01, train.warmup 4 -> 3" in out
    assert "andrea resume hot\n" in out and "andrea compare tiny hot --figure" in out
    config = load_config("hot/config.json")
    assert (config.train.lr, config.train.warmup) == (0.01, 3) and config.train.steps == 20
    code, out, _ = call("verify", "hot", "--json")
    assert code == 0 and json.loads(out)["resume_from"] == "step_000010.bin"
    assert json.loads(call("verify", "tiny", "--json")[1])["pins"] == {"10": "fork into hot"}


def test_fork_json_and_a_step_beyond_the_schedule(call, run):
    code, out, _ = call("fork", "tiny", "--step", 30, "--into", "a/b", "--json")
    found = json.loads(out)
    assert code == 0 and {key: found[key] for key in ("run", "step", "changes", "steps")} == {
        "run": "a/b", "step": 30, "changes": {}, "steps": 20,
    }  # fmt: skip
    assert found["sha256"] == read_sum(run.weights(30)).sha256 and found["from"] == "../../tiny"
    out = call("fork", "tiny", "--step", 30, "--into", "c")[1]
    assert "nothing changed" in out and "andrea resume c --steps 60" in out


def test_values_are_read_as_json_and_else_as_text():
    given = ["lr=1e-3", "train.warmup=7", "gemm=kernels", 'sources=["a","b"]', "grace=null", "clip= 2 ", "name=a=b"]
    assert settings(given) == {
        "lr": 1e-3, "warmup": 7, "gemm": "kernels", "sources": ["a", "b"], "grace": None, "clip": 2, "name": "a=b",
    }  # fmt: skip
    assert settings(["lr=" + "[" * 100_000])["lr"].startswith("[[")
    with pytest.raises(ConfigError, match="--set: found 'lr' twice, expected it once"):
        settings(["lr=1", "train.lr=2"])


def test_a_field_may_be_set_to_null(call, run):
    assert call("fork", "tiny", "--step", 10, "--into", "a", "--set", "grace=5")[0] == 0
    assert call("fork", "a", "--step", 10, "--into", "b", "--set", "grace=null")[0] == 0
    assert origin(RunDirectory("b"))["changes"] == {"train.grace": [5.0, None]}


def test_compare_tells_both_runs_the_difference_and_which_converges(call, run):
    call("fork", "tiny", "--step", 10, "--into", "hot", "--set", "lr=0.5")
    with open("hot/hot.loss.json", "a") as file:
        for step in range(11, 20):
            file.write(json.dumps(entry(step, 6.0 if step > 11 else 5.39, lr=0.5)) + "\n")
        file.write('{"step": 20, "lo')
    code, out, err = call("compare", "tiny", "hot", "--figure", "both.png")
    flat = " ".join(out.split())
    assert (code, err) == (0, "")
    assert "run tiny hot steps 1 to 30 10 to 19 forked no at step 10 train.lr 0.001 0.5 torn lines 0 1" in flat
    assert "10 in common, steps 10 to 19; losses smoothed over 8" in flat
    assert "first difference: step 11, lr: 0.001 and 0.5 the losses differ from step 12 on" in flat
    assert "A converges: B (hot) rose to" in flat and "figure: both.png" in flat
    with open("both.png", "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"
    code, out, _ = call("compare", "tiny", "hot", "--json")
    found = json.loads(out)
    assert code == 0 and found["converges"] == "a" and found["first_loss_difference"] == 12 and "figure" not in found


def test_compare_of_equal_runs(call, run):
    assert "no difference in any of them" in call("compare", "tiny", "tiny")[1]


def test_pin_list_and_remove(call, run):
    assert call("pin", "tiny") == (0, "no pins\n", "")
    assert call("pin", "tiny", "--step", 20) == (0, "step 20: no reason given\n", "")
    assert call("pin", "tiny", "--step", 10, "--why", "best so far")[1] == (
        "step 10: best so far\nstep 20: no reason given\n"
    )
    assert json.loads(call("pin", "tiny", "--json")[1]) == {
        "run": "tiny", "pins": {"10": "best so far", "20": ""}
    }  # fmt: skip
    assert call("pin", "tiny", "--step", 20, "--remove")[1] == "step 10: best so far\n"
