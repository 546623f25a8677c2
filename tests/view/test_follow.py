"""The view on a page, without the page: what is sent, when, on which thread, and how it ends."""

import gc
import math
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

from andrea_lab.checkpoint.lock import RunLock
from andrea_lab.engine.signals import Signals
from andrea_lab.run import segments
from andrea_lab.run.directory import RunDirectory
from andrea_lab.view import LossView, follow
from andrea_lab.view.follow import LossWidget
from andrea_lab.view.frame import unpack
from tests.view.test_lossview import entry, write

PATIENCE = 60  # seconds for what takes a quarter of one


def until(true):
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


@pytest.fixture
def run(tmp_path):
    return write(tmp_path / "small", [entry(step) for step in range(1, 41)])


@pytest.fixture
def sent(monkeypatch):
    """The messages that widgets send, as (content, buffers)."""
    found = []
    monkeypatch.setattr(LossWidget, "send", lambda self, content, buffers=None: found.append((content, buffers)))
    return found


@pytest.fixture
def show(sent):
    """Makes the widget of a view; all are closed in the end."""
    made = []

    def show(*args, **options):
        made.append(LossView(*args, **options))
        return made[-1], made[-1].widget

    yield show
    for view in made:
        view.widget.close()
        view.widget.follower.join()


@pytest.fixture
def by_hand(monkeypatch):
    """No thread: looks are made by the test."""
    monkeypatch.setattr(follow.Follower, "start", lambda self: None)


def headers(sent, index=0):
    return [unpack(buffers[0]).header for content, buffers in sent if content == {"kind": "frame", "index": index}]


def test_a_page_begins_with_all_records_and_then_gets_what_is_new(run, by_hand, show, sent):
    view, widget = show(run)
    (frame,) = widget.get_state()["frames"]
    assert unpack(frame).header["count"] == 40 and widget.get_state()["runs"] == ["small"]
    follower = widget.follower
    follower.tick()
    assert sent == [], "nothing new, nothing sent"
    write(run, [entry(41), entry(42)])
    follower.tick()
    follower.tick()
    assert [(h["first"], h["count"], h["total"]) for h in headers(sent)] == [(40, 2, 42)]
    assert unpack(widget.get_state()["frames"][0]).header["count"] == 42, "as it is when it is asked for"
    assert widget.frames == [], "no second copy is held"


def test_what_another_reader_took_from_the_feed_is_sent_all_the_same(run, by_hand, show, sent):
    view, widget = show(run)
    write(run, [entry(41)])
    view.summary()
    widget.follower.tick()
    assert [(h["first"], h["count"]) for h in headers(sent)] == [(40, 1)]


def test_facts_alone_are_sent_without_records(run, by_hand, show, sent):
    view, widget = show(run)
    with RunLock(run, "proxy"):
        view.feeds[0].read(look=True)
        widget.follower.tick()
    assert [(h["count"], h["facts"]["state"]) for h in headers(sent)] == [(0, "training")]


def test_a_page_that_was_loaded_again_gets_what_it_lacks(run, by_hand, show, sent):
    view, widget = show([run, write(run.parent / "other", [entry(1)])])
    for have, expected in ([[1, 10], [1, 1]], [(10, 30), (1, 0)]), ([[0, 0], [7, 1]], [(0, 40), (0, 1)]):
        sent.clear()
        widget._handle_custom_msg({"kind": "attach", "page": "a", "have": have}, [])
        widget.follower.tick()
        assert [(headers(sent, i)[0]["first"], headers(sent, i)[0]["count"]) for i in (0, 1)] == expected


def test_a_log_that_was_replaced_is_sent_anew(run, by_hand, show, sent):
    view, widget = show(run)
    (run / "small.loss.json").write_text("")
    write(run, [entry(1), entry(2)])
    widget.follower.tick()
    assert [(h["generation"], h["first"], h["count"]) for h in headers(sent)] == [(2, 0, 2)]


def test_a_long_run_comes_when_the_page_asks_and_is_stored_as_a_picture(run, by_hand, show, sent, monkeypatch):
    monkeypatch.setattr(follow, "STORED", 100)
    view, widget = show(run)
    assert widget.get_state()["frames"] == [] and widget.still == view.snapshot()
    widget.follower.tick()
    assert sent == []
    widget._handle_custom_msg({"kind": "attach", "page": "a", "have": [[0, 0]]}, [])
    widget.follower.tick()
    assert [h["count"] for h in headers(sent)] == [40]


@pytest.mark.parametrize(
    "message",
    [None, 7, {}, {"kind": "attach"}, {"kind": "detach"}, {"kind": "attach", "page": [], "have": []}]
    + [{"kind": "attach", "page": "a", "have": have} for have in (3, [["x", 1]])]
    + [{"kind": "control", "index": -1, "wish": "save", "id": 1}]
    + [{"kind": "control", "index": 9, "wish": "save", "id": 1}, {"kind": "control", "index": 0, "wish": "abort"}]
    + [{"kind": "control", "index": 0, "wish": ["save"], "id": 1}, {"kind": "unheard of"}],
)
def test_a_message_that_makes_no_sense_is_passed_over(run, by_hand, show, sent, message, capfd):
    view, widget = show(run)
    widget._handle_custom_msg(message, [])
    widget.follower.tick()
    assert sent == [] and capfd.readouterr() == ("", "")


def test_nobody_at_work_is_an_answer(run, by_hand, show, sent):
    view, widget = show(run)
    widget._handle_custom_msg({"kind": "control", "index": 0, "wish": "save", "id": 5}, [])
    told = f"{run}: found no engine at work, expected one that holds {run / 'engine.lock'}"
    assert sent == [({"kind": "said", "id": 5, "ok": False, "text": told}, None)]


def test_an_engine_of_this_process_is_asked_by_file_from_any_thread(run, by_hand, show, sent):
    view, widget = show(run)
    with RunLock(run, "engine"), Signals() as signals:
        signals.watch(run / "control")
        for number, wish in enumerate(("save", "stop")):
            message = {"kind": "control", "index": 0, "wish": wish, "id": number}
            thread = threading.Thread(target=widget._handle_custom_msg, args=(message, []))
            thread.start()
            thread.join()
            until(lambda wish=wish: wish in signals.poll())
        assert signals.count == 0, "a signal would be for the whole kernel"
    assert [content["ok"] for content, _ in sent] == [True, True]
    assert sent[0][0]["text"].startswith(f"wrote {run / 'control' / 'save'} for engine {os.getpid()}")


def test_the_end_of_a_run_is_kept_as_a_picture(run, by_hand, show, sent):
    directory = RunDirectory(run)
    view, widget = show(run)
    number = segments.begin(directory)
    with RunLock(run, "proxy"):
        view.feeds[0].read(look=True)
        widget.follower.tick()
        assert widget.still == b""
        segments.end(directory, number, "finished")
    view.feeds[0].read(look=True)
    widget.follower.tick()
    assert widget.still == view.snapshot()
    assert headers(sent)[-1]["facts"]["state"] == "finished"


def test_what_a_notebook_would_store_is_refreshed_now_and_then(run, by_hand, show, sent, monkeypatch):
    monkeypatch.setattr(follow, "KEEP", -1.0)
    monkeypatch.setattr(follow, "SHARE", math.inf)
    view, widget = show(run)
    stored = []

    def send_state(self, key):
        if key == "frames":
            stored.append(self.get_state(key)[key])

    monkeypatch.setattr(LossWidget, "send_state", send_state)
    widget.follower.tick()
    assert stored == [], "nothing has changed since the page opened"
    write(run, [entry(41)])
    widget.follower.tick()
    widget.follower.tick()
    assert [unpack(frames[0]).header["count"] for frames in stored] == [41] and widget.still == b""
    monkeypatch.setattr(follow, "STORED", 100)
    write(run, [entry(42)])
    widget.follower.tick()
    assert stored[1] == [] and widget.still == view.snapshot(), "grown too long: the picture in their place"


def test_what_takes_long_to_refresh_is_refreshed_seldom(run, by_hand, show, sent, monkeypatch):
    view, widget = show(run)
    clock = [0.0]

    def picture():
        clock[0] += 2.0
        return b"png"

    monkeypatch.setattr(follow, "STORED", 100)
    monkeypatch.setattr(view, "snapshot", picture)
    monkeypatch.setattr(follow.time, "thread_time", lambda: clock[0])
    monkeypatch.setattr(follow.time, "monotonic", lambda: clock[0])
    widget.follower._kept = 0.0  # by this clock
    drawn = []
    for minute in range(1, 61):
        clock[0] = 60.0 * minute
        write(run, [entry(40 + minute)])
        widget.follower.tick()
        drawn += [minute] * (clock[0] > 60.0 * minute)
    assert 2 <= len(drawn) <= 60 * 60 * follow.SHARE / 2.0 + 1


def test_the_kernel_chooses_the_thread_of_each_message_by_itself(run, by_hand, show, monkeypatch):
    class Channel:
        comm_id = "1"
        _reply_subshell_for = staticmethod(lambda data, default: "busy")

        def on_msg(self, callback):
            pass

        def close(self, *_, **__):
            pass

    monkeypatch.setattr("comm.create_comm", lambda **_: Channel())
    view, widget = show(run)
    assert widget.comm._reply_subshell_for({}, "subshell") == "subshell"


def test_a_final_update_reads_to_the_end_sends_and_keeps_the_picture(run, by_hand, show, sent):
    view, widget = show(run, vocab=257, steps=60)
    write(run, [entry(step) for step in range(41, 61)])
    assert view.update() is None and sent == []
    view.update(final=True)
    assert [h["count"] for h in headers(sent)] == [20]
    assert widget.still == LossView(run, vocab=257, steps=60).snapshot()
    LossView(run).update(final=True)  # of a view that is nowhere on screen: nothing to do


def test_what_goes_wrong_while_drawing_or_sending_reaches_nobody(run, show, monkeypatch, capfd):
    tried = []

    def broken(self, content, buffers=None):
        tried.append(content)
        raise RuntimeError("the page is gone")

    view, widget = show(run)
    monkeypatch.setattr(LossWidget, "send", broken)
    write(run, [entry(41)])
    until(lambda: len(tried) > 1)
    monkeypatch.setattr(LossWidget, "send", lambda self, content, buffers=None: tried.append(buffers))
    until(lambda: any(isinstance(each, list) for each in tried))
    assert capfd.readouterr() == ("", "")


def test_a_thread_follows_the_run_and_ends_with_the_widget(run, show, sent):
    view, widget = show(run)
    thread = widget.follower._thread
    assert thread.daemon and thread.is_alive()
    for step in range(41, 44):
        write(run, [entry(step)])
        until(lambda step=step: headers(sent) and headers(sent)[-1]["total"] == step)
    widget.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_the_thread_ends_with_the_last_page_and_another_begins_with_the_next(run, show, sent):
    view, widget = show(run)
    first = widget.follower._thread
    for page in "ab":
        widget._handle_custom_msg({"kind": "attach", "page": page, "have": [[1, 40]]}, [])
    widget._handle_custom_msg({"kind": "detach", "page": "a"}, [])
    assert first.is_alive() and widget.follower._thread is first, "b still shows it"
    widget._handle_custom_msg({"kind": "detach", "page": "b"}, [])
    first.join(PATIENCE)
    assert not first.is_alive()
    sent.clear()
    widget._handle_custom_msg({"kind": "attach", "page": "b", "have": [[1, 40]]}, [])
    assert widget.follower._thread is first, "a message of before that came late"
    write(run, [entry(41)])
    widget._handle_custom_msg({"kind": "attach", "page": "c", "have": [[1, 40]]}, [])
    until(lambda: headers(sent) and headers(sent)[-1]["total"] == 41)
    assert widget.follower._thread is not first
    widget.close()
    widget.follower.join()
    widget._handle_custom_msg({"kind": "attach", "page": "d", "have": [[1, 0]]}, [])
    assert not widget.follower._thread.is_alive(), "closed is closed"


def test_the_thread_sends_four_times_a_second_at_most(run, show, sent):
    view, widget = show(run)
    start, step = time.monotonic(), 40
    while time.monotonic() - start < 2:
        step += 1
        write(run, [entry(step)])
        view.update()
        time.sleep(0.005)
    taken = time.monotonic() - start
    assert 1 <= len(headers(sent)) <= taken / follow.PERIOD + 2


def test_a_closed_view_leaves_no_thread_and_is_collected(run, sent):
    view = LossView(run)
    thread, widget = view.widget.follower._thread, view.widget
    gone = weakref.ref(view)
    widget.close()
    del view, widget
    thread.join(PATIENCE)
    gc.collect()
    assert gone() is None and not thread.is_alive()


PROGRAM = """
import sys
from andrea_lab.view import LossView
view = LossView(sys.argv[1])
view.widget
view.update()
print("shown", flush=True)
sys.exit(3)
"""


def test_a_process_that_leaves_is_not_held_up_and_says_nothing(run):
    root = Path(__file__).parents[2]
    env = os.environ | {"PYTHONPATH": str(root)}
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(run)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (3, "shown\n", "")


def test_a_stop_from_the_page_ends_a_run_of_another_process(tmp_path, by_hand, show, sent):
    code = """
import sys, time
from andrea_lab.checkpoint.lock import RunLock
from andrea_lab.engine.signals import Signals
with RunLock(sys.argv[1], "engine"), Signals() as signals:
    print("at work", flush=True)
    while "stop" not in signals.poll():
        time.sleep(0.01)
    print("stopped", signals.count)
"""
    run = write(tmp_path / "r", [entry(1)])
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert process.stdout.readline() == "at work\n"
        view, widget = show(run)
        assert view.feeds[0].facts()["control"]
        widget._handle_custom_msg({"kind": "control", "index": 0, "wish": "stop", "id": 1}, [])
        assert process.communicate(timeout=PATIENCE)[0] == "stopped 1\n" and process.returncode == 0
        assert sent[0][0]["text"].startswith(f"sent SIGTERM to engine {process.pid}")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.communicate()
