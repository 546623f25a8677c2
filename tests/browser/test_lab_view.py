"""The loss view in JupyterLab, on runs that really train: live, asked to save and to stop, after a reload, stored."""

import io
import json
import time

import nbformat
import pytest
from PIL import Image, ImageChops

from andrea_lab.paths import ROOT
from andrea_lab.run.losslog import encode, read_log
from tests.browser.conftest import WAIT_MS
from tests.proxy.runs import andrea, ended, log_of, small

VIEW = ".jp-OutputArea .andrea-lossview"
SHOW = "from andrea_lab.view import LossView\n\nview = LossView({!r}, vocab=257)\nview"
# The cell's last word goes to a file: what it prints after a reload reaches no page.
TRAIN = """import time
from pathlib import Path
from andrea_lab.proxy.loop import train
from tests.proxy.runs import small

config = small(Path("."), steps={steps}, save_every=0)
done = train(config, {run!r}, held_out_batches=0, on_entry=lambda entry: time.sleep(0.02))
Path("ended").write_text(f"{{done.outcome}} after {{done.steps}} steps")"""
FINAL = "view.update(final=True)"
# Threads of views whose output is gone end when their pages say so; how many are left goes to a file, a line a run.
THREADS = """import threading
import time

end = time.monotonic() + 60
while (count := sum(each.name == "loss view" for each in threading.enumerate())) > 1 and time.monotonic() < end:
    time.sleep(0.05)
with open("threads", "a") as file:
    print(count, file=file)"""
LONG = 1_000_000  # steps: such a run ends when it is told to


def root_attribute(page, name):
    return page.locator(VIEW).get_attribute(f"data-andrea-{name}")


def steps_shown(page):
    return int(root_attribute(page, "steps"))


def wait_for_steps_shown(page, steps):
    """Until the view has drawn so many steps of the run."""
    page.wait_for_function(
        "([view, steps]) => Number(document.querySelector(view)?.dataset.andreaSteps) >= steps",
        arg=[VIEW, steps],
        polling=100,
    )


def wait_for_state(page, state):
    page.wait_for_selector(f'{VIEW}[data-andrea-state="{state}"]')


def wait_until(happened, what):
    """Until a function of the test's own side is true."""
    end = time.monotonic() + WAIT_MS / 1000
    while not happened():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.05)


def press(page, name):
    page.locator(VIEW).get_by_role("button", name=name, exact=True).click()


def buttons_for_the_run(page):
    return page.locator(f"{VIEW} .al-wishes").is_visible()


def logged(run):
    """Steps in the log of a run, each counted once."""
    return len(list(read_log(log_of(run)).canonical()))


def curve(page):
    """The main chart as it looks now."""
    return Image.open(io.BytesIO(page.locator(f"{VIEW} canvas").first.screenshot())).convert("RGB")


def differ(a, b):
    return a.size != b.size or ImageChops.difference(a, b).getbbox() is not None


def colours(picture):
    return len(picture.getcolors(1 << 24))


def save_notebook(page, path):
    """Save as a reader does, and wait until the file is written."""
    before = path.stat().st_mtime_ns
    page.click('.lm-MenuBar-itemLabel:text-is("File")')
    page.click('.lm-Menu-itemLabel:text-is("Save Notebook")')
    wait_until(lambda: path.stat().st_mtime_ns > before, f"{path.name} is saved")


def test_a_run_in_a_cell_is_seen_saved_reloaded_and_stopped(page, lab, open_notebook, run_all, shot):
    folder = lab.root / "in_a_cell"
    run = folder / "live"
    open_notebook(page, "in_a_cell/live.ipynb", [SHOW.format("live"), TRAIN.format(run="live", steps=LONG)])
    run_all(page, wait=False)
    wait_for_steps_shown(page, 20)
    first = curve(page)
    wait_for_steps_shown(page, steps_shown(page) + 20)
    assert differ(first, curve(page)) and colours(first) > 8
    shot(page, "training")

    assert not list(run.glob("step_*.bin"))
    press(page, "Checkpoint now")
    wait_until(lambda: list(run.glob("step_*.bin")), "a weight file")
    page.wait_for_function("view => document.querySelector(view + ' .al-answer').innerText != ''", arg=VIEW)
    assert root_attribute(page, "state") == "training" and not (folder / "ended").exists()

    save_notebook(page, folder / "live.ipynb")
    before = logged(run)
    page.reload()
    wait_for_steps_shown(page, before)
    wait_for_steps_shown(page, steps_shown(page) + 20)
    assert root_attribute(page, "state") == "training" and not (folder / "ended").exists()
    shot(page, "after-a-reload")

    press(page, "Stop…")
    assert root_attribute(page, "state") == "training"
    press(page, "Stop")
    wait_until((folder / "ended").exists, "the cell ends")
    last = logged(run)
    assert (folder / "ended").read_text() == f"interrupted after {last} steps"
    assert (run / f"step_{last:06d}.bin").exists()
    wait_for_state(page, "stopped")
    wait_for_steps_shown(page, last)
    assert steps_shown(page) == last and not buttons_for_the_run(page)
    shot(page, "stopped")


def test_a_view_that_is_shown_anew_ends_the_thread_of_the_one_before(page, lab, open_notebook, run_all):
    told = lab.root / "anew" / "threads"
    open_notebook(page, "anew/anew.ipynb", [SHOW.format("none"), THREADS])
    for times in range(1, 4):
        run_all(page, wait=False)
        wait_until(lambda times=times: told.exists() and len(told.read_text().split()) == times, "the cells have run")
    assert told.read_text().split() == ["1"] * 3


def test_a_run_of_another_process_is_watched_and_stopped(page, lab, open_notebook, run_all, shot):
    folder = lab.root / "elsewhere"
    folder.mkdir()
    run = folder / "r"
    (folder / "long.json").write_text(small(folder, steps=LONG, save_every=50, keep=2).to_json())
    process = andrea("train", "long.json", "--run", "r", "--json", cwd=folder)
    try:
        open_notebook(page, "elsewhere/watch.ipynb", [SHOW.format("r")])
        run_all(page)
        wait_for_state(page, "training")
        wait_for_steps_shown(page, steps_shown(page) + 20)
        shot(page, "training")
        press(page, "Stop…")
        press(page, "Stop")
        code, out, _ = ended(process)
    finally:
        process.kill()
    assert code == 0 and json.loads(out)["outcome"] == "interrupted"
    wait_for_state(page, "stopped")
    wait_for_steps_shown(page, logged(run))
    assert steps_shown(page) == logged(run)


@pytest.fixture
def troubled(lab):
    """A run that lost its finite numbers, and one that went back from step 60 to 30: their folders."""
    entry = {"source": "kjv", "lr": 1e-3, "grad_norm": 0.5, "clip": 1.0, "tokens": 64, "ms": 10.0}
    odd = [{"step": n, "segment": 1, "loss": float("nan") if n in (40, 41) else 5.5 - n / 40} for n in range(1, 81)]
    there = [{"step": n, "segment": 1, "loss": 5.5 - n / 40} for n in range(1, 61)]
    again = [{"step": n, "segment": 2, "loss": 5.5 - n / 30} for n in range(31, 101)]
    folders = []
    for name, steps in (("odd", odd), ("rewound", there + again)):
        folder = lab.root / "troubled" / name
        folder.mkdir(parents=True)
        log_of(folder).write_text("".join(encode(entry | step) + "\n" for step in steps))
        folders.append(folder)
    return folders


def test_runs_that_are_over_are_shown_and_left_as_they_are(page, lab, open_notebook, run_all, shot, troubled):
    def kept():
        return [(p, p.stat().st_mtime_ns) for folder in troubled for p in [folder, *sorted(folder.rglob("*"))]]

    before = kept()
    cells = [SHOW.format("odd"), SHOW.format("rewound")]
    open_notebook(page, "troubled/runs.ipynb", cells)
    run_all(page)
    wait_for_steps_shown(page, 80)
    odd, rewound = page.locator(VIEW).all()
    page.wait_for_function("view => [...document.querySelectorAll(view)].at(-1).dataset.andreaSteps == 100", arg=VIEW)
    for view, steps, words in ((odd, "80", "2 losses not finite"), (rewound, "100", "30 steps")):
        assert view.get_attribute("data-andrea-steps") == steps
        view.scroll_into_view_if_needed()
        assert words in view.inner_text()
        assert not view.locator(".al-wishes").is_visible()
        shot(page, f"troubled-{steps}")
    assert kept() == before


def test_a_notebook_saved_with_its_view_shows_it_without_its_kernel(page, new_page, lab, open_notebook, run_all, shot):
    path = lab.root / "kept" / "kept.ipynb"
    open_notebook(page, "kept/kept.ipynb", [SHOW.format("short"), TRAIN.format(run="short", steps=60), FINAL])
    run_all(page)
    wait_for_state(page, "finished")
    save_notebook(page, path)
    page.context.close()
    lab.end_kernels()
    again = new_page()
    open_notebook(again, "kept/kept.ipynb")
    wait_for_steps_shown(again, 60)
    assert root_attribute(again, "state") == "finished" and not buttons_for_the_run(again)
    assert colours(curve(again)) > 8
    shot(again, "without-its-kernel")


def test_a_notebook_of_the_workbook_shows_its_picture_before_anything_is_run(page, lab, open_notebook, shot):
    stored = nbformat.read(ROOT / "notebooks" / "00_start_here.ipynb", as_version=4)
    stored.cells = [cell for cell in stored.cells if cell.cell_type == "code" and "LossView(" in cell.source]
    nbformat.write(stored, lab.root / "workbook.ipynb")
    open_notebook(page, "workbook.ipynb")
    picture = page.locator(".jp-OutputArea img")
    picture.wait_for()
    assert picture.evaluate("image => image.naturalWidth") > 400
    shot(page, "workbook")
