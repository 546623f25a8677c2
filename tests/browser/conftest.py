"""A real browser for the live views: Chromium, driven by Playwright, on JupyterLab and on pages.

Where there is no browser the tests are skipped, unless ANDREA_BROWSER=required. Fixtures:

- `chromium`        the browser (one for the whole folder)
- `page`            a fresh page; the test fails when the console had errors or the page asked another machine
- `new_page`        the same, as a function of the options of Browser.new_context, for several pages or other sizes
- `complaints`      what counts as such an error; `complaints.allow("pattern")` for those a test provokes
- `shot`            `shot(page, "name")` keeps a picture under build/screenshots, gives it as a Pillow image
- `lab`             JupyterLab (one for all tests); `lab.root` is the folder it shows, `lab.end_kernels()` ends those
- `open_notebook`   `open_notebook(page, "name.ipynb", [cells])` writes and opens a notebook, waits for its kernel
- `run_all`         `run_all(page)` runs all cells; `run_all(page, wait=False)` does not wait for their end
"""

import io
import json
import os
import re
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from PIL import Image

from andrea_lab.bench import redraw
from tests.imports import ROOT
from tests.jupyter import jupyterlab

SHOTS = ROOT / "build" / "screenshots"
# A busy machine is slow, not wrong: every wait of a page is this long at most.
WAIT_MS = 120_000
LOCAL = re.compile(r"(?:(?:https?|wss?)://(?:127\.0\.0\.1|localhost)(?::\d+)?/|data:|blob:|file:|about:)")
ERRORS = '.jp-OutputArea [data-mime-type$="jupyter.error"], .jp-OutputArea [data-mime-type$="jupyter.stderr"]'
IDLE = "Python 3 (ipykernel) | Idle"


def unavailable(reason):
    """Skips the test for want of a browser, or fails it where one is required."""
    if os.environ.get("ANDREA_BROWSER") == "required":
        pytest.fail(f"ANDREA_BROWSER=required, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="package")
def chromium():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unavailable("Playwright for Python is not installed")
    if redraw.browser() is None:
        unavailable("there is no chromium on the path (Debian's package is named chromium)")
    with sync_playwright() as playwright:
        browser = redraw.launched(playwright)
        yield browser
        browser.close()


@dataclass
class Complaints:
    """Errors in the console, exceptions in the page, requests that leave the machine."""

    found: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def allow(self, pattern):
        """Lets errors through in which this pattern is found."""
        self.allowed.append(pattern)

    def note(self, text):
        self.found.append(text)

    def listen(self, page):
        """Notes what a page complains of from now on."""
        page.on("console", lambda message: message.type == "error" and self.note(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.note(f"exception: {error}"))
        page.on("request", lambda request: self.note_address(request.url))
        page.on("websocket", lambda socket: self.note_address(socket.url))

    def note_address(self, address):
        if not LOCAL.match(address):
            self.note(f"request to another machine: {address}")

    def left(self):
        """Those that are not allowed."""
        return [text for text in self.found if not any(re.search(pattern, text) for pattern in self.allowed)]


@pytest.fixture
def complaints():
    return Complaints()


@pytest.fixture
def new_page(chromium, complaints, request):
    contexts = []

    def open_page(**options):
        context = chromium.new_context(**{"viewport": {"width": 1300, "height": 1000}, **options})
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        complaints.listen(page)
        return page

    yield open_page
    for context in contexts:
        if complaints.left() or request.session.testsfailed:
            for number, page in enumerate(context.pages):
                keep(page, f"{request.node.name}-end-{number}")
        context.close()
    assert complaints.left() == []


@pytest.fixture
def page(new_page):
    return new_page()


def keep(page, name):
    """A picture of the page, kept under build/screenshots, as a Pillow image."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    data = page.screenshot(path=SHOTS / f"{re.sub(r'[^A-Za-z0-9.-]+', '-', name)}.png")
    return Image.open(io.BytesIO(data)).convert("RGB")


@pytest.fixture
def shot(request):
    return lambda page, name: keep(page, f"{request.node.module.__name__.rpartition('.')[2]}-{name}")


@pytest.fixture(scope="package")
def lab(chromium, tmp_path_factory):
    root, scratch = (tmp_path_factory.mktemp(name) for name in ("notebooks", "jupyter"))
    with jupyterlab(root, scratch) as address:
        server, token = address.partition("/lab/")[0], address.partition("token=")[2]
        yield SimpleNamespace(root=root, server=server, token=token, end_kernels=lambda: end_kernels(server, token))


def end_kernels(server, token):
    """Shuts down every notebook's kernel, as another day would."""

    def ask(path, method="GET"):
        headers = {"Authorization": f"token {token}"}
        request = urllib.request.Request(f"{server}/api/{path}", headers=headers, method=method)
        with urllib.request.urlopen(request) as answer:
            return answer.read()

    for session in json.loads(ask("sessions")):
        ask(f"sessions/{session['id']}", "DELETE")


@pytest.fixture
def open_notebook(lab):
    def open_it(page, name, cells=None, kernel=True):
        """With `cells` the notebook is written first; `kernel=False` opens it without waiting for its kernel."""
        if cells is not None:
            write_notebook(lab.root / name, cells)
        page.goto(f"{lab.server}/lab/tree/{name}?token={lab.token}&reset")
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        if kernel:
            wait_idle(page)
        return page

    return open_it


def write_notebook(path: Path, cells):
    """A notebook of code cells without outputs."""
    made = [nbformat.v4.new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(cells)]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook = nbformat.v4.new_notebook(cells=made, metadata={"kernelspec": kernel})
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def wait_idle(page):
    """Until the status bar calls the kernel idle; the notebook's own sign says so before a kernel is chosen."""
    page.wait_for_function(
        "text => document.querySelector('#jp-main-statusbar')?.innerText.includes(text)", arg=IDLE, polling=100
    )


@pytest.fixture
def run_all():
    def run(page, wait=True):
        page.click('.lm-MenuBar-itemLabel:text-is("Run")')
        page.click('.lm-Menu-itemLabel:text-is("Run All Cells")')
        if wait:
            wait_done(page)

    return run


def wait_done(page):
    """Until every cell was run; raises AssertionError as soon as one shows an error or text on stderr."""
    page.wait_for_function(
        """errors => {
            const prompts = [...document.querySelectorAll('.jp-Notebook .jp-CodeCell .jp-InputPrompt')];
            const done = prompts.length && prompts.every(prompt => /\\[\\d+\\]/.test(prompt.innerText));
            return done || document.querySelector(errors);
        }""",
        arg=ERRORS,
        polling=100,
    )
    wait_idle(page)
    errors = page.locator(ERRORS).all_inner_texts()
    assert errors == []
