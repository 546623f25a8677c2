"""A loss view on screen: the widget, and the thread that follows the runs and sends what is new.

The thread never prints, never raises and holds no lock that a training loop waits for. Frames go out as messages of the
widget; the state that a page asks for when it opens or is loaded again is made of the feeds when it is asked for: the
records are held once.
"""

import atexit
import os
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from andrea_lab.checkpoint.lock import LockError, seen_at_work
from andrea_lab.run.control import send
from andrea_lab.run.directory import RunError
from andrea_lab.view.assets import css, esm
from andrea_lab.view.facts import OVER
from andrea_lab.view.feed import Feed
from andrea_lab.view.frame import RECORD

if TYPE_CHECKING:
    from andrea_lab.view.lossview import LossView

PERIOD = 0.25  # seconds between two looks at a run at work, at least
CALM = 1.0  # between two at any other
STORED = 2**20  # bytes of records that may stand in the widget's state, which a notebook may store
KEEP = 60.0  # seconds between two refreshments of what a notebook would store while a run is at work, at least
SHARE = 0.005  # of the time that these may take: the picture of a million steps takes a second
PATIENCE = 2.0  # seconds that the end of the process waits for a thread


class LossWidget(anywidget.AnyWidget):
    """The view as a widget; its state is what a page, or a stored notebook, begins with.

    runs: names. frames: all records, or none where they are more than STORED bytes: then a page is sent them when it
    asks. still: the picture of the end, or of a run of more than STORED bytes as it was a while ago. options: of the
    component: "span" where one was asked for, else it goes by the length of the run.
    """

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    runs = traitlets.List(traitlets.Unicode()).tag(sync=True)
    frames = traitlets.List(traitlets.Bytes()).tag(sync=True)
    still = traitlets.Bytes().tag(sync=True)
    options = traitlets.Dict().tag(sync=True)

    def __init__(self, view: "LossView"):
        self.follower = Follower(self, view)
        options = {} if view.smooth is None else {"span": view.smooth}
        first = {"runs": [feed.name for feed in view.feeds], "options": options}
        first |= {} if self.follower.fits() else {"still": view.snapshot()}
        super().__init__(**first, _esm=esm(), _css=css())
        self.on_msg(lambda _, content, __: self.follower.heard(content))
        # A page's messages come on a thread of their own while a cell runs. The kernel would send later ones to the
        # thread that answered last, which is busy; its own choice, by page, is the right one.
        if hasattr(self.comm, "_reply_subshell_for"):
            self.comm._reply_subshell_for = lambda data, default: default
        self.follower.start()

    def get_state(self, key=None, drop_defaults=False):
        """The traits, `frames` made of the feeds at this moment."""
        state = super().get_state(key, drop_defaults)
        if "frames" in state:
            state["frames"] = self.follower.frames()
        return state

    def close(self) -> None:
        self.follower.close()
        super().close()


class Follower:
    """Keeps one widget up with the runs of its view. Any thread may call any method.

    Its thread works from the start, as the first message of a page may wait for the cell that runs, until the last page
    that shows the widget says that it does no more; a page that comes later starts another. A widget itself is kept for
    good by the kernel.
    """

    def __init__(self, widget: LossWidget, view: "LossView"):
        self.widget, self.view, self.feeds = widget, view, view.feeds
        for feed in self.feeds:
            feed.catch_up()
        self._sent = [_key(feed) for feed in self.feeds]  # the page begins with these
        self._states = [feed.state for feed in self.feeds]
        self._kept, self._moved = time.monotonic(), False  # what a notebook stores, and whether there is more by now
        self._pause = KEEP
        self._lock = threading.RLock()
        self._pages: set[str] = set()  # that show the widget
        self._gone: set[str] = set()  # that did; what they sent before may still come
        self._closed = False
        self._ended, self._woken = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Follow the runs on a thread; nothing when one does, or when the widget is closed."""
        with self._lock:
            if self._closed or (self._thread is not None and not self._ended.is_set()):
                return
            self._ended = threading.Event()
            self._thread = threading.Thread(target=self._follow, args=(self._ended,), name="loss view", daemon=True)
            self._thread.start()
            _alive.add(self)

    def _follow(self, ended: threading.Event) -> None:
        """The thread: look, wait, until it is ended."""
        while not ended.is_set():
            self._woken.clear()
            pause = CALM
            with suppress(Exception):  # a page that is gone, a kernel that is leaving: nobody could be told
                pause = self.tick()
            if not ended.wait(PERIOD):
                self._woken.wait(pause - PERIOD)

    def stop(self) -> None:
        """Let the thread end; it may still be in the middle of a look."""
        self._ended.set()
        self._woken.set()

    def close(self) -> None:
        """Let the thread end, for good."""
        self._closed = True
        self.stop()

    def join(self) -> None:
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(PATIENCE)

    def look(self, final: bool = False) -> None:
        """Look soon; with `final` now, to the end of the logs, and keep the picture."""
        if not final:
            self._woken.set()
            return
        with self._lock:
            for feed in self.feeds:
                feed.catch_up()
            self._keep()
            self.tick()
            self._keep(still=True)

    def tick(self) -> float:
        """Read what is new and send it; returns the seconds until the next time."""
        with self._lock:
            for feed in self.feeds:
                feed.read()
            states = [feed.state for feed in self.feeds]
            over = any(now != before and now in OVER for now, before in zip(states, self._states, strict=True))
            self._states = states
            if over:
                self._keep()  # first: a page may be saved as soon as it shows the end
            for index, feed in enumerate(self.feeds):
                self._send_new(index, feed)
            due = self._moved and time.monotonic() - self._kept > self._pause
            if due:
                self._keep()
            if over or (due and not self.fits()):
                self._keep(still=True)
        return PERIOD if any(feed.lively for feed in self.feeds) else CALM

    def _send_new(self, index: int, feed: Feed) -> None:
        key = _key(feed)  # before the frames are made: what comes in between goes out twice rather than never
        generation, records, version = self._sent[index]
        if self._sent[index] == key:
            return
        for frame in feed.frames(records if generation == key[0] else 0):
            self.widget.send({"kind": "frame", "index": index}, [frame])
        self._sent[index], self._moved = key, True

    def _keep(self, still: bool = False) -> None:
        """Refresh what a notebook stores, with or without the picture.

        It stores what was sent as state, which the frames of an update are not.
        """
        began = time.thread_time()
        if still:
            self.widget.still = self.view.snapshot()
        else:
            self.widget.send_state("frames")
        self._pause = max(KEEP, (time.thread_time() - began) / SHARE)
        self._kept, self._moved = time.monotonic(), False

    def fits(self) -> bool:
        """Whether all records may stand in the widget's state."""
        return sum(feed.records for feed in self.feeds) * RECORD <= STORED

    def frames(self) -> list[bytes]:
        """The frames that stand in the widget's state."""
        return [frame for feed in self.feeds for frame in feed.frames()] if self.fits() else []

    # ------------------------------------------------------------------------------------------------ messages

    def heard(self, content: Any) -> None:
        """A message of the page, on whichever thread it came. What is none of ours is passed over."""
        with suppress(Exception):
            if content["kind"] == "attach":
                self._attach(content["page"], content["have"])
            elif content["kind"] == "detach":
                self._detach(content["page"])
            elif content["kind"] == "control" and content["wish"] in ("save", "stop"):
                feed = dict(enumerate(self.feeds))[content["index"]]
                ok, text = self._ask(feed, content["wish"])
                self.widget.send({"kind": "said", "id": content["id"], "ok": ok, "text": text})
                self.look()

    def _attach(self, page: str, have: list[list[int]]) -> None:
        """A page has these [generation, records] of each run: send it the rest."""
        with self._lock:
            if page in self._gone:
                return
            self._pages.add(page)
            for index, (generation, records) in enumerate(have[: len(self.feeds)]):
                self._sent[index] = int(generation), max(int(records), 0), -1
        self.start()
        self.look()

    def _detach(self, page: str) -> None:
        """A page shows the widget no more."""
        with self._lock:
            self._gone.add(page)
            self._pages.discard(page)
            if not self._pages:
                self.stop()

    @staticmethod
    def _ask(feed: Feed, wish: str) -> tuple[bool, str]:
        """Ask the engine at work; returns whether that went well and what there is to say.

        One in this very process is asked by file: were it just gone, a signal would end the kernel.
        """
        try:
            engine = seen_at_work(feed.run.path, "engine")
            mine = engine is not None and engine.here and engine.pid == os.getpid()
            return True, send(feed.run, wish, by="file" if mine else "signal")
        except (RunError, LockError, OSError) as error:
            return False, str(error)


_alive: "weakref.WeakSet[Follower]" = weakref.WeakSet()


def _key(feed: Feed) -> tuple[int, int, int]:
    return feed.generation, feed.records, feed.version


@atexit.register
def _leave() -> None:
    """Before the process ends and takes the channels away."""
    for follower in list(_alive):
        follower.stop()
    for follower in list(_alive):
        follower.join()
