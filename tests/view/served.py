"""A dashboard's server in a thread of this process, and questions to it that no browser would ask."""

import asyncio
import http.client
import json
import threading
from contextlib import contextmanager

from andrea_lab.view.dashboard.serve import Server
from andrea_lab.view.frame import unpack
from tests.run.made import logged

PATIENCE = 60  # seconds for an answer on a busy machine
TOKEN = "a-token-of-tests"


def folder_of_runs(tmp_path):
    """A folder of runs at three levels, beside a secret that no question may reach."""
    folder = tmp_path / "runs"
    for name in ("a", "sweep/b", "x/y/c", "x/y/too/deep", ".hidden/d", "sweep/b/inside"):
        logged(folder / name, {step: 5.0 - step / 10 for step in range(1, 9)})
    logged(tmp_path / "secret", {1: 6.0})
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "not a run").mkdir()
    (folder / "file").write_text("text")
    return folder


class Client:
    """Questions to one server. Answers are (status, headers, body)."""

    def __init__(self, server: Server):
        self.server, self.port = server, server.port
        self.origin = f"http://127.0.0.1:{self.port}"

    def ask(self, path, method="GET", body=None, **headers):
        """Headers by keyword, `_` for `-`; None leaves one out that would be sent otherwise."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.putrequest(method, path, skip_host="Host" in named, skip_accept_encoding=True)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            for name, value in named.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def json(self, path, **headers):
        status, _, body = self.ask(path, **headers)
        assert status == 200, body
        return json.loads(body)

    def frame(self, run, **query):
        text = "&".join(f"{name}={value}" for name, value in query.items())
        status, _, body = self.ask(f"/api/runs/{run}/frame?{text}")
        assert status == 200, body
        return unpack(body)

    def wish(self, run, wish="save", **headers):
        """Ask for a wish as the page would; headers given here replace its own. Returns (status, answer)."""
        own = {"Origin": self.origin, "Content_Type": "application/json", "Authorization": f"token {TOKEN}"}
        body = headers.pop("body", json.dumps({"wish": wish}).encode())
        status, _, answer = self.ask(f"/api/runs/{run}/control", "POST", body, **(own | headers))
        return status, json.loads(answer)


@contextmanager
def served(folder, **options):
    """A client of a server of this folder, which ends with the block."""
    server = Server(folder, **options)
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    def work():
        loop.run_until_complete(server.serve(stop))
        loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield Client(server)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE)
        assert not thread.is_alive()
