"""A picture whose parts say what they are: with the mouse, with the keyboard, at any width, beside others."""

CELLS = [
    "from andrea_lab.model.config import ModelConfig\n"
    "from andrea_lab.model.layout import layout\n"
    "from andrea_lab.view.weightfile import weight_file\n"
    "tiny = layout(ModelConfig(vocab=6, context=4, width=4, heads=1, layers=1))\n"
    "shown = weight_file(tiny, 200)\n"
    "shown",
    "shown",
]
SAID = ".andrea-hover p"


def region(page, words):
    """The place on the screen of the middle of the region that says this, and what it says."""
    from andrea_lab.model.config import ModelConfig
    from andrea_lab.model.layout import layout
    from andrea_lab.view.weightfile import weight_file

    picture = weight_file(layout(ModelConfig(vocab=6, context=4, width=4, heads=1, layers=1)), 200)
    x0, y0, x1, y1, said = next(r for r in reversed(picture.regions) if words in r[4])
    box = page.locator(".andrea-hover img").first.bounding_box()
    scale = box["width"] / 916
    return (box["x"] + (x0 + x1) / 2 * scale, box["y"] + (y0 + y1) / 2 * scale), said


def test_parts_say_what_they_are_to_the_mouse_and_to_the_keyboard(page, open_notebook, run_all, shot):
    open_notebook(page, "hover.ipynb", CELLS)
    run_all(page)
    page.wait_for_function("document.querySelectorAll('.andrea-hover img').length === 2")
    stage, said = page.locator(".andrea-hover .stage").first, page.locator(SAID).first
    stage.scroll_into_view_if_needed()
    hint = said.inner_text()
    assert "arrow keys" in hint and "Picture with 29 parts" in stage.get_attribute("aria-label")
    assert page.locator(".andrea-hover img").first.get_attribute("alt").startswith("Weight file of step 200: 8 + 12 x")

    (x, y), words = region(page, "w layer0.W_K")
    page.mouse.move(x, y)
    assert said.inner_text() == words == "w layer0.W_K (4, 4): numbers 64 to 79 of w, bytes 264 to 327"
    frame = page.locator(".andrea-hover .frame").first.bounding_box()
    assert frame["x"] < x < frame["x"] + frame["width"] and frame["y"] < y < frame["y"] + frame["height"]
    shot(page, "pointed-at")
    assert page.locator(SAID).last.inner_text() == hint, "the same picture below is another"
    page.mouse.move(x, y - 500)
    assert said.inner_text() == hint

    stage.focus()
    page.keyboard.press("ArrowRight")
    assert said.inner_text().startswith("header: bytes 0 to 7")
    page.keyboard.press("ArrowRight")
    assert said.inner_text().startswith("w, the weights: bytes 8 to 1,127")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    last = said.inner_text()
    page.keyboard.press("End")
    assert said.inner_text() == last != hint, "before the first comes the last"
    page.keyboard.press("Escape")
    assert said.inner_text() == hint

    page.set_viewport_size({"width": 700, "height": 1000})
    page.wait_for_function("document.querySelector('.andrea-hover img').getBoundingClientRect().width < 600")
    stage.scroll_into_view_if_needed()
    (x, y), words = region(page, "w layer0.W_2")
    page.mouse.move(x, y)
    assert said.inner_text() == words
    shot(page, "narrow")
