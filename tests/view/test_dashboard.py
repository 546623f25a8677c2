"""The dashboard's server and its saved page: which runs are listed, what is said of them, what is sent."""

import base64
import os

import numpy as np
import pytest

from andrea_lab.checkpoint.files import REAL
from andrea_lab.run import segments
from andrea_lab.run.directory import RunDirectory
from andrea_lab.run.losslog import encode
from andrea_lab.view.dashboard import listing, page
from andrea_lab.view.dashboard.feeds import IDLE, MOST, Feeds
from andrea_lab.view.dashboard.save import save_page
from andrea_lab.view.frame import unpack
from tests.run.made import entry, logged
from tests.view.served import served

# ---- what is listed ----------------------------------------------------------------------------------------------


def test_runs_are_listed_by_their_path_sorted_and_no_deeper_than_three(client):
    found = client.json("/api/runs")
    assert [row["id"] for row in found["runs"]] == ["a", "sweep/b", "x/y/c"]
    assert (found["folder"], found["control"], found["left_out"]) == ("runs", False, 0)
    row = found["runs"][1]
    assert (row["name"], row["state"], row["step"], row["steps"], row["loss"]) == ("b", "not recorded", 8, 20, 4.2)
    assert row["changed"] == pytest.approx(os.stat(client.server.site.folder / "sweep/b/b.loss.json").st_mtime)


def test_a_folder_that_is_a_run_is_one_run(runs):
    with served(runs / "sweep" / "b") as client:
        assert [row["id"] for row in client.json("/api/runs")["runs"]] == ["b"]
        assert client.frame("b").header["total"] == 8


def test_what_is_not_listed_for_their_number_is_counted(runs, monkeypatch):
    monkeypatch.setattr(listing, "MOST_RUNS", 2)
    found, left_out = listing.find(runs)
    assert len(found) == 2 and left_out >= 1


def test_a_name_that_is_no_text_is_left_out(runs):
    os.mkdir(os.fsencode(runs) + b"/\xff\xfe")
    assert listing.find(runs)[1] == 1


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", "waiting"),
        ('{"event": "begin", "segment": 1}\n', "killed"),
        ('{"event": "begin", "segment": 1}\n{"event": "end", "segment": 1, "outcome": "interrupted"}\n', "stopped"),
        ('{"event": "end", "segment": 1, "outcome": "finished"}\n{"event": "begin", "segment": 2}\n', "killed"),
        ('{"event": "end", "segment": 2, "outcome": "diverged"}\n{"event": "end", "segment": 1}\nto', "diverged"),
        ('{"event": "end", "segment": 1, "outcome": ["' + "x" * 99 + '"]}\n', "unknown"),
        ('[]\n{"segment": 1}\n{"event": "end", "segment": "1"}\n\0\0', "waiting"),
    ],
)
def test_the_state_is_what_the_last_segment_says(tmp_path, lines, expected):
    run = logged(tmp_path / "r", {})
    run.segments.write_text(lines)
    assert listing.Rows().read({"r": run.path})[0]["state"] == expected


def test_a_run_at_work_is_training(tmp_path):
    run = logged(tmp_path / "r", {1: 5.0})
    segments.begin(run, from_step=0)
    rows = listing.Rows()
    with run.lock("proxy"):
        assert rows.read({"r": run.path})[0]["state"] == "training"
    assert rows.read({"r": run.path})[0]["state"] == "killed"


def test_a_row_follows_its_run(tmp_path):
    run, rows = logged(tmp_path / "r", {1: 5.0}), listing.Rows()
    assert rows.read({"r": run.path})[0]["step"] == 1
    with open(run.log, "a") as log:
        log.write(encode(entry(2, float("nan"))) + "\n" + '{"step": 3, "lo')
    row = rows.read({"r": run.path})[0]
    assert (row["step"], row["loss"]) == (2, "nan")


def garbage(run):
    """Files that are none: every byte, deep nesting, keys twice, and steps beyond all counting."""
    run.config.write_bytes(b'{"train": ' + b"[" * 100_000)
    run.segments.write_bytes(bytes(range(256)) * 99)
    lines = [
        bytes(range(256)) * 40,
        b"[" * 50_000,
        b'{"step": 1e3}',
        b'{"step": 99999999999999999999}',
        b'{"step": -1}',
    ]
    run.log.write_bytes(b"\n".join([encode(entry(4, 3.5)).encode(), *lines, b'{"loss": 1', b""]))


def test_malformed_files_are_passed_over(runs):
    garbage(RunDirectory(runs / "a"))
    with served(runs) as client:
        row = client.json("/api/runs")["runs"][0]
        assert (row["id"], row["step"], row["steps"], row["loss"]) == ("a", 4, None, 3.5)
        header = client.frame("a").header
        assert header["total"] == 1 and header["facts"]["unreadable"] >= 5


def test_one_endless_line_costs_no_more_than_its_end(tmp_path):
    run = logged(tmp_path / "r", {1: 5.0})
    with open(run.log, "ab") as log:
        log.truncate(4 * 2**30)  # a hole, which reads as zeros
    assert listing.last_entry(run.log) is None


@pytest.mark.parametrize("what", ["fifo", "folder", "link"])
def test_what_is_no_file_is_not_opened(tmp_path, what):
    run = logged(tmp_path / "r", {1: 5.0})
    run.log.unlink()
    if what == "fifo":
        os.mkfifo(run.log)
    elif what == "folder":
        run.log.mkdir()
    else:
        run.log.symlink_to(run.config)
    row = listing.Rows().read({"r": run.path})[0]
    assert (row["step"], row["steps"]) == (None, 20)


# ---- frames ------------------------------------------------------------------------------------------------------


def test_a_frame_holds_what_the_asker_has_not(client, runs):
    whole = client.frame("a")
    assert whole.header["count"] == whole.header["total"] == 8
    np.testing.assert_array_equal(whole.columns["step"], range(1, 9))
    generation = whole.header["generation"]
    with open(RunDirectory(runs / "a").log, "a") as log:
        log.write(encode(entry(9, 1.5)) + "\n")
    more = client.frame("a", generation=generation, first=8)
    assert (more.header["first"], more.header["count"], more.columns["loss"][0]) == (8, 1, 1.5)
    assert client.frame("a", generation=generation, first=9).header["count"] == 0
    for query in ({"generation": generation + 1, "first": 5}, {"generation": generation, "first": 10}):
        assert client.frame("a", **query).header["first"] == 0, "what it has does not count: from the start"


def test_nothing_new_is_not_sent_again(client):
    status, headers, _ = client.ask("/api/runs/a/frame?generation=1&first=8")
    assert status == 200
    status, _, body = client.ask("/api/runs/a/frame?generation=1&first=8", If_None_Match=headers["Etag"])
    assert (status, body) == (304, b"")


def test_a_feed_made_anew_has_another_name(client):
    names = {client.ask("/api/runs/a/frame")[1]["Andrea-Feed"] for _ in range(2)}
    client.server.site.feeds = Feeds()
    assert len(names) == 1 and client.ask("/api/runs/a/frame")[1]["Andrea-Feed"] not in names


def test_a_run_that_vanishes_is_no_longer_there(client, runs, monkeypatch):
    monkeypatch.setattr("andrea_lab.view.dashboard.server.FRESH", -1.0)
    assert client.frame("a").header["total"] == 8
    (runs / "a").rename(runs.parent / "gone")
    assert client.ask("/api/runs/a/frame")[0] == 404
    assert [row["id"] for row in client.json("/api/runs")["runs"]] == ["sweep/b", "x/y/c"]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_feeds_that_nobody_asks_for_are_dropped(runs):
    clock = Clock()
    feeds = Feeds(clock=clock)
    feeds.frame("a", runs / "a", 0, 0)
    clock.now = IDLE / 2
    feeds.frame("b", runs / "sweep/b", 0, 0)
    clock.now = IDLE + 1
    feeds.tidy()
    assert len(feeds) == 1
    for number in range(MOST + 5):
        feeds.frame(str(number), runs / "a", 0, 0)
    assert len(feeds) == MOST


# ---- one file ----------------------------------------------------------------------------------------------------


def test_a_saved_page_holds_every_record_and_asks_nobody(runs, tmp_path):
    file = tmp_path / "page.html"
    assert save_page(runs, file, []) == ["a", "sweep/b", "x/y/c"]
    text = file.read_text()
    assert page.ALONE in text and "static/" not in text and 'from "./' not in text
    frames = [part.partition("<")[0] for part in text.split('" data-frame="')[1:]]
    numbers, codes = zip(*(part.split('">') for part in frames), strict=True)
    assert numbers == ("0", "1", "2")
    assert [unpack(base64.b64decode(code)).header["count"] for code in codes] == [8, 8, 8]


def test_a_saved_page_may_hold_some_runs(runs, tmp_path):
    assert save_page(runs, tmp_path / "one.html", ["sweep/b"]) == ["sweep/b"]
    text = (tmp_path / "one.html").read_text()
    assert text.count('" data-frame="') == 1 and '"id": "a"' not in text


def test_a_name_cannot_end_the_script_it_stands_in(tmp_path):
    folder = tmp_path / "runs"
    logged(folder / "<!--<script>", {1: 5.0})
    save_page(folder, tmp_path / "page.html", [])
    assert "<!--<script>" not in (tmp_path / "page.html").read_text()


def test_a_save_that_fails_leaves_nothing(runs, tmp_path, monkeypatch):
    def full(self, fd, data):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(type(REAL), "write", full)
    with pytest.raises(OSError, match="No space left"):
        save_page(runs, tmp_path / "page.html", [])
    assert not list(tmp_path.glob("*.html")) and not list(tmp_path.glob(".*.tmp"))
