"""Settings for every test and every notebook cell."""

import signal

import hypothesis
import pytest

pytest_plugins = ("tests.notebooks.strict",)

# The same examples in every run; a slow machine is no failure.
hypothesis.settings.register_profile("andrea", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("andrea")

# A shell that starts tests in the background lets them and their children ignore SIGINT, which some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keeps a file on one worker under any -n: the cells of a notebook share a kernel. So do all tests in a browser."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            folder = "tests/browser/"
            return folder if nodeid.startswith(folder) else super()._split_scope(nodeid)

    return Scheduling(config, log)
