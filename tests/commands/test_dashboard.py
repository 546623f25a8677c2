"""`andrea dashboard` as a person and a service manager meet it: words, exit codes, a run asked through it."""

import http.client
import json
import re
import signal
import socket
import time

import pytest

from tests.proxy.runs import PATIENCE, andrea, ended, small, wait_for_steps
from tests.run.made import logged


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two runs, `runs`, in the working directory, beside a file and an empty folder."""
    logged(tmp_path / "runs" / "a", {1: 5.0, 2: 4.0})
    logged(tmp_path / "runs" / "b", {1: 5.0})
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANDREA_RUNS", str(tmp_path / "runs"))
    return tmp_path


@pytest.fixture
def started(folder):
    """started(*arguments) -> (process, lines of stdout so far) of a server that answers; killed at the end."""
    processes = []

    def start(*arguments):
        process = andrea("dashboard", *arguments, "--port", 0, "--no-open", cwd=folder)
        processes.append(process)
        lines = []
        while not lines or not lines[-1].startswith("Ctrl-C"):
            lines.append(process.stdout.readline())
            assert lines[-1], process.communicate()
        return process, lines

    yield start
    for process in processes:
        process.kill()
        process.communicate(timeout=PATIENCE)


def address(lines):
    """(port, token) of the printed address."""
    port, token = re.search(r"http://127\.0\.0\.1:([0-9]+)/(?:#token=([\w.~-]+))?\n", lines[0]).groups()
    return int(port), token


def ask(port, path, method="GET", body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


MISTAKES = [
    (["nowhere"], "nowhere: found no folder, expected a folder of runs, or one run"),
    (["file"], "file: found a file, expected a folder of runs, or one run"),
    (["runs", "--port", "65536"], "'--port'"),
    (["runs", "--port", "-1"], "'--port'"),
    (["runs", "--port", "http"], "'--port'"),
    (["runs", "--port", "0", "--host", "x" * 64], "--host: found 'xxxx"),
    (
        ["runs", "--port", "0", "--host", "192.0.2.1"],
        "--host: found '192.0.2.1', expected an address or a name of this",
    ),
    (["runs", "--port", "0", "--host", ""], "--host: found '', expected an address"),
    (["runs", "--port", "0", "--token", ""], "--token: found 0 characters, expected 8 or more letters, digits or -._~"),
    (["runs", "--port", "0", "--token", "short"], "--token: found 5 characters"),
    (["runs", "--port", "0", "--token", "with space#&"], "--token: found 12 characters"),
    (["runs", "--run", "a"], "--run: found it without --save FILE.html"),
    (
        ["runs", "--save", "page.pdf"],
        "--save: found 'page.pdf', expected a name ending in .html in a folder that is there",
    ),
    (["runs", "--save", "no/page.html"], "--save: found 'no/page.html', expected a name ending in .html"),
    (["runs", "--save", "page.html", "--run", "c"], "--run: found 'c', expected one of a, b"),
    (["runs", "--save", "page.html", "--run", "../runs/a"], "--run: found '../runs/a', expected one of a, b"),
    (["empty", "--save", "page.html"], "empty: found no runs, expected a folder of runs, or one run"),
    (["nowhere", "--save", "page.html"], "nowhere: found no folder"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[" ".join(a) for a, _ in MISTAKES])
def test_a_mistake_is_one_line_exit_code_2_and_nothing_created(call, folder, arguments, message):
    before = sorted(folder.rglob("*"))
    code, out, err = call("dashboard", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("andrea: ") and err.count("\n") == 1 and message in err, err
    assert sorted(folder.rglob("*")) == before


def test_a_port_that_is_taken_is_said_with_the_next_free_one(call, folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = call("dashboard", "runs", "--port", port)
    assert (code, out) == (2, "") and re.search(f"found {port} taken, expected a free one, such as [0-9]+\n$", err)


def test_it_explains_itself(call):
    code, out, _ = call("dashboard", "--help")
    assert code == 0 and "Usage: andrea dashboard" in out and "--allow-control" in out


def test_one_file_is_written_and_its_size_told(call, folder):
    code, out, err = call("dashboard", "--save", "page.html", "--run", "b")
    assert (code, err) == (0, "") and re.fullmatch(r"page\.html: 1 run, 0\.\d\d MB\n", out)
    assert (folder / "page.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order_while_a_page_is_connected(started, number):
    process, lines = started("runs")
    port, token = address(lines)
    assert token is None and len(lines) == 2
    with socket.create_connection(("127.0.0.1", port)) as idle:
        idle.sendall(b"GET /api/ru")
        assert [row["id"] for row in ask(port, "/api/runs")[1]["runs"]] == ["a", "b"]
        process.send_signal(number)
        assert ended(process) == (0, "", "")


def test_a_token_may_come_from_the_environment(started, monkeypatch):
    monkeypatch.setenv("ANDREA_DASHBOARD_TOKEN", "from-the-environment")
    _, lines = started("runs")
    port, token = address(lines)
    assert token == "from-the-environment" and "lets one look" in lines[1]
    assert ask(port, "/api/runs")[0] == 401
    assert ask(port, "/api/runs", Authorization=f"token {token}")[0] == 200


def test_a_run_is_asked_for_a_checkpoint_and_a_stop(started, folder):
    (folder / "long.json").write_text(small(folder, steps=1_000_000, save_every=0).to_json())
    training = andrea("train", "long.json", "--run", "runs/live", "--json", cwd=folder)
    try:
        wait_for_steps(folder / "runs" / "live", 5, training)
        _, lines = started("runs", "--allow-control")
        port, token = address(lines)
        assert "for you alone" in lines[1]
        states = {row["id"]: row["state"] for row in ask(port, "/api/runs")[1]["runs"]}
        assert states["live"] == "training"
        page = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/json"}
        page["Authorization"] = f"token {token}"
        status, said = ask(port, "/api/runs/live/control", "POST", '{"wish": "save"}', **page)
        assert (status, said["ok"]) == (200, True) and said["text"].startswith("sent SIGUSR1 to engine")
        until = time.monotonic() + PATIENCE
        while not list((folder / "runs" / "live").glob("step_*.bin")):
            assert training.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        assert ask(port, "/api/runs/live/control", "POST", '{"wish": "stop"}', **page)[1]["ok"]
        code, out, _ = ended(training)
        assert code == 0 and json.loads(out)["outcome"] == "interrupted"
    finally:
        training.kill()
        training.communicate(timeout=PATIENCE)
