"""What stands in a folder: names in order of number, and one verdict for each file."""

import os

import pytest

from andrea_lab.checkpoint.files import Files
from andrea_lab.checkpoint.single import file_name, step_of
from andrea_lab.checkpoint.verify import candidates, examine, scan, survey
from tests.checkpoint.faults import Watched
from tests.checkpoint.material import N, arrays, names, newest_good, put

ODD = [
    *("step_00042.bin", "step_1.bin", "step_0000a1.bin", "step_000042.bin.sum", "step_000042.bin.was-1"),
    *("step_000042.bin.bad-2", "step_000042.bin.nonfinite-1", ".step_000042.bin.1-1.tmp", "Step_000042.bin"),
    *("step_000042.BIN", "step_-00042.bin", "step_+00042.bin", "step_000042", "step_٠٠٠٠٤٢.bin", "x_step_000042.bin"),
    *(" step_000042.bin", "step_000042.bin ", "step_000042.bin\n", "step_000042.bin.pin", "latest", "engine.lock"),
]


def test_names_go_by_number_and_odd_ones_do_not_count(tmp_path):
    for name in [*ODD, "step_000900.bin", "step_999999.bin", "step_1000000.bin", "step_000042.bin"]:
        (tmp_path / name).touch()
    (tmp_path / "step_00999999.bin").mkdir()
    expected = ["step_000042.bin", "step_000900.bin", "step_999999.bin", "step_1000000.bin"]
    assert [path.name for path in scan(tmp_path)] == expected
    assert candidates(tmp_path) == scan(tmp_path)[::-1]
    assert scan(tmp_path)[0].parent == tmp_path
    assert [step_of(name) for name in ODD] == [None] * len(ODD)
    assert [step_of(file_name(step)) for step in (0, 42, 10**6)] == [0, 42, 10**6]
    with pytest.raises(FileNotFoundError):
        scan(tmp_path / "none")


def test_a_scan_opens_nothing(tmp_path, monkeypatch):
    for step in range(300):
        (tmp_path / file_name(step)).touch()

    def refuse(*args):
        raise AssertionError("opened")

    monkeypatch.setattr(Files, "open", refuse)
    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "stat", refuse)
    assert [step_of(path.name) for path in scan(tmp_path)] == list(range(300))


def test_one_verdict_for_each_file(tmp_path):
    for step in range(1, 9):
        put(tmp_path, step, step)
    (tmp_path / f"{file_name(1)}.sum").unlink()
    paths = {step: tmp_path / file_name(step) for step in range(1, 9)}
    paths[2].write_bytes(paths[2].read_bytes()[:-4])
    data = bytearray(paths[3].read_bytes())
    data[150] ^= 1
    paths[3].write_bytes(data)
    paths[4].write_bytes(paths[5].read_bytes())
    (tmp_path / f"{file_name(4)}.sum").write_bytes((tmp_path / f"{file_name(5)}.sum").read_bytes())
    paths[6].write_bytes(b"")
    paths[7].unlink()
    os.mkfifo(paths[7])
    found = survey(tmp_path)
    assert [(v.step, v.verdict) for v in found] == [
        *((1, "unverified"), (2, "torn"), (3, "flipped"), (4, "wrong step"), (5, "committed"), (6, "torn")),
        *((7, "torn"), (8, "committed")),
    ]
    assert [v.file for v in found] == list(paths.values())
    assert found[2].reason.startswith("m layer0.W_Q: found other bytes than were saved")
    assert found[4].reason == "" and (found[4].nbytes, found[4].n_params) == (8 + 12 * N, N)
    assert all(v.reason for v in found if v.verdict != "committed")
    assert newest_good(tmp_path)[0] == 8
    assert [v.verdict for v in survey(tmp_path, n_params=N + 1)].count("torn") == 7


def test_a_missing_file_has_a_verdict_too(tmp_path):
    found = examine(tmp_path / file_name(3))
    assert (found.step, found.verdict, found.nbytes) == (3, "torn", None)
    assert found.reason == "found no file, expected a weight file"


def test_a_look_changes_nothing(tmp_path):
    put(tmp_path, 7, 0)
    before, files = names(tmp_path), Watched()
    survey(tmp_path, files=files)
    assert set(files.ops) == {"open", "read"} and names(tmp_path) == before


def test_a_file_larger_than_a_piece_is_read_in_pieces(tmp_path):
    n = 300_001
    saved = put(tmp_path, 7, 0, n=n)
    files = Watched({"read"})
    found = examine(saved.file, files=files)
    assert (found.verdict, found.sha256, found.n_params) == ("committed", saved.sha256, n)
    assert len(files.ops) > 6
    w, m, v = arrays(0, n)
    assert newest_good(tmp_path, n)[1] == w.tobytes() + m.tobytes() + v.tobytes()
