"""The audit fork: one checkpoint, two configurations, and which of them converges. Trained through the loop."""

import json

import pytest

from andrea_lab.checkpoint import rotation
from andrea_lab.cli import main
from andrea_lab.engine.errors import TrainingStopped
from andrea_lab.engine.schedule import learning_rate
from andrea_lab.model.config import load_config
from andrea_lab.proxy.loop import resume, train
from andrea_lab.run.compare import compare
from andrea_lab.run.fork import fork
from andrea_lab.run.losslog import read_log
from tests.proxy.runs import canonical, digests, small

STEP, LAST = 20, 30


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    """A run of 30 steps with weights at 10, 20 and 30, its schedule going on to 40."""
    folder = tmp_path_factory.mktemp("forks")
    train(small(folder, lr=3e-3, warmup=2), folder / "parent", until=LAST, held_out_batches=0)
    return folder / "parent"


def forked(parent, name, **changes):
    config = load_config(parent / "config.json").with_train(**changes)
    return fork(parent, STEP, parent.parent / name, config.to_json()).path


def test_a_fork_that_changes_nothing_repeats_its_parent_bit_for_bit(parent):
    twin = forked(parent, "twin")
    result = resume(twin, until=LAST, held_out_batches=0)
    assert (result.resumed_from, result.steps, result.rejected) == ("step_000020.bin", LAST, [])
    assert digests(twin, LAST) == digests(parent, LAST)
    assert canonical(twin) == [entry for entry in canonical(parent) if entry["step"] >= STEP]
    found = compare(parent, twin)
    assert (found["converges"], found["first_difference"], found["common"]["steps"]) == ("same", None, 11)
    segments = [entry["segment"] for entry in read_log(twin / "twin.loss.json").entries]
    assert segments == [1] + [2] * 10  # the parent's step, then the fork's own


def test_a_fork_of_the_rate_trains_at_that_rate_on_the_same_batches(parent):
    slow = forked(parent, "slow", lr=3e-5)
    resume(slow, until=LAST, held_out_batches=0)
    config, mine, others = load_config(slow / "config.json"), canonical(slow), canonical(parent)[STEP - 1 :]
    for entry in mine[1:]:
        assert entry["lr"] == pytest.approx(learning_rate(config.train, entry["step"]), rel=1e-6)
    for key in ("source", "draw", "tokens", "policy"):
        assert [entry[key] for entry in mine] == [entry[key] for entry in others]
    found = compare(parent, slow)
    assert found["config"] == {"train.lr": [3e-3, 3e-5]}
    assert (found["first_difference"]["step"], found["first_difference"]["field"]) == (STEP + 1, "lr")
    assert found["first_loss_difference"] == STEP + 2  # a step's loss comes before its update
    assert found["converges"] == "a" and found["a"]["smoothed"] < found["b"]["smoothed"]


def test_of_two_forks_the_one_that_breaks_down_does_not_converge(parent):
    calm, hot = forked(parent, "calm", lr=1e-3), forked(parent, "hot", lr=30.0, clip=0.0, warmup=0, min_lr=1.0)
    resume(calm, until=LAST, held_out_batches=0)
    try:
        resume(hot, until=LAST, held_out_batches=0)
    except TrainingStopped as stop:
        assert compare(calm, hot)["b"]["diverged_at"] == stop.step
    found = compare(calm, hot)
    assert found["converges"] == "a" and found["why"].startswith("A converges: B (hot) ")
    assert found["a"]["fork"]["sha256"] == found["b"]["fork"]["sha256"]


def test_the_parent_goes_on_and_its_rotation_keeps_what_was_forked(tmp_path):
    config = small(tmp_path, keep=1, steps=8, save_every=1)
    train(config, tmp_path / "p", until=4, held_out_batches=0)
    made = fork(tmp_path / "p", 4, tmp_path / "f", config.to_json())
    resume(tmp_path / "p", held_out_batches=0)
    assert sorted(path.name for path in (tmp_path / "p").glob("step_*.bin")) == ["step_000004.bin", "step_000008.bin"]
    assert rotation.pins(tmp_path / "p") == {4: f"fork into {tmp_path / 'f'}"}
    assert made.weights(4).read_bytes() == (tmp_path / "p" / "step_000004.bin").read_bytes()


def test_train_fork_resume_compare_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.json").write_text(small(tmp_path, steps=12, save_every=4).to_json())
    assert main(["train", "c.json", "--run", "a", "--until", "8"]) == 0
    assert main(["fork", "a", "--step", "4", "--into", "b", "--set", "lr=1e-4"]) == 0
    assert main(["resume", "b", "--steps", "8"]) == 0
    capsys.readouterr()
    assert main(["compare", "a", "b", "--json", "--figure", "both.png"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["common"] | {"span": 0} == {"first": 4, "last": 8, "steps": 5, "span": 0}
    assert found["first_difference"]["field"] == "lr" and found["b"]["fork"]["step"] == 4
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")


def test_what_only_looks_like_the_newest_checkpoint_is_told_and_passed_over(tmp_path):
    config = small(tmp_path, steps=6, save_every=2)
    train(config, tmp_path / "r", until=4, held_out_batches=0)
    (tmp_path / "r" / "step_00999999").mkdir()
    (tmp_path / "r" / "step_000999.bin").mkdir()
    (tmp_path / "r" / "step_999999.bin").touch()
    (tmp_path / "r" / "step_1000000.bin").write_bytes(b"\0" * 100)
    (tmp_path / "r" / "latest").symlink_to("step_999999.bin")
    result = resume(tmp_path / "r", held_out_batches=0)
    assert (result.resumed_from, result.steps) == ("step_000004.bin", 6)
    assert [(each["file"], each["verdict"]) for each in result.rejected] == [
        ("step_1000000.bin", "torn"), ("step_999999.bin", "torn")
    ]  # fmt: skip
    assert "found 0 bytes, expected at least the 8 of the header" in result.rejected[1]["reason"]
    assert (tmp_path / "r" / "step_999999.bin").exists() and (tmp_path / "r" / "latest").is_symlink()


def test_seven_digits_come_after_six(tmp_path):
    config = small(tmp_path, steps=4, save_every=2)
    train(config, tmp_path / "r", until=2, held_out_batches=0)
    made = fork(tmp_path / "r", 2, tmp_path / "f", config.to_json())
    data = made.weights(2).read_bytes()
    for step in (999_900, 1_000_000):
        made.weights(step).write_bytes(step.to_bytes(4, "little") + data[4:])
    assert [made.weights(step).name for step in (999_900, 1_000_000)] == ["step_999900.bin", "step_1000000.bin"]
    result = resume(made.path, held_out_batches=0)
    assert (result.resumed_from, result.steps, result.outcome) == ("step_1000000.bin", 1_000_000, "nothing to do")
