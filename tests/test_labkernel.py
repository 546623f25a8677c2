"""The kernel of `make lab` answers what a reloaded page asks while a cell runs, and keeps cells in order."""

import contextlib
import json

import pytest
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from tests.imports import ROOT
from tools.run_notebooks import NO_START, START_TRIES

SECONDS = 120
# A comm that answers with the thread it was asked on, and a cell that lasts until it is let go.
COMM = """
import threading
from IPython import get_ipython
def opened(comm, message):
    comm.on_msg(lambda message: comm.send({"asked": message["content"]["data"], "on": threading.current_thread().name},
                                          buffers=[bytes(message["buffers"][0])[::-1]]))
get_ipython().kernel.comm_manager.register_target("echo", opened)
"""
BUSY = "import time, pathlib\nwhile not pathlib.Path({!r}).exists():\n    time.sleep(0.02)\norder = ['busy']"


@contextlib.contextmanager
def started():
    """A client of a kernel that has answered. Raises RuntimeError when it has not."""
    specs = KernelSpecManager(kernel_dirs=[str(ROOT / "tools" / "jupyter" / "kernels")])
    manager = KernelManager(kernel_name="python3", kernel_spec_manager=specs)
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=SECONDS)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with contextlib.ExitStack() as stack:
        for tries_left in reversed(range(START_TRIES)):
            try:
                client = stack.enter_context(started())
                break
            except RuntimeError as error:
                if NO_START not in str(error) or not tries_left:
                    raise
        yield client


def reply(client, message_id):
    """The reply to a request; raises queue.Empty when it does not come."""
    while True:
        message = client.get_shell_msg(timeout=SECONDS)
        if message["parent_header"].get("msg_id") == message_id:
            return message


def published(client, kind):
    """The next message of a kind on iopub."""
    while True:
        message = client.get_iopub_msg(timeout=SECONDS)
        if message["msg_type"] == kind:
            return message


def run(client, code):
    """Run a cell and wait until the kernel is idle again; returns the status of its reply."""
    message_id = client.execute(code)
    status = reply(client, message_id)["content"]["status"]
    while True:
        message = published(client, "status")
        idle = message["content"]["execution_state"] == "idle"
        if idle and message["parent_header"].get("msg_id") == message_id:
            return status


def ask(client, kind, content, buffers=None):
    """Sends a message on the shell channel."""
    message = client.session.msg(kind, content)
    client.session.send(client.shell_channel.socket, message, buffers=buffers)
    return message["header"]["msg_id"]


def test_a_busy_kernel_answers_a_page_and_its_comms(client, tmp_path):
    assert run(client, COMM) == "ok"
    let_go = tmp_path / "let go"
    busy = client.execute(BUSY.format(str(let_go)))
    after = client.execute("order.append('after')\nassert order == ['busy', 'after']")
    assert "kernel subshells" in reply(client, client.kernel_info())["content"]["supported_features"]
    ask(client, "comm_open", {"comm_id": "c1", "target_name": "echo", "data": {}})
    comms = reply(client, ask(client, "comm_info_request", {}))["content"]["comms"]
    assert comms["c1"] == {"target_name": "echo"}
    ask(client, "comm_msg", {"comm_id": "c1", "data": "who"}, [b"abc"])
    answer = published(client, "comm_msg")
    assert answer["content"]["data"]["asked"] == "who"
    assert answer["content"]["data"]["on"].startswith("subshell-")
    assert [bytes(part) for part in answer["buffers"]] == [b"cba"]
    let_go.touch()
    assert reply(client, busy)["content"]["status"] == "ok"
    assert reply(client, after)["content"]["status"] == "ok"


def test_an_idle_kernel_is_ipythons_own(client):
    assert run(client, COMM) == "ok"
    ask(client, "comm_open", {"comm_id": "c1", "target_name": "echo", "data": {}})
    ask(client, "comm_msg", {"comm_id": "c1", "data": "who"}, [b"abc"])
    assert published(client, "comm_msg")["content"]["data"]["on"] == "MainThread"
    alone = "assert not [thread for thread in threading.enumerate() if 'subshell' in thread.name]"
    assert run(client, alone) == "ok"


def test_its_specification_is_ipythons_own_but_for_the_class():
    ours = json.loads((ROOT / "tools" / "jupyter" / "kernels" / "python3" / "kernel.json").read_text())
    stock = get_kernel_dict()
    assert {**ours, "argv": None} == {**stock, "argv": None}
    assert [part for part in ours["argv"][1:] if "kernel_class" not in part] == stock["argv"][1:]


def test_after_a_cell_that_fails_it_is_ipythons_own_again(client):
    assert run(client, COMM) == "ok"
    failed, behind = client.execute("1 / 0"), client.execute("2")
    assert reply(client, failed)["content"]["ename"] == "ZeroDivisionError"
    assert reply(client, behind)["content"]["status"] == "aborted"
    ask(client, "comm_open", {"comm_id": "c1", "target_name": "echo", "data": {}})
    ask(client, "comm_msg", {"comm_id": "c1", "data": "who"}, [b"abc"])
    assert published(client, "comm_msg")["content"]["data"]["on"] == "MainThread"
