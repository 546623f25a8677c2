"""The live view's component on a page of its own, loaded the way a widget loads it: one text, from a blob."""

import base64

import numpy as np

from andrea_lab.view import assets
from tests.view.make_frames import run_frames

OPEN = """async ({text, runs, options, control}) => {
    window.module = await import(URL.createObjectURL(new Blob([text], {type: "text/javascript"})));
    window.asked = [];
    const answer = async (index, wish) => (asked.push([index, wish]), {ok: true, text: `asked: ${wish}`});
    window.view = module.mount(document.querySelector("#root"), {runs, options, control: control ? answer : null});
    window.bytes = (base64) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)).buffer;
}"""
SHELL = "<!doctype html><html lang=en><meta charset=utf-8><title>component</title><style>{}</style><div id=root></div>"
GUTTER, MARGIN = 62, 28  # pixels beside the plots
PIXELS = """() => {
    const canvas = document.querySelector(".al-figure-loss canvas"), {width, height} = canvas;
    return {width, height, data: btoa(Array.from(canvas.getContext("2d").getImageData(0, 0, width, height).data,
        (x) => String.fromCharCode(x)).join(""))};
}"""
RUNS = [f"run-{n}" for n in range(4)]
# A function of (first, count, total, more of the header) that makes a frame of falling losses in the page.
ENCODER = """() => void (window.encode = (first, count, total, more = {}) => {
    const columns = [["step", "i4"], ["segment", "i4"], ["source", "i4"], ["loss", "f4"], ["grad_norm", "f4"],
        ["clip", "f4"], ["lr", "f4"], ["tokens", "f4"], ["ms", "f4"]];
    const facts = {name: "made", vocab: 257, steps: null, threshold: 1, state: "training", segments: [], marks: [],
        problems: [], unreadable: 0, control: false};
    const header = {v: 1, run: "made", generation: 1, first, count, total, columns, strips: [], facts,
        sources: ["kjv"]};
    let text = JSON.stringify({...header, ...more});
    text += " ".repeat((8 - (4 + text.length) % 8) % 8);
    const wide = Math.ceil(count / 2) * 8, frame = new ArrayBuffer(4 + text.length + columns.length * wide);
    new DataView(frame).setUint32(0, text.length, true);
    new Uint8Array(frame).set(new TextEncoder().encode(text), 4);
    columns.forEach(([name, kind], place) => {
        const Kind = kind === "i4" ? Int32Array : Float32Array;
        const column = new Kind(frame, 4 + text.length + place * wide, count);
        for (let n = 0; n < count; n++) {
            const step = first + n + 1;
            column[n] = {step, segment: 1, source: 0, loss: 2 + 3 / step, tokens: 1024, ms: 100}[name] ?? 0.5;
        }
    });
    return frame;
})"""


def open_component(page, runs=("made",), *, control=False, **options):
    """Mount the component on an empty page; `view`, `module`, `asked` and `bytes` are left in the page's window."""
    page.set_content(SHELL.format(assets.css()))
    page.evaluate(OPEN, {"text": assets.esm(), "runs": list(runs), "options": options, "control": control})
    return page


def send(page, frames, index=0):
    """Hand frames to the component, and wait for the redraw that shows them. Returns what it answered to the last."""
    texts = [base64.b64encode(frame).decode() for frame in frames]
    before = redraws(page)
    code = "([index, texts]) => texts.map((text) => view.frame(index, bytes(text))).at(-1)"
    answer = page.evaluate(code, [index, texts])
    wait_for(page, "andreaRedraws", lambda value: int(value or 0) > before)
    return answer


def data(page, name):
    """An attribute data-andrea-... of the component, None where it is missing."""
    return page.evaluate("name => document.querySelector('.andrea-lossview').dataset[name] ?? null", name)


def redraws(page):
    return int(data(page, "andreaRedraws") or 0)


def wait_for(page, name, passes):
    """Until a data attribute passes; the page's time-out is the limit."""
    for _ in range(1200):
        if passes(data(page, name)):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{name}: found {data(page, name)} after a minute")


def settle(page):
    """Until all is drawn: what a reader did at the next frame of the page, new records 250 ms later at most."""
    page.wait_for_timeout(350)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def open_runs(page, **options):
    """Four runs of 600 to 900 steps over each other."""
    open_component(page, RUNS, theme="light", **options)
    for n, name in enumerate(RUNS):
        send(page, run_frames(600 + 100 * n, name=name, seed=n + 1), n)
    settle(page)
    return page


def pixels(page):
    """The canvas of the loss, (height, width, 4)."""
    canvas = page.evaluate(PIXELS)
    raw = np.frombuffer(base64.b64decode(canvas["data"]), np.uint8)
    return raw.reshape(canvas["height"], canvas["width"], 4).astype(int)


def near(image, colour, most=40):
    """Where pixels are of a colour, given as #rrggbb."""
    wanted = np.array([int(colour[n : n + 2], 16) for n in (1, 3, 5)])
    return (abs(image[..., :3] - wanted).max(-1) <= most) & (image[..., 3] > 128)


def column_of(step, image, low, high):
    """The column of pixels in which a step lies when low..high are shown."""
    return round(GUTTER + (step - low) / (high - low) * (image.shape[1] - GUTTER - MARGIN))


def window(page):
    """The first and the last step shown."""
    return [int(part) for part in data(page, "andreaWindow").split()]
