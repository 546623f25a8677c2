"""What the dashboard's server answers, and to whom.

Reading is all it does unless control is allowed. A request must name this server in its Host header, so that no other
site's name can be made to point here (DNS rebinding); control needs the token, a page of this very origin and a JSON
body, so that no other site's page can ask for anything. A run's id is looked up in the listing: no path of a request
is ever joined to a folder.
"""

import asyncio
import hmac
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from tornado.web import Application, HTTPError, RequestHandler

from andrea_lab import strict_json
from andrea_lab.checkpoint.lock import LockError
from andrea_lab.run import control
from andrea_lab.run.directory import RunDirectory, RunError
from andrea_lab.view.dashboard import listing, page
from andrea_lab.view.dashboard.feeds import Feeds

THREADS = 8  # read files, so that no slow disk keeps the server from answering
FRESH = 1.0  # seconds for which a listing is believed
LONGEST_BODY = 4096  # bytes of a request
NUMBER = re.compile(r"[0-9]{1,15}")
WISHES = ("save", "stop")
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Andrea-Dashboard": "1",  # by which the page knows us from another server at this address
}


@dataclass
class Site:
    """One served folder.

    names: host names under which it is reached, besides the loopback addresses and, when it is `open_to_others`, any
    numeric address. token: what must come with a request for control, and with every request for runs when `closed`;
    None: nobody may control.
    """

    folder: Path
    names: frozenset[str] = frozenset({"localhost"})
    open_to_others: bool = False
    token: str | None = None
    closed: bool = False
    control: bool = False
    feeds: Feeds = field(default_factory=Feeds)
    rows: listing.Rows = field(default_factory=listing.Rows)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, "dashboard"))

    def __post_init__(self) -> None:
        self._listed, self._at, self._lock = None, 0.0, asyncio.Lock()

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call what reads files, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, function, *arguments)

    async def listed(self) -> tuple[dict[str, Path], list[dict[str, Any]], int]:
        """({id: run directory}, rows, how many runs were left out), at most FRESH seconds old."""
        async with self._lock:
            if self._listed is None or monotonic() - self._at > FRESH:
                self._listed = await self.run(self._list)
                self._at = monotonic()
            return self._listed

    def _list(self) -> tuple[dict[str, Path], list[dict[str, Any]], int]:
        runs, left_out = listing.find(self.folder)
        return runs, self.rows.read(runs), left_out

    def is_served(self, host: str) -> bool:
        """Whether a Host header names this server. A numeric address needs no name server, so nobody can bend it."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        try:
            return ip_address(name).is_loopback or self.open_to_others
        except ValueError:
            return name in self.names


class Guarded(RequestHandler):
    """What every answer has in common: who may ask, the headers, errors as one line of JSON."""

    SUPPORTED_METHODS = ("GET", "HEAD", "POST")

    def initialize(self, site: Site) -> None:
        self.site = site

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        if not self.site.is_served(self.request.host):
            raise HTTPError(421, reason="This server is not reached by that name")

    def write_error(self, status_code: int, **_: Any) -> None:
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        if status_code == 401:
            self.set_header("WWW-Authenticate", "token")
        self.finish({"ok": False, "text": self._reason})

    def log_exception(self, kind: Any, value: Any, trace: Any) -> None:
        """What was asked wrongly is answered, not logged; a fault of our own is told in full."""
        if not isinstance(value, HTTPError):
            super().log_exception(kind, value, trace)


class Text(Guarded):
    """The page and what it is made of. Holds nothing about any run, so it needs no token."""

    def initialize(self, site: Site, kind: str, text: str) -> None:
        super().initialize(site)
        self.kind, self.text = kind, text

    async def get(self) -> None:
        self.set_header("Content-Type", f"{self.kind}; charset=utf-8")
        self.set_header("Cache-Control", "no-cache")
        self.finish(self.text)

    head = get


class Api(Guarded):
    """What tells or changes something about runs."""

    def prepare(self) -> None:
        super().prepare()
        self.set_header("Cache-Control", "no-store")
        if self.site.closed:
            self.check_token()

    def check_token(self) -> None:
        given = self.request.headers.get("Authorization", "")
        expected = f"token {self.site.token}"
        if self.site.token is None or not hmac.compare_digest(given.encode(), expected.encode()):
            raise HTTPError(401, reason="The token that andrea dashboard printed is needed")

    async def folder_of(self, run_id: str) -> Path:
        runs, _, _ = await self.site.listed()
        if run_id not in runs:
            raise HTTPError(404, reason="There is no such run")
        return runs[run_id]

    def number(self, name: str) -> int:
        text = self.get_query_argument(name, "0")
        if not NUMBER.fullmatch(text):
            raise HTTPError(400, reason=f"{name} is a number")
        return int(text)


class Runs(Api):
    async def get(self) -> None:
        _, rows, left_out = await self.site.listed()
        about = {"folder": self.site.folder.resolve().name, "control": self.site.control, "left_out": left_out}
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(about | {"runs": rows}, allow_nan=False))

    head = get


class Frame(Api):
    async def get(self, run_id: str) -> None:
        generation, first = self.number("generation"), self.number("first")
        path = await self.folder_of(run_id)
        name, frame = await self.site.run(self.site.feeds.frame, run_id, path, generation, first)
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Andrea-Feed", name)
        self.finish(frame)

    head = get


class Control(Api):
    async def post(self, run_id: str) -> None:
        if not self.site.control:
            raise HTTPError(403, reason="This page only looks on: start it with --allow-control to ask runs for more")
        self.check_token()
        self.check_origin()
        wish = self.wish()
        path = await self.folder_of(run_id)
        try:
            text = await self.site.run(control.send, RunDirectory(path), wish)
        except (RunError, LockError, OSError) as error:
            self.set_status(409)
            self.finish({"ok": False, "text": " ".join(str(error).split())})
            return
        self.finish({"ok": True, "text": text})

    def check_origin(self) -> None:
        """The asking page is one of ours: it came from this scheme, host and port."""
        here = f"{self.request.protocol}://{self.request.host}"
        site = self.request.headers.get("Sec-Fetch-Site", "same-origin")
        if self.request.headers.get("Origin") != here or site != "same-origin":
            raise HTTPError(403, reason="Only this server's own page may ask")

    def wish(self) -> str:
        kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise HTTPError(415, reason="The body is application/json")
        try:
            found = strict_json.parse(self.request.body)
        except ValueError:
            found = None
        if not isinstance(found, dict) or list(found) != ["wish"] or found["wish"] not in WISHES:
            raise HTTPError(400, reason='The body is {"wish": "save"} or {"wish": "stop"}')
        return found["wish"]


class Nothing(Guarded):
    def prepare(self) -> None:
        super().prepare()
        raise HTTPError(404)


def application(site: Site) -> Application:
    """The server's routes."""
    about = {"site": site}
    texts = [(path, Text, about | {"kind": kind, "text": text}) for path, kind, text in page.served()]
    api = [
        (r"/api/runs", Runs, about),
        (r"/api/runs/(.+)/frame", Frame, about),
        (r"/api/runs/(.+)/control", Control, about),
    ]
    quiet = {"log_function": lambda handler: None}
    return Application([*texts, *api], default_handler_class=Nothing, default_handler_args=about, **quiet)
