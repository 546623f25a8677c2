"""Starts the JupyterLab of `make lab` for a test, with settings of its own, and ends it."""

import contextlib
import os
import re
import signal
import subprocess
import time

from tests.imports import ROOT

START_SECONDS = 120
END_SECONDS = 30


@contextlib.contextmanager
def jupyterlab(root, scratch, *flags):
    """JupyterLab over the folder `root`, with everything it keeps under `scratch`; gives the address it prints."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(scratch / "ipython")}
    for what in ("CONFIG", "DATA", "RUNTIME"):
        env[f"JUPYTER_{what}_DIR"] = str(scratch / what.lower())
    log = scratch / "log"
    command = ["sh", ROOT / "tools" / "lab.sh", "--no-browser", "--ip=127.0.0.1", "--ServerApp.port_retries=200"]
    with log.open("wb") as out:
        process = subprocess.Popen([*command, *flags], cwd=root, env=env, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield wait_for_address(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def wait_for_address(process, log):
    """The address in the log, as soon as it is there."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+/lab/tree/\S+", log.read_text())
        if found:
            return found.group()
        time.sleep(0.2)
    raise AssertionError(log.read_text())
