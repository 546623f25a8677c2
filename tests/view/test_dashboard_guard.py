"""Who the dashboard's server refuses, and what: paths, names, methods, origins, tokens, bodies."""

import json
import socket

import pytest

from andrea_lab.run.directory import RunDirectory, RunError
from andrea_lab.view.dashboard.feeds import Feeds
from andrea_lab.view.dashboard.serve import Server
from tests.view.served import TOKEN, served


@pytest.fixture
def controlled(runs):
    with served(runs, token=TOKEN, control=True) as made:
        yield made


AWAY = [
    "../secret",
    "..%2fsecret",
    "%2e%2e/secret",
    "%2e%2e%2fsecret",
    "%252e%252e%252fsecret",
    "..%5csecret",
    "a/../../secret",
    "a/..%2f..%2fsecret",
    "a/.",
    "a/",
    "./a",
    "//a",
    "a%00",
    "%00",
    "a%00/../../secret",
    "link",
    "link/../secret",
    "%2e",
    ".hidden/d",
    "x/y/too/deep",
    "sweep/b/inside",
    "sweep",
    "not%20a%20run",
    "file",
    "A",
    "a%0d%0aX-Header:%20x",
    "%ff",
    "~",
    "a?x=/../../secret",
]


@pytest.mark.parametrize("run", [*AWAY, "{absolute}", "{encoded}"])
def test_nothing_but_a_listed_run_is_answered(client, runs, run):
    secret = str(runs.parent / "secret")
    run = run.format(absolute=secret, encoded=secret.replace("/", "%2F"))
    status, headers, body = client.ask(f"/api/runs/{run}/frame")
    assert status in (400, 404) and b"secret" not in body and "X-Header" not in headers


@pytest.mark.parametrize(
    "path", ["/static/../api", "/static/%2e%2e/page.py", "/static/", "/static/page.py", "/x", "/api"]
)
def test_there_is_nothing_else(client, path):
    status, _, body = client.ask(path)
    assert status == 404 and json.loads(body)["ok"] is False


@pytest.mark.parametrize(
    "query", ["first=-1", "first=1e3", "first=x", "generation=9" + "9" * 20, "first=%FF", "first=１"]
)
def test_a_number_that_is_none_is_refused(client, query):
    assert client.ask(f"/api/runs/a/frame?{query.replace('１', '%EF%BC%91')}")[0] == 400


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.7", "[", "localhost.", ""]
)
@pytest.mark.parametrize("path", ["/", "/api/runs", "/nothing", "/static/page.js"])
def test_another_name_is_misdirected(client, host, path):
    status, _, body = client.ask(path, Host=host)
    assert status == 421 and b"runs" not in body


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:9", "127.3.2.1"])
def test_names_of_this_machine_are_served_through_any_forwarded_port(client, host):
    assert client.ask("/api/runs", Host=host)[0] == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_other_methods_are_refused(client, method):
    assert client.ask("/api/runs", method)[0] == 405


def test_head_is_get_without_its_body(client):
    for path in ("/", "/api/runs", "/api/runs/a/frame", "/static/page.js"):
        status, headers, body = client.ask(path, "HEAD")
        assert (status, body) == (200, b"") and int(headers["Content-Length"]) > 20


def test_every_answer_has_the_headers_that_keep_a_browser_strict(client):
    for path in ("/", "/api/runs", "/static/page.js", "/nothing", "/api/runs/../frame"):
        _, headers, _ = client.ask(path)
        assert headers["Content-Security-Policy"].startswith("default-src 'self';")
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["X-Frame-Options"] == "DENY"
        assert not [name for name in headers if name.startswith("Access-Control") or name in ("Server", "Set-Cookie")]
    assert client.ask("/api/runs")[1]["Cache-Control"] == "no-store"


def test_without_control_nobody_may_ask(runs):
    with served(runs, token=TOKEN) as client:
        status, answer = client.wish("a")
        assert status == 403 and "--allow-control" in answer["text"]
    assert not (runs / "a" / "control").exists()


REFUSED = [
    (401, {"Authorization": None}),
    (401, {"Authorization": "token wrong"}),
    (401, {"Authorization": TOKEN}),
    (401, {"Authorization": f"token {TOKEN}x"}),
    (401, {"Authorization": "token \xff\xfe"}),
    (403, {"Origin": None}),
    (403, {"Origin": "null"}),
    (403, {"Origin": "http://evil.example"}),
    (403, {"Origin": "http://127.0.0.1:1"}),
    (403, {"Sec_Fetch_Site": "cross-site"}),
    (403, {"Sec_Fetch_Site": "same-site"}),
    (421, {"Host": "evil.example"}),
    (415, {"Content_Type": "text/plain"}),
    (415, {"Content_Type": "application/x-www-form-urlencoded"}),
    (415, {"Content_Type": None}),
    (400, {"body": b""}),
    (400, {"body": b"save"}),
    (400, {"body": b"\xff\xfe"}),
    (400, {"body": b"[" * 4000}),
    (400, {"body": b'{"wish": "abort"}'}),
    (400, {"body": b'{"wish": ["save"]}'}),
    (400, {"body": b'{"wish": "save", "wish": "stop"}'}),
    (400, {"body": b'{"wish": "save", "run": "b"}'}),
    (400, {"body": b"[]"}),
    (400, {"body": b"null"}),
]


@pytest.mark.parametrize(("status", "headers"), REFUSED, ids=[f"{s} {str(h)[:50]}" for s, h in REFUSED])
def test_who_may_not_ask_is_refused_and_nothing_is_written(controlled, runs, status, headers):
    before = sorted(runs.rglob("*"))
    found, answer = controlled.wish("a", **headers)
    assert (found, answer["ok"]) == (status, False) and TOKEN not in answer["text"]
    assert sorted(runs.rglob("*")) == before


def test_a_huge_body_is_not_read(controlled):
    with socket.create_connection(("127.0.0.1", controlled.port)) as raw:
        raw.sendall(b"POST /api/runs/a/control HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n")
        raw.settimeout(60)
        assert b" 400 " in raw.recv(4096) or b" 413 " in raw.recv(4096)
    assert controlled.ask("/")[0] == 200


@pytest.mark.parametrize(
    "request_", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"]
)
def test_what_is_no_request_ends_its_connection_alone(client, request_, capfd):
    with socket.create_connection(("127.0.0.1", client.port)) as raw:
        raw.sendall(request_ + b"\r\n\r\n")
        raw.settimeout(60)
        raw.recv(4096)
    assert client.ask("/")[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_run_that_is_not_at_work_says_so(controlled):
    status, answer = controlled.wish("sweep%2Fb", "stop")
    assert (status, answer["ok"]) == (409, False) and "found no engine at work" in answer["text"]
    assert controlled.wish("nowhere")[0] == 404


def test_a_run_at_work_is_asked(controlled, runs):
    run = RunDirectory(runs / "a")
    with run.lock("engine"):  # this process does not listen to signals, so it is asked by a file
        status, answer = controlled.wish("a", "save")
    assert (status, answer["ok"]) == (200, True) and answer["text"].startswith("wrote ")
    assert [file.name for file in run.control.iterdir()] == ["save"]


@pytest.mark.parametrize("options", [{"token": TOKEN}, {"token": TOKEN, "host": "0.0.0.0"}])
def test_a_token_that_was_asked_for_is_needed_to_read(runs, options):
    with served(runs, **options) as client:
        for path in ("/api/runs", "/api/runs/a/frame"):
            status, headers, body = client.ask(path)
            assert status == 401 and headers["Www-Authenticate"] == "token" and b'"ok": false' in body
            assert client.ask(f"{path}?token={TOKEN}")[0] == 401, "an address is no place for it"
            assert client.ask(path, Authorization=f"token {TOKEN}")[0] == 200
        assert client.ask("/")[0] == client.ask("/static/page.js")[0] == 200
        assert b"sweep" not in client.ask("/")[2], "the page itself tells nothing"


def test_a_host_that_others_reach_is_closed_without_being_asked(runs):
    with served(runs, host="0.0.0.0") as client:
        assert client.ask("/api/runs")[0] == 401
        assert len(client.server.site.token) >= 24 and client.server.address.endswith(
            f"#token={client.server.site.token}"
        )


def test_with_control_here_anybody_here_may_read(runs):
    with served(runs, control=True) as client:
        assert client.ask("/api/runs")[0] == 200 and client.json("/api/runs")["control"] is True
        assert client.wish("a")[0] == 401


def test_a_port_that_is_taken_is_named_with_a_free_one(runs):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RunError, match=f"--port: found {port} taken, expected a free one, such as [0-9]+$"):
            Server(runs, port=port)


def test_a_fault_of_our_own_is_one_answer_and_the_server_lives(client, monkeypatch, caplog):
    def broken(self, *_):
        raise ZeroDivisionError

    monkeypatch.setattr(Feeds, "frame", broken)
    status, _, body = client.ask("/api/runs/a/frame")
    assert (status, json.loads(body)) == (500, {"ok": False, "text": "Internal Server Error"})
    assert "ZeroDivisionError" in caplog.text and client.ask("/api/runs")[0] == 200
