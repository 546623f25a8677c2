"""What the live view's component draws: spikes, losses that are not finite, rewinds, several runs, and how often."""

import re

import numpy as np
import pytest

from tests.browser.components import (
    ENCODER,
    column_of,
    data,
    near,
    open_component,
    open_runs,
    pixels,
    redraws,
    send,
    settle,
    wait_for,
)
from tests.view.make_frames import eventful, frames, records, with_bad, with_rewind, with_spike

# Note where every element stands, and from then on which come and go.
MARK = """() => {
    const all = [...document.querySelectorAll(".andrea-lossview, .andrea-lossview *")];
    window.kept = all.map((e) => [e, e.getBoundingClientRect(), e.tagName + "." + e.className]);
    window.changes = [];
    window.watcher = new MutationObserver((list) => {
        for (const {addedNodes, removedNodes, target} of list)
            for (const node of [...addedNodes, ...removedNodes])
                if (node.nodeType === 1) changes.push(target.className + " " + node.tagName);
    });
    watcher.observe(document.querySelector("#root"), {childList: true, subtree: true});
}"""
# [elements that came or went, those that are gone, those that stand elsewhere or have another size]
FOUND = """() => {
    const held = [".al-charts", "canvas", ".al-plot", ".al-controls", "header", ".al-readout", ".al-figures > div"];
    const moved = kept.filter(([e, b]) => {
        if (!held.some((s) => e.matches(s))) return false;
        const now = e.getBoundingClientRect();
        return ["top", "height", ...(e.matches("canvas, .al-plot") ? ["left", "width"] : [])]
            .some((k) => Math.abs(now[k] - b[k]) > 0.5);
    }).map(([, , words]) => words);
    return [changes, kept.filter(([e]) => !e.isConnected).map(([, , words]) => words), moved];
}"""


@pytest.fixture
def shown(page):
    """An eventful run of a thousand steps in the light theme."""
    open_component(page, ["eventful"], theme="light")
    send(page, eventful(1000))
    settle(page)
    return page


@pytest.mark.parametrize("height, colour", [(3.0, "#8fb9d4"), (40.0, "#b53a00")], ids=["a line", "a mark at the edge"])
def test_one_step_in_a_hundred_thousand_is_seen(page, height, colour):
    open_component(page, theme="light")
    send(page, frames(with_spike(records(100_000), 70_000, height=height), steps=100_000))
    settle(page)
    image = pixels(page)
    at = column_of(70_000, image, 0, 100_000)
    above = image[30:120]  # the upper part of the frame, far above every other loss there
    assert near(above[:, at - 2 : at + 3], colour).sum() >= 8
    assert not near(above[:, at + 20 : at + 60], colour).any()
    assert ("above the frame" in page.inner_text(".al-figure-loss")) == (height > 10)


def test_a_spike_above_the_frame_is_told_with_its_step(page):
    open_component(page)
    send(page, frames(with_spike(records(5000), 3210, height=50.0)))
    settle(page)
    assert re.fullmatch(r"above the frame, highest 5\d\.\d+ at step 3,210", page.inner_text(".al-notes"))


def test_losses_that_are_not_finite_are_marked_and_counted(shown):
    assert "2 losses not finite, first at step 200" in shown.inner_text(".al-notes")
    image = pixels(shown)
    at = column_of(200, image, 0, 1000)
    crosses = near(image[-60:], "#b53a00")
    assert crosses[:, at - 6 : at + 7].sum() >= 10
    assert not crosses[:, : at - 10].any() and not crosses[:, at + 12 :].any()


def test_a_loss_alone_between_others_that_are_not_finite_is_a_dot(page):
    open_component(page, theme="light")
    send(page, frames(with_bad(records(100), *range(40, 50), *range(51, 60)), steps=100))
    settle(page)
    image = pixels(page)
    at = column_of(50, image, 0, 100)
    dots = near(image[30:-60, at - 4 : at + 5], "#0072b2") | near(image[30:-60, at - 4 : at + 5], "#56b4e9")
    assert dots.sum() >= 12


def test_a_rewound_stretch_is_dim_and_counts_no_more(shown, new_page):
    assert data(shown, "andreaSteps") == "1000"
    assert "100 steps rewound" in shown.inner_text(".al-notes")
    assert shown.is_visible(".al-figure-loss >> text=rewound")
    columns = with_rewind(records(1000), at=600, to=500)
    images = []
    for keep in (slice(None), np.r_[0:500, 600:1100]):
        page = open_component(new_page(), theme="light")
        send(page, frames({name: values[keep] for name, values in columns.items()}, steps=1000))
        settle(page)
        images.append(pixels(page))
    changed = np.nonzero((images[0] != images[1]).any((0, 2)))[0]
    assert len(changed) > 20
    assert changed.min() >= column_of(500, images[0], 0, 1000) - 3
    assert changed.max() <= column_of(600, images[0], 0, 1000) + 3


def test_a_million_records_are_few_points(page):
    open_component(page)
    page.evaluate(ENCODER)
    page.evaluate("() => view.frame(0, encode(0, 1_000_000, 1_000_000))")
    wait_for(page, "andreaSteps", lambda value: value == "1000000")
    settle(page)
    width = page.evaluate("document.querySelector('.al-charts').clientWidth")
    assert width < int(data(page, "andreaPoints")) < 12 * width
    assert 0 < float(data(page, "andreaRedrawMs")) <= float(data(page, "andreaRedrawMsMax"))


def test_four_redraws_a_second_however_many_frames_come(page):
    open_component(page)
    page.evaluate(ENCODER)
    code = """async () => {
        const began = performance.now();
        for (let n = 0; n < 200; n++) {
            view.frame(0, encode(3 * n, 3, 3 * n + 3));
            await new Promise((done) => setTimeout(done, 10));
        }
        return performance.now() - began;
    }"""
    settle(page)
    before = redraws(page)
    took = page.evaluate(code)
    assert 2 <= redraws(page) - before <= took / 250 + 1
    wait_for(page, "andreaSteps", lambda value: value == "600")
    settle(page)
    still = redraws(page)
    page.wait_for_timeout(600)
    assert redraws(page) == still  # nothing new, nothing drawn


def test_between_updates_no_element_is_replaced_and_nothing_changes_its_size(page):
    open_component(page)
    page.evaluate(ENCODER)
    page.evaluate("() => void view.frame(0, encode(0, 100, 100))")
    wait_for(page, "andreaSteps", lambda value: value == "100")
    settle(page)
    page.evaluate(MARK)
    before = redraws(page)
    for n in range(100, 130, 3):
        page.evaluate("n => void view.frame(0, encode(n, 3, n + 3))", n)
        settle(page)
    assert redraws(page) >= before + 5
    assert page.evaluate(FOUND) == [[], [], []]


@pytest.mark.parametrize("threshold", ["0", "-1", "1e-320", "1.7e308", "1e999"])
def test_a_threshold_that_no_record_could_reach_leaves_the_page_alive(page, threshold):
    open_component(page)
    page.evaluate(ENCODER)
    facts = f"{{name: 'made', state: 'training', marks: [], segments: [], problems: [], threshold: {threshold}}}"
    page.evaluate(f"() => void view.frame(0, encode(0, 50, 50, {{facts: {facts}}}))")
    wait_for(page, "andreaPoints", lambda value: int(value or 0) > 0)


def test_nothing_is_drawn_out_of_sight_but_told(page):
    open_component(page)
    page.evaluate("document.querySelector('#root').style.marginTop = '5000px'")
    page.wait_for_timeout(500)
    before = redraws(page)
    page.evaluate(ENCODER)
    page.evaluate("() => view.frame(0, encode(0, 20, 20))")
    wait_for(page, "andreaSteps", lambda value: value == "20")
    assert redraws(page) == before
    page.locator(".andrea-lossview").scroll_into_view_if_needed()
    wait_for(page, "andreaRedraws", lambda value: int(value or 0) > before)


def test_several_runs_have_a_colour_and_a_box_each(page):
    open_runs(page)
    colours = ["#0072b2", "#c05200", "#008560", "#b0568a"]
    assert [near(pixels(page), colour, 25).sum() > 100 for colour in colours] == [True] * 4
    page.get_by_label("Show run-1").uncheck()
    settle(page)
    assert [near(pixels(page), colour, 25).sum() > 100 for colour in colours] == [True, False, True, True]
    assert page.inner_text(".al-name") == "run-0"
    page.get_by_role("button", name="run-2").click()
    settle(page)
    assert page.inner_text(".al-name") == "run-2"
    assert "800" in page.inner_text(".al-figures")
