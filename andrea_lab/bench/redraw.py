"""A run of a million steps redrawn in a browser, by the live view and by a chart that is given all of its points."""

import base64
import os
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np

from andrea_lab.bench import timing
from andrea_lab.bench.server import BenchError
from andrea_lab.rng import rng
from andrea_lab.view import assets
from andrea_lab.view.frame import COLUMNS, pack

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# What keeps a browser to the work it is given: no updates, no reports, no memory shared through a small /dev/shm.
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
SIZE = {"width": 1200, "height": 900}
PAGE = (
    "<!doctype html><meta charset=utf-8><title>redraw</title><style>{}</style><div id=view></div><div id=chart></div>"
)
# The frame comes as base64; the chart gets the losses of the very same frame.
OPEN = """async ([text, frame]) => {
    const module = await import(URL.createObjectURL(new Blob([text], {type: "text/javascript"})));
    const data = Uint8Array.from(atob(frame), (letter) => letter.charCodeAt(0)).buffer;
    const {columns} = module.decodeFrame(data), {step, loss} = columns;
    window.view = module.mount(document.querySelector("#view"), {runs: ["long"]});
    view.frame(0, data);
    const options = {width: 1200, height: 300, scales: {x: {time: false}}, series: [{}, {stroke: "black"}]};
    window.chart = new uPlot(options, [step, loss], document.querySelector("#chart"));
}"""
OURS = """async () => {
    const root = view.element.dataset, before = Number(root.andreaRedraws ?? 0);
    const button = [...view.element.querySelectorAll("button")].find((one) => one.textContent === "Log scale");
    button.click();
    while (Number(root.andreaRedraws ?? 0) === before) await new Promise(requestAnimationFrame);
    return [Number(root.andreaRedrawMs) / 1000, Number(root.andreaPoints), Number(root.andreaSteps)];
}"""
CHART = """async () => {
    const began = performance.now();
    chart.redraw(true, true);
    await Promise.resolve();
    return (performance.now() - began) / 1000;
}"""


def missing() -> str | None:
    """What is not there to measure with, or None."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "Playwright for Python"
    return None if browser() else "Chromium"


def measure(count: int, rounds: int, say: Callable[[str], None]) -> dict[str, list[float]]:
    """Seconds of script for each redraw of `count` steps: {"ours": [...], "beside": [...], "points": [...]}.

    Raises BenchError when the view shows another number of steps.
    """
    say(f"redraw {count:,} steps in a browser")
    points = []
    with _page() as page:
        page.set_content(PAGE.format(assets.css()))
        page.add_script_tag(content=(assets.VENDORED / "uPlot.iife.min.js").read_text(encoding="utf-8"))
        page.evaluate(OPEN, [assets.esm(), base64.b64encode(_frame(count)).decode()])

        def ours() -> float:
            seconds, drawn, steps = page.evaluate(OURS)
            if steps != count:
                raise BenchError(f"view: found {steps} steps in the browser, expected {count}")
            points.append(drawn)
            return seconds

        ours()  # the first makes what the others use
        page.evaluate(CHART)
        return timing.by_turns({"ours": ours, "beside": lambda: page.evaluate(CHART)}, rounds) | {"points": points}


def _frame(count: int) -> bytes:
    """A run of falling, noisy losses."""
    noise = rng(1, "redraw", count)
    steps = np.arange(1, count + 1)
    columns = {name: np.ones(count, kind) for name, kind in COLUMNS}
    columns |= {"step": steps, "source": noise.integers(count, 4), "ms": 100 + noise.uniform(count)}
    columns |= {"loss": 2 + 3.5 / (1 + steps / 2000) + 0.1 * noise.normal(count), "tokens": np.full(count, 1024)}
    columns |= {"grad_norm": np.exp(0.3 * noise.normal(count))}
    return pack(columns, run="long", facts={"name": "long", "vocab": 257, "state": "finished"}, sources=list("abcd"))


def browser() -> str | None:
    """The path of a Chromium, None where there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def _page():
    """A page of a browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = launched(playwright)
        try:
            yield chromium.new_page(viewport=SIZE)
        finally:
            chromium.close()


def launched(playwright: Any) -> Any:
    """A Chromium that Playwright has started."""
    sandbox = [] if os.geteuid() else ["--no-sandbox"]
    return playwright.chromium.launch(executable_path=browser(), args=[*FLAGS, *sandbox])
