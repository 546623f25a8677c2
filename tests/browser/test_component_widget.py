"""The live view's component as a widget's page sees it: a model with traits, messages both ways, several views."""

import base64
import io

import pytest
from PIL import Image

from tests.browser.components import open_component, settle
from tests.view.make_frames import frames, records, run_frames

MODEL = """({runs, frames, still, options, deaf}) => {
    document.querySelector("#root").replaceChildren();
    const view = (text) => new DataView(bytes(text));
    const none = new DataView(new ArrayBuffer(0));
    const traits = {runs, frames: frames.map(view), still: still ? view(still) : none, options};
    window.heard = new Set();
    window.sent = [];
    const send = (message) => {
        if (deaf) throw new Error("no kernel");
        sent.push(message);
    };
    const on = (_, call) => heard.add(call), off = (_, call) => heard.delete(call);
    window.model = {get: (name) => traits[name], on, off, send};
    window.tell = (message, texts = []) => [...heard].forEach((call) => call(message, texts.map(view)));
    window.ends = [];
    window.show = () => {
        const el = document.createElement("div");
        ends.push(module.default.render({model, el}));  // as in JupyterLab, before the element stands in the page
        document.querySelector("#root").append(el);
    };
    show();
}"""


def texts(made):
    return [base64.b64encode(frame).decode() for frame in made]


@pytest.fixture
def open_widget(page):
    def open_it(runs=("made",), stored=(), still=None, deaf=False, **options):
        open_component(page)
        page.evaluate("view.destroy()")
        traits = {"runs": list(runs), "frames": texts(stored), "options": options, "deaf": deaf}
        page.evaluate(MODEL, traits | {"still": still and base64.b64encode(still).decode()})
        return page

    return open_it


def tell(page, made, index=0):
    for text in texts(made):
        page.evaluate("([index, text]) => tell({kind: 'frame', index}, [text])", [index, text])
    settle(page)


def sent(page):
    """What the widget sent, without the name that it gave itself, which must be the same each time."""
    found = page.evaluate("sent")
    assert len({message.pop("page") for message in found if message["kind"] in ("attach", "detach")}) == 1
    return found


def steps(page):
    return page.evaluate("[...document.querySelectorAll('.andrea-lossview')].map((e) => Number(e.dataset.andreaSteps))")


def test_it_asks_for_what_it_has_not_and_takes_what_comes(open_widget):
    first, second, third = frames(records(30), most=10)
    page = open_widget(stored=[first])
    assert sent(page) == [{"kind": "attach", "have": [[1, 10]]}]
    tell(page, [second, third])
    assert steps(page) == [30]


def test_made_before_it_stands_in_the_page_it_has_the_letters_of_the_page(open_widget):
    page = open_widget(stored=run_frames(20))
    settle(page)
    font = page.evaluate("document.querySelector('.al-figure-loss canvas').getContext('2d').font")
    assert font.startswith("13px system-ui")


def test_a_gap_is_asked_for_once_a_second_at_most(open_widget):
    first, _, third = frames(records(30), most=10)
    page = open_widget()
    assert sent(page) == [{"kind": "attach", "have": [[-1, 0]]}]
    page.wait_for_timeout(1100)
    tell(page, [first, third, third])
    assert sent(page)[1:] == [{"kind": "attach", "have": [[1, 10]]}]


def test_stored_frames_find_their_runs_by_name(open_widget):
    stored = [*run_frames(20, name="b"), *run_frames(10, name="a")]
    page = open_widget(["a", "b"], stored)
    settle(page)
    assert steps(page) == [10]
    assert "step 20" in page.inner_text(".al-legend")


def test_two_views_of_one_model_end_by_themselves(open_widget):
    page = open_widget(stored=run_frames(20))
    page.evaluate("show()")
    settle(page)
    assert steps(page) == [20, 20]
    page.evaluate("ends[0]()")
    assert page.evaluate("heard.size") == 1
    tell(page, frames(records(25), most=25))
    assert steps(page) == [25]
    page.evaluate("ends[1]()")
    names = page.evaluate("sent.map(({kind, page}) => [kind, page])")
    first, second = (page for kind, page in names if kind == "attach")
    assert first != second and names[2:] == [["detach", first], ["detach", second]]
    assert page.evaluate("[heard.size, document.querySelectorAll('.andrea-lossview, .uplot').length]") == [0, 0]


def test_without_a_kernel_it_shows_what_was_stored(open_widget):
    page = open_widget(stored=run_frames(40), deaf=True)
    settle(page)
    assert steps(page) == [40]


def test_without_frames_it_shows_the_picture_until_some_come(open_widget):
    page = open_widget(still=png(), deaf=True)
    page.wait_for_selector(".andrea-still")
    assert page.evaluate("document.querySelector('.andrea-still').naturalWidth") == 30
    assert page.get_attribute(".andrea-still", "alt")
    assert page.is_hidden(".andrea-lossview")
    tell(page, run_frames(10))
    assert page.is_visible(".andrea-lossview")
    assert page.locator(".andrea-still").count() == 0


def png():
    """A picture of 30 x 20 pixels."""
    out = io.BytesIO()
    Image.new("RGB", (30, 20), "navy").save(out, "PNG")
    return out.getvalue()


def test_a_damaged_stored_frame_is_said(open_widget):
    page = open_widget(stored=[b"damaged"])
    settle(page)
    assert "a frame could not be read" in page.inner_text(".al-problems")


def test_a_wish_goes_to_the_kernel_and_its_answer_is_shown(open_widget):
    page = open_widget(stored=run_frames(20, control=True))
    page.click("text=Checkpoint now")
    message = page.evaluate("sent.at(-1)")
    assert message == {"kind": "control", "index": 0, "wish": "save", "id": message["id"]}
    assert page.is_disabled("text=Checkpoint now")
    page.evaluate("id => tell({kind: 'said', id, ok: false, text: 'no engine is at work'})", message["id"])
    page.wait_for_selector(".al-answer.al-bad:text-is('no engine is at work')")
    assert page.is_enabled("text=Checkpoint now")


def test_the_span_that_was_asked_for_holds_else_that_of_the_run(open_widget):
    page = open_widget(stored=run_frames(20, steps=1000))
    settle(page)
    assert page.inner_text(".al-over") == "over 50 steps"
    page = open_widget(stored=run_frames(20, steps=1000), span=7)
    settle(page)
    assert page.inner_text(".al-over") == "over 7 steps"
