"""`bench checkpoint` on a tiny model: what it times is proved right first, and its aims are judged as stated."""

import json
import sys
from pathlib import Path

import pytest

from andrea_lab.bench import checkpoint
from andrea_lab.bench.checkpoint import AIMS, _alone, _line, _rows
from andrea_lab.bench.checkpoint_sides import State
from andrea_lab.bench.server import BenchError
from andrea_lab.cli import main
from andrea_lab.model.config import parse

PEER = [sys.executable, str(Path(__file__).with_name("saving_peer.py"))]
NAMES = ["background save", "save", "save", "load", "append", "open a log of 2,000 lines", "scan 50 checkpoints"]


def tiny():
    model = {"vocab": 257, "context": 16, "width": 32, "heads": 2, "layers": 2}
    return parse({"name": "tiny", "model": model, "train": {"batch": 2, "context": 16, "steps": 50}}, "test")


def run(tmp_path, *peer, **fields):
    return checkpoint.run(config=tiny(), quick=True, folder=str(tmp_path), peer_command=[*PEER, *peer], **fields)


def test_every_line_is_measured(tmp_path):
    told = []
    result = run(tmp_path, progress=told.append)
    json.dumps(result, allow_nan=False)
    assert [line["name"] for line in result["lines"]] == NAMES and told[0] == "proof"
    assert result["nbytes"] == 8 + 12 * result["params"] and result["torch"] == "none, a plain file"
    for line in result["lines"]:
        assert 0 < line["min_ms"] <= line["ms"] <= line["max_ms"] and line["ms"] <= line["p95_ms"] * 1.0001
        if "beside" in line:
            assert line["ratio_min"] <= line["ratio"] <= line["ratio_max"] and line["beside_ms"] > 0
    assert [line.get("aim", line.get("aim_ms")) for line in result["lines"]] == [1.5, 1.3, None, 1.3, 2.0, 50.0, 500.0]
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
    assert checkpoint.figures(result).rich().row_count == len(NAMES) + 1
    assert (
        "| save : torch.save |" in checkpoint.figures(result).markdown()
        and "a quick run" in checkpoint.figures(result).markdown()
    )


def test_the_peer_is_left_out_where_nobody_asked_and_missed_where_somebody_did(tmp_path, monkeypatch):
    with pytest.raises(BenchError, match="^torch: found no module 'torch', expected it there: .*--peer-python"):
        run(tmp_path, "missing")
    monkeypatch.setattr(checkpoint, "PEER", Path(__file__).with_name("missing_peer.py"))
    result = checkpoint.run(config=tiny(), quick=True, folder=str(tmp_path))
    assert result["torch"] is None and [line["name"] for line in result["lines"]] == [*NAMES[:2], *NAMES[3:]]


def test_a_save_that_changes_bytes_is_not_timed(tmp_path, monkeypatch):
    save = State.save

    def spoiled(self, wait):
        save(self, wait)
        self.arrays[0][0] += 1
        return 1.0

    monkeypatch.setattr(State, "save", spoiled)
    with pytest.raises(BenchError, match="^step_000001.bin: found other bytes than were saved, expected the same$"):
        run(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_aim_is_met_by_the_median_of_the_ratios():
    line = _line("a", "b", [2.0, 3.0, 9.0], [1.0, 2.0, 3.0], aim=2.0)
    assert (line["ratio"], line["ratio_min"], line["ratio_max"], line["met"]) == (2.0, 1.5, 3.0, True)
    assert not _line("a", "b", [2.0, 3.0, 9.0], [1.0, 2.0, 3.0], aim=1.9)["met"]
    assert _line("a", "b", [1.0], [1.0], aim=None)["met"] is None
    assert _alone("a", [0.01, 0.04, 0.06], 50.0)["met"] and not _alone("a", [0.01, 0.06, 0.06], 50.0)["met"]


def test_a_stall_is_judged_by_its_slowest_twentieth(tmp_path, monkeypatch):
    held = {"ours": [1.0] * 18 + [9.0] * 2, "beside": [1.0] * 20}
    monkeypatch.setattr(checkpoint.timing, "by_turns", lambda sides, rounds: held)
    state = State(tiny(), tmp_path)
    line = checkpoint._stalls(state, checkpoint.QUICK, str)
    state.saver.close()
    assert line["ratio"] == 1.0 and line["p95_ratio"] == 9.0 and line["aim"] == AIMS["stall"] and not line["met"]
    whole, slowest = _rows({"lines": [line]})
    assert whole == ("background save : a copy", "1000", "1000", "1.00 (1.00 to 9.00)", "", "")
    assert slowest == ("background save, p95", "9000", "1000", "9.00", "1.5", "no")


def test_the_command_hands_on_its_options(monkeypatch, capsys, tmp_path):
    asked = {}

    def noted(*, progress, **options):
        asked.update(options)
        return {"bench": "checkpoint"}

    monkeypatch.setattr(checkpoint, "run", noted)
    options = ["--quick", "--json", "--folder", str(tmp_path), "--peer-python", "python-of-torch"]
    assert main(["bench", "checkpoint", *options]) == 0
    assert asked == {"folder": str(tmp_path), "peer_python": "python-of-torch", "quick": True}
    assert json.loads(capsys.readouterr().out) == {"bench": "checkpoint"}


def test_a_folder_that_is_not_there_is_one_line(capsys, tmp_path):
    assert main(["bench", "checkpoint", "--quick", "--folder", str(tmp_path / "none")]) == 2
    told = f"folder: found no folder {tmp_path / 'none'}, expected one on the disk to measure"
    assert capsys.readouterr().err == f"andrea: {told}\n"
