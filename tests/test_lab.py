"""`make lab`: JupyterLab really starts on the first notebook."""

import json
import time
import urllib.error
import urllib.request

import pytest

from tests.imports import ROOT
from tests.jupyter import START_SECONDS, jupyterlab


@pytest.fixture
def lab(tmp_path):
    """The address of JupyterLab as `make lab LAB_FLAGS=--no-browser` starts it, with settings of its own."""
    with jupyterlab(ROOT, tmp_path) as address:
        yield address


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


def test_it_asks_nobody_for_news_or_updates(lab):
    server, token = lab.partition("/lab/")[0], lab.partition("token=")[2]
    name = "@jupyterlab/apputils-extension:notification"
    settings = json.loads(fetch(f"{server}/lab/api/settings/{name}?token={token}"))
    defaults = {key: value["default"] for key, value in settings["schema"]["properties"].items()}
    assert defaults["fetchNews"] == "false"
    assert defaults["checkForUpdates"] is False
