"""How the live view's component is used: zoom, keys, what is read out, themes, labels, wishes, its end."""

import re
import time

import numpy as np
import pytest

from tests.browser.components import ENCODER, near, open_component, open_runs, pixels, send, settle, window
from tests.view.make_frames import eventful, frames, records, run_frames, with_bad, with_rewind, with_spike

CONTRAST = """(names) => {
    const style = getComputedStyle(document.querySelector(".andrea-lossview"));
    return Object.fromEntries(names.map((name) => [name, style.getPropertyValue("--al-" + name).trim()]));
}"""


@pytest.fixture
def shown(page):
    """An eventful run of a thousand steps that may be asked, in the light theme."""
    open_component(page, ["eventful"], control=True, theme="light")
    send(page, eventful(1000, control=True))
    settle(page)
    return page


def test_drag_zooms_and_a_double_click_shows_the_whole(shown):
    box = shown.locator(".al-figure-loss .u-over").bounding_box()
    x = lambda share: box["x"] + share * box["width"]  # noqa: E731
    shown.mouse.move(x(0.2), box["y"] + 80)
    shown.mouse.down()
    shown.mouse.move(x(0.3), box["y"] + 90, steps=4)
    shown.mouse.move(x(0.4), box["y"] + 90, steps=4)
    shown.mouse.up()
    settle(shown)
    assert window(shown) == pytest.approx([200, 400], abs=4)
    assert shown.get_attribute("text=Whole run", "aria-pressed") == "false"
    shown.mouse.dblclick(x(0.5), box["y"] + 80)
    settle(shown)
    assert window(shown) == [0, 1000]


def test_keys_move_and_zoom(shown):
    shown.focus(".al-figure-loss [role=img]")
    seen = {}
    for key in ("+", "+", "ArrowRight", "ArrowLeft", "-", "0", "End", "Home"):
        shown.keyboard.press(key)
        settle(shown)
        seen.setdefault(key, []).append(window(shown))
    assert seen["+"] == [[250, 750], [375, 625]]
    assert seen["ArrowRight"] == [[400, 650]]
    assert seen["ArrowLeft"] == [[375, 625]]
    assert seen["-"] == [[250, 750]]
    assert seen["0"] == seen["Home"] == [[0, 1000]]
    low, high = seen["End"][0]
    assert (high - low, high) == (100, 1000 + 2)


def test_the_newest_steps_are_followed(page):
    open_component(page)
    made = frames(records(600), most=300)
    send(page, made[:1])
    page.click("text=Newest")
    settle(page)
    assert window(page)[1] == pytest.approx(300, abs=2)
    send(page, made[1:])
    settle(page)
    assert window(page)[1] == pytest.approx(600, abs=2)
    assert page.get_attribute("text=Newest", "aria-pressed") == "true"


def test_the_readout_says_what_the_log_says(shown):
    assert shown.inner_text(".al-readout").startswith("Drag to zoom")
    box = shown.locator(".al-figure-loss .u-over").bounding_box()
    shown.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 100)
    text = shown.inner_text(".al-readout").replace("\u00a0", " ")
    step = int(re.match(r"step (\d+)", text)[1])
    assert step == pytest.approx(700, abs=1)
    made = with_rewind(with_spike(with_bad(records(1000), 200, 201), 333), at=600, to=500)
    row = {name: values[made["step"] == step][-1] for name, values in made.items()}
    source = ("kjv", "plays", "wikipedia")[row["source"]]
    for part in (f"loss {row['loss']:.3f}", f"norm {row['grad_norm']:.3f}", source, "segment 2", "rate ", "smoothed "):
        assert part in text
    assert f"{1000 * row['tokens'] / row['ms']:,.0f} tokens/s" in text
    shown.mouse.move(1, 1)
    assert shown.inner_text(".al-readout").startswith("Drag to zoom")


def test_smoothing_and_the_log_scale_are_chosen(shown):
    before = pixels(shown)
    shown.click("text=SMMA")
    shown.locator("input[type=range]").fill("200")
    settle(shown)
    assert shown.inner_text(".al-over") == "over 100 steps"
    assert shown.get_attribute("text=SMMA", "aria-pressed") == "true"
    smoother = pixels(shown)
    assert (before != smoother).any()
    shown.click("text=Log scale")
    settle(shown)
    assert shown.get_attribute("text=Log scale", "aria-pressed") == "true"
    line = lambda image: np.nonzero(near(image, "#0072b2").any(1))[0]  # noqa: E731
    assert line(pixels(shown)).mean() < line(smoother).mean() - 10  # low losses stand higher on a log scale


@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_theme_is_that_of_the_page_around(new_page, system):
    page = open_component(new_page(color_scheme=system))
    send(page, run_frames(100))
    theme = lambda: page.evaluate("document.querySelector('.andrea-lossview').dataset.andreaTheme")  # noqa: E731
    assert theme() == system
    for attribute, expected in (("data-jp-theme-light=false", "dark"), ("data-jp-theme-light=true", "light")):
        page.evaluate("text => document.body.setAttribute(...text.split('='))", attribute)
        settle(page)
        assert theme() == expected
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    settle(page)
    assert theme() == "dark"


@pytest.mark.parametrize("motion, moves", [("reduce", False), ("no-preference", True)])
def test_nothing_moves_for_those_who_want_it_still(new_page, motion, moves):
    page = open_component(new_page(reduced_motion=motion))
    send(page, run_frames(20))
    settle(page)
    name = "getComputedStyle(document.querySelector('.al-badge'), '::before').animationName"
    assert (page.evaluate(name) != "none") == moves


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_and_lines_stand_out(page, theme):
    open_component(page, theme=theme)
    words = ["ink", "soft", "bad", "good", "work"]
    lines = ["norm", "pace", "lost", *(f"run-{n}" for n in range(6))]
    found = page.evaluate(CONTRAST, ["paper", *words, *lines])
    paper = luminance(found.pop("paper"))
    contrast = {name: ratio(luminance(colour), paper) for name, colour in found.items()}
    assert {name: value for name, value in contrast.items() if value < (4.5 if name in words else 3)} == {}


def luminance(colour):
    parts = np.array([int(colour[n : n + 2], 16) for n in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


def ratio(a, b):
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


def test_a_narrow_page_needs_no_scrolling_sideways(new_page):
    page = new_page(viewport={"width": 420, "height": 900})
    open_runs(page, control=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    edges = page.evaluate("[...document.querySelectorAll('button, input')].map((e) => e.getBoundingClientRect().right)")
    assert max(edges) <= 420


def test_figures_stand_under_their_names_whatever_the_page_does_to_lists(shown):
    shown.add_style_tag(content="dl dt { float: left; width: 20%; display: inline } dl dd { padding-left: 3em }")
    place = """() => [...document.querySelectorAll(".al-figures > div:not([hidden])")].map((pair) =>
        [...pair.children].map((e) => [e.getBoundingClientRect().left, e.getBoundingClientRect().top]))"""
    pairs = shown.evaluate(place)
    assert len(pairs) == 4
    assert all(name[0] == value[0] and name[1] < value[1] for name, value in pairs)


def test_a_drag_is_not_lost_when_steps_come_meanwhile(page):
    open_component(page)
    page.evaluate(ENCODER)
    page.evaluate("() => view.frame(0, encode(0, 1000, 1000))")
    settle(page)
    box = page.locator(".al-figure-loss .u-over").bounding_box()
    low, high = window(page)
    page.mouse.move(box["x"] + 100, box["y"] + 80)
    page.mouse.down()
    for n in range(4):
        page.mouse.move(box["x"] + 150 + 50 * n, box["y"] + 80)
        page.evaluate("n => view.frame(0, encode(1000 + n, 1, 1001 + n))", n)
        settle(page)
    page.mouse.up()
    settle(page)
    each = (high - low) / box["width"]
    assert window(page) == pytest.approx([low + 100 * each, low + 300 * each], abs=0.02 * (high - low))


def test_everything_has_a_name_and_the_chart_says_what_it_shows(shown):
    unnamed = """() => [...document.querySelectorAll("button, input, [role=img], [role=group]")]
        .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim())).map((e) => e.outerHTML)"""
    assert shown.evaluate(unnamed) == []
    label = shown.get_attribute(".al-figure-loss [role=img]", "aria-label")
    assert re.search(r"eventful, training: step 1,000, loss \d\.\d+ to \d\.\d+, smoothed \d\.\d+, 2 not finite", label)
    assert "clip" in shown.inner_text(".al-figure-norm")
    assert shown.get_attribute(".al-figure-lr [role=img]", "aria-label").startswith("learning rate, now")
    assert shown.get_by_label("Span of the moving average").get_attribute("aria-valuetext") == "over 50 steps"
    sizes = "[...document.querySelectorAll('.andrea-lossview *')].map((e) => parseFloat(getComputedStyle(e).fontSize))"
    assert min(shown.evaluate(sizes)) >= 13


def test_the_description_changes_seldom(page):
    open_component(page)
    label = lambda: page.get_attribute(".al-figure-loss [role=img]", "aria-label")  # noqa: E731
    made = frames(records(40), most=10)
    send(page, made[:1])
    settle(page)
    first, began = label(), time.monotonic()
    send(page, made[1:2])
    settle(page)
    assert label() == first or time.monotonic() - began >= 9


def test_wishes_are_asked_and_answered(shown):
    shown.click("text=Checkpoint now")
    shown.wait_for_selector("text=asked: save")
    assert shown.evaluate("asked") == [[0, "save"]]
    shown.click("text=Stop…")
    assert shown.evaluate("asked.length") == 1
    shown.click("text=Keep training")
    shown.click("text=Stop…")
    assert shown.evaluate("document.activeElement.textContent") == "Stop"
    shown.keyboard.press("Enter")
    shown.wait_for_selector("text=asked: stop")
    assert shown.evaluate("asked") == [[0, "save"], [0, "stop"]]
    assert shown.get_attribute(".al-answer", "aria-live") == "polite"


@pytest.mark.parametrize("may, facts", [(False, True), (True, False)], ids=["page", "run"])
def test_without_control_nothing_can_be_asked(page, may, facts):
    open_component(page, control=may)
    send(page, run_frames(20, control=facts))
    settle(page)
    assert page.is_hidden("text=Checkpoint now")


def test_an_end_leaves_nothing_behind(shown):
    shown.evaluate("""() => {
        window.weak = new WeakRef(view.element);
        view.frame(0, new ArrayBuffer(3));  // a redraw is due
        view.destroy();
        view.destroy();
        delete window.view;
    }""")
    assert shown.evaluate("document.querySelector('#root').childElementCount") == 0
    session = shown.context.new_cdp_session(shown)
    shown.mouse.move(5, 5)
    for _ in range(100):
        session.send("HeapProfiler.collectGarbage")
        if shown.evaluate("weak.deref() === undefined"):
            return
        shown.wait_for_timeout(200)
    raise AssertionError("the closed view is still held, by a listener or a timer")


def test_a_question_about_one_run_is_not_answered_for_another(page):
    open_component(page, ["a", "b"], control=True)
    for n, name in enumerate("ab"):
        send(page, run_frames(100, name=name, control=True), n)
    page.get_by_role("button", name="Stop…").click()
    assert page.locator(".al-confirm").is_visible()
    page.get_by_role("button", name="b", exact=True).click()
    assert not page.locator(".al-confirm").is_visible()
