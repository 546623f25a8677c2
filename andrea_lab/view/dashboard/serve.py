"""Starting the dashboard's server, and ending it in order."""

import asyncio
import errno
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

from tornado.httpserver import HTTPServer
from tornado.ioloop import PeriodicCallback

from andrea_lab.run.directory import RunError
from andrea_lab.view.dashboard.listing import check_folder
from andrea_lab.view.dashboard.server import LONGEST_BODY, Site, application

TRIED = 100  # ports above a taken one that are looked at
SHORTEST = 8  # characters of a token
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
TIDY_MS = 15_000
LIMITS = {"max_header_size": 16_384, "max_body_size": LONGEST_BODY, "body_timeout": 10, "idle_connection_timeout": 120}


class Server:
    """A listening server, which answers once its loop runs. Raises RunError for arguments that cannot be used.

    host: name or address to listen on; port: 0 takes a free one; token: None draws one where one is needed, which is
    for control and for a host that other machines reach.
    """

    def __init__(
        self, folder: Path, host: str = "127.0.0.1", port: int = 0, token: str | None = None, control: bool = False
    ):
        check_folder(folder)
        _check_token(token)
        self.socket = _listen(host, port)
        bound, self.port = self.socket.getsockname()[:2]
        self.host = host
        others = not ip_address(bound.partition("%")[0]).is_loopback
        closed = others or token is not None
        if token is None and (others or control):
            token = secrets.token_urlsafe(24)
        names = {"localhost", host.lower(), socket.gethostname().lower()} if others else {"localhost", host.lower()}
        self.site = Site(folder, frozenset(names), others, token, closed, control)

    @property
    def address(self) -> str:
        """What to open, with the token after the #, which browsers keep to themselves."""
        host = self.host
        if host in ("0.0.0.0", "::"):
            host = socket.gethostname()
        shown = f"[{host}]" if ":" in host else host
        token = f"#token={quote(self.site.token)}" if self.site.token else ""
        return f"http://{shown}:{self.port}/{token}"

    async def serve(self, stop: asyncio.Event) -> None:
        """Answer until `stop` is set."""
        server = HTTPServer(application(self.site), **LIMITS)
        server.add_socket(self.socket)
        tidy = PeriodicCallback(self.site.feeds.tidy, TIDY_MS)
        tidy.start()
        try:
            await stop.wait()
        finally:
            tidy.stop()
            server.stop()
            await server.close_all_connections()
            self.site.threads.shutdown(wait=False, cancel_futures=True)

    def run(self, ready: Callable[[], None]) -> None:
        """Answer until SIGINT, SIGTERM or SIGHUP comes, then return. `ready` is called when a signal would be heard."""
        asyncio.run(self._until_signal(ready))

    async def _until_signal(self, ready: Callable[[], None]) -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        with _handled(lambda *_: loop.call_soon_threadsafe(stop.set)):
            ready()
            await self.serve(stop)


@contextmanager
def _handled(handler: Callable[..., None]) -> Iterator[None]:
    """The signals that end a server call `handler`, and what they did before afterwards."""
    numbers = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _check_token(token: str | None) -> None:
    if token is not None and (len(token) < SHORTEST or not LETTERS.issuperset(token)):
        raise RunError(f"--token: found {len(token)} characters, expected {SHORTEST} or more letters, digits or -._~")


def _listen(host: str, port: int) -> socket.socket:
    """A socket bound to a port of a host. Raises RunError, which names a free port where this one is taken."""
    unknown = RunError(f"--host: found {host!r}, expected an address or a name of this machine")
    try:
        return _bind(host, port)
    except (socket.gaierror, UnicodeError):
        raise unknown from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            free = _free(host, port)
            raise RunError(f"--port: found {port} taken, expected a free one{free and f', such as {free}'}") from None
        if error.errno == errno.EACCES:
            raise RunError(f"--port: found {port}, which needs rights you lack, expected one above 1023") from None
        raise unknown from None


def _bind(host: str, port: int) -> socket.socket:
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    made = socket.create_server(address, family=family, backlog=128)
    made.setblocking(False)
    return made


def _free(host: str, taken: int) -> str:
    """The next port after a taken one that can be listened on; "" when there is none near."""
    for port in range(taken + 1, min(taken + TRIED, 65_535) + 1):
        try:
            _bind(host, port).close()
            return str(port)
        except OSError:
            continue
    return ""
