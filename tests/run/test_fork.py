"""Forks: the same checkpoint under another configuration, whole or absent, and trained as the new one says."""

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from andrea_lab.checkpoint import rotation, single
from andrea_lab.checkpoint.single import CheckpointError
from andrea_lab.checkpoint.sums import read_sum, sum_path, write_sum
from andrea_lab.checkpoint.verify import examine
from andrea_lab.engine.schedule import learning_rate
from andrea_lab.model.config import load_config
from andrea_lab.run.directory import RunDirectory, RunError
from andrea_lab.run.fork import fork, origin
from andrea_lab.run.losslog import read_log
from tests.checkpoint.faults import CHANGES, Crash, Crashing, Faulty, Watched
from tests.engine import tiny
from tests.run.made import arrays, entry, files, saved

WEIGHTS = "step_000020.bin"


def changed(run: RunDirectory, **train) -> str:
    return load_config(run.config).with_train(**train).to_json()


@pytest.fixture
def parent(tmp_path):
    return saved(tmp_path / "parent", 10, 20, 30)


def test_a_fork_has_the_checkpoint_a_config_its_own_log_and_its_origin(tmp_path, parent):
    made = fork(parent.path, 20, tmp_path / "hot", changed(parent, lr=0.5, warmup=7))
    assert files(made.path) == ["config.json", "fork.json", "hot.loss.json", WEIGHTS, f"{WEIGHTS}.sum"]
    for name in (WEIGHTS, f"{WEIGHTS}.sum"):
        assert (made.path / name).read_bytes() == (parent.path / name).read_bytes()
    config = load_config(made.config)
    assert (config.train.lr, config.train.warmup) == (0.5, 7) and config.model == load_config(parent.config).model
    assert read_log(made.log).entries == [entry(20, 5.3)]
    sha256 = examine(parent.weights(20)).sha256
    changes = {"train.lr": [0.001, 0.5], "train.warmup": [4, 7]}
    assert origin(made) == {"from": "../parent", "step": 20, "sha256": sha256, "changes": changes}
    assert origin(parent) is None
    assert (made.path / origin(made)["from"]).resolve() == parent.path.resolve()


def test_the_source_is_pinned_and_otherwise_as_it_was(tmp_path, parent):
    before = {path.name: path.read_bytes() for path in parent.path.iterdir()}
    fork(parent.path, 20, tmp_path / "hot", changed(parent))
    assert rotation.pins(parent.path) == {20: f"fork into {tmp_path / 'hot'}"}
    rotation.rotate(parent.path, 1)
    assert examine(parent.weights(20)).verdict == "committed" and not parent.weights(10).exists()
    assert all((parent.path / name).read_bytes() == data for name, data in before.items() if "10" not in name)


def test_parents_of_the_folder_are_made_and_a_fork_of_a_fork_is_one(tmp_path, parent):
    first = fork(parent.path, 20, tmp_path / "deep" / "er" / "one", changed(parent, lr=0.5))
    second = fork(first.path, 20, tmp_path / "two", changed(first, lr=0.25))
    assert origin(second)["from"] == "../deep/er/one" and origin(second)["changes"] == {"train.lr": [0.5, 0.25]}
    assert read_log(second.log).entries == read_log(first.log).entries


def test_an_unverified_checkpoint_may_be_forked_and_stays_unverified(tmp_path, parent):
    sum_path(parent.weights(20)).unlink()
    made = fork(parent.path, 20, tmp_path / "hot", changed(parent))
    assert examine(made.weights(20)).verdict == "unverified" and not sum_path(made.weights(20)).exists()
    assert read_log(made.log).entries == [entry(20, 5.3)]  # from the parent's log


def test_without_sum_and_log_there_is_no_entry_to_begin_with(tmp_path, parent):
    sum_path(parent.weights(20)).unlink()
    parent.log.unlink()
    made = fork(parent.path, 20, tmp_path / "hot", changed(parent))
    assert files(made.path) == ["config.json", "fork.json", WEIGHTS]


def test_a_checkpoint_whose_sum_was_renamed_first_takes_the_sum_that_fits(tmp_path, parent):
    ours = read_sum(parent.weights(20))
    newer = read_sum(parent.weights(30))
    mixed = type(ours)(**{**vars(newer), "file": WEIGHTS, "step": 20, "before": ours})
    write_sum(parent.weights(20), mixed)
    made = fork(parent.path, 20, tmp_path / "hot", changed(parent))
    assert read_sum(made.weights(20)) == ours and read_log(made.log).entries == [entry(20, 5.3)]


def poke(path, at: int, value: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + len(value)] = value
    path.write_bytes(data)


def damage(parent, how: str) -> None:
    path = parent.weights(20)
    if how == "torn":
        path.write_bytes(path.read_bytes()[:-4])
    elif how == "flipped":
        poke(path, 8, bytes([path.read_bytes()[8] ^ 1]))
    elif how == "wrong step":
        sum_path(path).unlink()
        poke(path, 0, (21).to_bytes(4, "little"))
    else:
        sum_path(path).unlink()
        poke(path, 8, np.float32(np.nan).tobytes())


DAMAGE = [
    ("torn", "found 502276 bytes, expected 502280"),
    ("flipped", "w wte: found other bytes than were saved"),
    ("wrong step", "found 21 in the header, expected 20"),
    ("non-finite", "found nan, expected a finite number"),
]


@pytest.mark.parametrize(("how", "message"), DAMAGE)
def test_a_damaged_checkpoint_is_refused_with_its_verdict(tmp_path, parent, how, message):
    damage(parent, how)
    before = files(parent.path)
    with pytest.raises(CheckpointError, match=message) as caught:
        fork(parent.path, 20, tmp_path / "deep" / "hot", changed(parent))
    assert caught.value.verdict == how
    assert files(tmp_path) == ["parent"] and files(parent.path) == before


def test_a_step_that_is_not_there_names_those_that_are(tmp_path, parent):
    with pytest.raises(RunError, match=r"step: found 25, expected one that was saved: 10, 20, 30$"):
        fork(parent.path, 25, tmp_path / "hot", changed(parent))
    for step in range(100, 120):
        (parent.path / single.file_name(step)).touch()
    with pytest.raises(RunError, match=r"saved: 15 earlier ones, 112, 113, .*, 119$"):
        fork(parent.path, 25, tmp_path / "hot", changed(parent))
    assert files(tmp_path) == ["parent"]


@pytest.mark.parametrize("kind", ["folder", "run", "file", "dangling link"])
def test_a_name_that_is_taken_is_refused(tmp_path, parent, kind):
    into = tmp_path / "hot"
    if kind == "file":
        into.write_text("mine")
    elif kind == "dangling link":
        into.symlink_to(tmp_path / "nowhere")
    else:
        into.mkdir()
        if kind == "run":
            (into / "config.json").write_text("{}")
    before = files(tmp_path)
    with pytest.raises(RunError, match=rf"^{into}: found it taken, expected a new name, such as "):
        fork(parent.path, 20, into, changed(parent))
    assert files(tmp_path) == before and rotation.pins(parent.path) == {}


def test_another_model_is_refused(tmp_path, parent):
    other = load_config(parent.config).model_dump()
    other["model"]["layers"] = 3
    with pytest.raises(RunError, match=r"model\.layers: found a change, expected the model of"):
        fork(parent.path, 20, tmp_path / "hot", json.dumps(other))
    assert files(tmp_path) == ["parent"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "found text that is no JSON"),
        ('["step"]', "found other fields, expected from, step, sha256, changes"),
        ('{"from": "a", "step": "7", "sha256": "", "changes": {}}', "found other fields"),
    ],
)
def test_an_origin_that_cannot_be_believed(tmp_path, parent, text, message):
    parent.fork.write_text(text)
    with pytest.raises(RunError, match=message):
        origin(parent)


# ---------------------------------------------------------------------------------------------- nothing left behind


def operations(tmp_path, parent) -> int:
    watched = Watched(CHANGES)
    fork(parent.path, 20, tmp_path / "counted" / "hot", changed(parent), files=watched)
    assert {"create", "write", "sync", "rename", "make_folder", "sync_folder"} <= set(watched.ops)
    rotation.unpin(parent.path, 20)
    return len(watched.ops)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_any_operation_may_fail_and_nothing_is_left(tmp_path, parent, error):
    total, before = operations(tmp_path, parent), files(parent.path)
    for number in range(1, total + 1):
        faulty = Faulty(number, error, only=CHANGES)
        with pytest.raises(OSError, match="planted"):
            fork(parent.path, 20, tmp_path / "new" / "hot", changed(parent), files=faulty)
        assert faulty.failed == 1
        assert files(tmp_path) == ["counted", "parent"], f"operation {number}"
        assert files(parent.path) == before, f"operation {number}"


@pytest.mark.parametrize("when", ["before", "halfway"])
def test_the_process_may_die_at_any_operation_and_the_fork_is_whole_or_absent(tmp_path, parent, when):
    into, total = tmp_path / "new" / "hot", operations(tmp_path, parent)
    sound = {path.name: path.read_bytes() for path in parent.path.iterdir()}
    seen = set()
    for number in range(1, total + 1):
        with pytest.raises(Crash):
            fork(parent.path, 20, into, changed(parent, lr=0.5), files=Crashing(number, when))
        whole = into.exists()
        seen.add(whole)
        if not whole:  # what is left does not stand in the way of the next try
            fork(parent.path, 20, into, changed(parent, lr=0.5))
        assert examine(into / WEIGHTS).verdict == "committed", f"operation {number}"
        made = RunDirectory.open(into)
        assert origin(made)["changes"] == {"train.lr": [0.001, 0.5]} and len(read_log(made.log).entries) == 1
        assert files(into.parent) == ["hot"], f"operation {number}"
        assert rotation.pins(parent.path) == {20: f"fork into {into}"}, f"operation {number}"
        for name, data in sound.items():
            assert (parent.path / name).read_bytes() == data
        for path in (*into.iterdir(), *parent.path.glob("*.pin"), *parent.path.glob(".*")):
            path.unlink()
        into.rmdir()
        into.parent.rmdir()
    assert seen == {True, False}


def test_everything_is_on_the_disk_before_the_fork_has_its_name(tmp_path, parent):
    class Recording(Watched):
        def act(self, number, name, do, *args):
            done = do(*args)
            if number is not None:
                acts.append((name, *(done if name == "create" else arg for arg in args[:1]), *args[1:]))
            return done

    acts, into = [], tmp_path / "new" / "hot"
    fork(parent.path, 20, into, changed(parent), files=Recording(CHANGES))
    assert acts[-1] == ("sync_folder", into.parent) and acts[-2][0] == "rename" and acts[-2][2] == into
    stage = acts[-2][1]
    assert acts[-3] == ("sync_folder", stage)
    assert ("make_folder", into.parent) in acts and ("sync_folder", into.parent.parent) in acts
    written = 0
    for number, (name, *args) in enumerate(acts):
        if name == "create":  # its bytes are synced after the last write, then it is closed and renamed
            mine = [act for act in acts[number + 1 :] if act[1] == args[0] or act[0] == "rename"]
            until = next(i for i, act in enumerate(mine) if act[0] == "rename")
            assert [act[0] for act in mine[: until + 1]][-3:] == ["sync", "close", "rename"]
            written += 1
    assert written == 6  # the pin, the weights, their sum, the log, the origin, the configuration


def test_what_another_dead_process_left_is_swept_and_what_a_live_one_makes_is_not(tmp_path, parent):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead, alive = (tmp_path / f".x.{pid}.fork.tmp" for pid in (ended.pid, os.getppid()))
    link = tmp_path / f".y.{ended.pid}.fork.tmp"
    for folder in (dead, alive):
        folder.mkdir()
        (folder / "config.json").touch()
    link.symlink_to(parent.path)
    fork(parent.path, 20, tmp_path / "hot", changed(parent))
    assert files(tmp_path) == sorted([alive.name, link.name, "hot", "parent"])
    stays = tmp_path / f".z.{ended.pid}.fork.tmp", tmp_path / f".z.{10**30}.fork.tmp"
    (stays[0] / "somebody's").mkdir(parents=True)
    stays[1].mkdir()
    fork(parent.path, 20, tmp_path / "cold", changed(parent))  # what cannot be swept is no reason not to
    assert all(path.is_dir() for path in stays)
    assert (alive / "config.json").exists() and parent.config.exists()


def test_a_file_that_changes_while_it_is_copied_makes_no_fork(tmp_path, parent):
    class Swapping(Watched):
        def act(self, number, name, do, *args):
            if name == "open" and args[0].name == WEIGHTS:
                self.seen = getattr(self, "seen", 0) + 1
                if self.seen == 2:
                    poke(parent.weights(20), 100, b"other")
            return do(*args)

    with pytest.raises(CheckpointError, match="found other bytes than a moment ago"):
        fork(parent.path, 20, tmp_path / "hot", changed(parent), files=Swapping())
    assert files(tmp_path) == ["parent"] and rotation.pins(parent.path) == {}


# ------------------------------------------------------------------------------------------------------- it trains


def test_a_fork_of_the_learning_rate_trains_at_that_rate_from_the_same_weights(tmp_path, parent):
    made = fork(parent.path, 20, tmp_path / "hot", changed(parent, lr=0.5, steps=60))
    rates, moved = {}, {}
    for run in (parent, made):
        config = load_config(run.config)
        engine = tiny.engine(config, weights=run.weights(20))
        try:
            start = tiny.vectors(engine)
            for name, values in zip(("weights", "m", "v"), arrays(20), strict=True):
                assert start[name].tobytes() == values.tobytes()
            rates[run.name] = [tiny.one(engine)["lr"] for _ in range(2)]
            moved[run.name] = float(np.linalg.norm(tiny.vectors(engine)["weights"] - start["weights"]))
        finally:
            engine.close()
        assert rates[run.name] == [float(str(np.float32(learning_rate(config.train, step)))) for step in (21, 22)]
    assert rates["hot"][0] > 400 * rates["parent"][0] and moved["hot"] > 10 * moved["parent"]
