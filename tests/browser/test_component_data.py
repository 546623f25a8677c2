"""What the live view's component makes of frames: columns, moving averages, rewinds, gaps; the same as Python's."""

import base64

import numpy as np
import pytest

from andrea_lab.run.average import averaged, keep_of
from andrea_lab.view.frame import unpack
from tests.browser.components import ENCODER, data, open_component, send, settle
from tests.view.make_frames import eventful, facts, frames, records, run_frames, with_bad, with_rewind

STORE = """([texts, kind, span]) => {
    const store = new module.RunStore("made", kind, span);
    for (const text of texts) store.take(module.decodeFrame(bytes(text)));
    const steps = Array.from({length: store.length}, (_, at) => store.stepAt(at));
    const smooth = Array.from(store.smooth.subarray(0, store.length), (x) => Number.isNaN(x) ? null : x);
    return {steps, smooth, count: store.count, lost: store.lostLength, odd: store.notFinite()};
}"""


@pytest.fixture
def module(page):
    return open_component(page)


def texts(made):
    return [base64.b64encode(frame).decode() for frame in made]


def canonical(columns):
    """Indices of the records that count: a record at a step makes void all before it at that step or above."""
    kept = []
    for index, step in enumerate(columns["step"]):
        while kept and columns["step"][kept[-1]] >= step:
            kept.pop()
        kept.append(index)
    return np.array(kept)


def smoothed(losses, kind, span):
    """The moving average after each loss, in float64; nan before the first that is finite."""
    if kind == "ema":
        return [total / weight if weight else np.nan for total, weight in averaged(losses, keep_of(span))]
    made, last = [], None
    for loss in losses:
        if np.isfinite(loss):
            last = loss if last is None else (last * (span - 1) + loss) / span
        made.append(np.nan if last is None else last)
    return made


@pytest.mark.parametrize("shift", [0, 3])
def test_columns_are_those_of_the_frame_wherever_its_bytes_lie(module, shift):
    frame = eventful(501)[0]
    code = """([text, shift]) => {
        const whole = new Uint8Array(bytes(text)), buffer = new ArrayBuffer(whole.length + shift);
        new Uint8Array(buffer).set(whole, shift);
        const {header, columns} = module.decodeFrame(new DataView(buffer, shift));
        return [header, Object.fromEntries(Object.entries(columns).map(([name, c]) => [name, Array.from(c, String)]))];
    }"""
    header, columns = module.evaluate(code, [texts([frame])[0], shift])
    expected = unpack(frame)
    assert header == expected.header
    for name, values in expected.columns.items():
        assert np.array_equal(np.array(columns[name], values.dtype), values, equal_nan=name == "loss"), name


@pytest.mark.parametrize("kind", ["ema", "smma"])
@pytest.mark.parametrize("span", [1, 20, 1000])
def test_averages_are_those_of_python(module, kind, span):
    columns = with_rewind(with_bad(records(1500), 1, 2, 700, 1000), at=900, to=650)
    columns = with_bad(columns, 800, value=-np.inf)
    kept = canonical(columns)
    found = module.evaluate(STORE, [texts(frames(columns, most=333)), kind, span])
    assert found["steps"] == columns["step"][kept].tolist()
    losses = columns["loss"][kept].astype(float)
    np.testing.assert_allclose(np.array(found["smooth"], float), smoothed(losses, kind, span), rtol=1e-5)
    bad = ~np.isfinite(losses)
    assert found["odd"] == {"count": bad.sum(), "first": columns["step"][kept][bad][0]}
    assert (found["count"], found["lost"]) == (len(columns["step"]), len(columns["step"]) - len(kept))


def test_another_span_averages_the_same_records_anew(module):
    columns = with_rewind(with_bad(records(400), 30), at=300, to=200)
    code = """([texts]) => {
        const store = new module.RunStore("made", "ema", 20);
        for (const text of texts) store.take(module.decodeFrame(bytes(text)));
        store.respan("smma", 50);
        return Array.from(store.smooth.subarray(0, store.length));
    }"""
    losses = columns["loss"][canonical(columns)].astype(float)
    found = module.evaluate(code, [texts(frames(columns))])
    np.testing.assert_allclose(found, smoothed(losses, "smma", 50), rtol=1e-5)


def test_a_frame_after_a_gap_is_asked_for_again(module):
    first, second, third = frames(records(30), most=10)
    assert send(module, [first]) == {"ok": True, "generation": 1, "count": 10}
    assert send(module, [third]) == {"ok": False, "generation": 1, "count": 10}
    assert send(module, [second, third]) == {"ok": True, "generation": 1, "count": 30}
    assert send(module, [second]) == {"ok": True, "generation": 1, "count": 30}
    assert data(module, "andreaSteps") == "30"


def test_another_generation_drops_what_was_sent_before(module):
    send(module, run_frames(50))
    assert send(module, frames(records(7), generation=2)) == {"ok": True, "generation": 2, "count": 7}
    settle(module)
    assert data(module, "andreaSteps") == "7"


@pytest.mark.parametrize(
    "frame, words",
    [
        (b"no", "a frame of 2 bytes, expected 8 at least"),
        (b"\xff\xff\xff\x00" + bytes(12), "a frame's header of 16777215 bytes in a frame of 16"),
        (b"\x0c\x00\x00\x00" + b'{"v": 2}    ', "frames of version 2, expected 1"),
        (run_frames(10)[0][:-200], "a frame could not be read"),
    ],
    ids=["short", "cut", "version", "columns"],
)
def test_bytes_that_are_no_frame_are_said_and_the_next_frame_is_read(module, frame, words):
    assert send(module, [frame])["ok"] is False
    settle(module)
    assert words in module.inner_text(".al-problems")
    assert send(module, run_frames(10))["ok"] is True
    settle(module)
    assert module.is_hidden(".al-problems")
    assert data(module, "andreaSteps") == "10"


def test_problems_of_the_run_are_shown(module):
    send(module, frames(records(3), problems=["config.json: found no JSON, expected an object"]))
    settle(module)
    assert module.inner_text(".al-problems") == "config.json: found no JSON, expected an object"


def test_ten_thousand_small_frames_leave_memory_flat(module):
    module.evaluate(ENCODER)
    code = """async ([from, to]) => {
        for (let n = from; n < to; n++) {
            view.frame(0, encode(3 * n, 3, 3 * n + 3));
            if (n % 200 === 0) await new Promise((done) => setTimeout(done));
        }
    }"""
    session = module.context.new_cdp_session(module)

    def used():
        settle(module)
        session.send("HeapProfiler.collectGarbage")
        return session.send("Runtime.getHeapUsage")["usedSize"], module.evaluate(
            "document.querySelectorAll('*').length"
        )

    module.evaluate(code, [0, 500])
    before, elements = used()
    module.evaluate(code, [500, 10_500])
    after, still = used()
    assert data(module, "andreaSteps") == "31500"
    assert still == elements
    # The records themselves lie in typed arrays, which this figure leaves out.
    assert after - before < 2_000_000


def test_capacity_doubles(module):
    code = """() => {
        const store = new module.RunStore("made"), seen = new Set();
        for (let n = 0; n < 2000; n++) {
            store.take(module.decodeFrame(encode(5 * n, 5, 5 * n + 5)));
            seen.add(store.capacity);
        }
        return [...seen];
    }"""
    module.evaluate(ENCODER)
    assert module.evaluate(code) == [1024, 2048, 4096, 8192, 16384]


def test_facts_are_read_as_they_change(module):
    send(module, frames(records(5), state="training", steps=10))
    send(module, frames(records(10), state="diverged", why="loss not finite at step 10", steps=10))
    settle(module)
    assert data(module, "andreaState") == "diverged"
    assert module.inner_text(".al-badge") == "diverged"
    assert module.inner_text(".al-why") == "loss not finite at step 10"
    assert "10 of 10" in module.inner_text(".al-figures")
    assert facts()["name"] == module.inner_text(".al-name")
