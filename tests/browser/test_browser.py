"""The browser tests' own tools: what they would not notice, no browser test would."""

import pytest

PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA="


@pytest.mark.parametrize(
    "page_text, found",
    [
        ("<script>console.error('this went wrong')</script>", "console: this went wrong"),
        ("<script>throw new Error('nobody caught this')</script>", "exception: nobody caught this"),
        ("<img src='http://127.0.0.2:9/x.png'>", "request to another machine: http://127.0.0.2:9/x.png"),
        ("<script>new WebSocket('ws://127.0.0.2:9/x')</script>", "request to another machine: ws://127.0.0.2:9/x"),
    ],
)
def test_an_error_is_noticed(page, complaints, page_text, found):
    complaints.allow("127.0.0.2|went wrong|nobody caught|ERR_")
    page.set_content(page_text)
    page.wait_for_timeout(200)
    assert found in complaints.found
    complaints.allowed.clear()
    assert found in complaints.left()
    complaints.found.clear()


def test_a_quiet_page_has_nothing_to_complain_of(page, complaints, shot):
    page.set_content(f"<body style='background:#123'><img src='{PIXEL}'></body>")
    assert shot(page, "quiet").getpixel((600, 600)) == (0x11, 0x22, 0x33)
    assert complaints.found == []


def test_a_notebook_is_run_to_its_end(page, open_notebook, run_all):
    open_notebook(page, "sum.ipynb", ["a = 1", "import time; time.sleep(1)\nprint(a + 1)"])
    run_all(page)
    assert page.locator(".jp-OutputArea-output").inner_text().strip() == "2"


def test_an_error_in_a_cell_fails_the_run(page, open_notebook, run_all):
    open_notebook(page, "error.ipynb", ["1 / 0", "2"])
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_all(page)
