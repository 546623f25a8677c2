"""`make lab`: JupyterLab really starts on the first notebook."""

import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from tests.imports import ROOT

START_SECONDS = 120


@pytest.fixture
def lab(tmp_path):
    """JupyterLab as `make lab LAB_FLAGS=--no-browser` starts it, with settings of its own; the address it prints."""
    env = {**os.environ, "JUPYTER_CONFIG_DIR": str(tmp_path / "c"), "JUPYTER_RUNTIME_DIR": str(tmp_path / "r")}
    env["JUPYTER_DATA_DIR"] = str(tmp_path / "d")
    log = tmp_path / "log"
    with log.open("wb") as out:
        command = ["sh", "tools/lab.sh", "--no-browser", "--ip=127.0.0.1", "--ServerApp.port_retries=200"]
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield wait_for_address(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def wait_for_address(process, log):
    """The address in the log, as soon as it is there."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+/lab/tree/\S+", log.read_text())
        if found:
            return found.group()
        time.sleep(0.2)
    raise AssertionError(log.read_text())


def fetch(address):
    """The page as text. The address is printed a moment before the server listens, on a busy machine long before."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(address, timeout=60) as page:
                assert page.status == 200
                return page.read().decode()
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError) or time.monotonic() > end:
                raise
            time.sleep(0.2)


def test_it_opens_the_first_notebook(lab):
    assert "/lab/tree/notebooks/00_start_here.ipynb?token=" in lab
    assert "JupyterLab" in fetch(lab)
    kernels = lab.partition("/lab/")[0] + "/api/kernelspecs?token=" + lab.partition("token=")[2]
    assert '"default": "python3"' in fetch(kernels)
