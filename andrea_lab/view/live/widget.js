// The same view as an anywidget: frames come as messages, and from the stored state where no kernel answers.

const ANSWER_WITHIN = 10_000; // ms that a wish waits for what the kernel says to it

// traits: runs (names), frames (bytes each, what a stored notebook shows), still (PNG bytes, for want of frames), options
// (of `mount`).
function render({ model, el }) {
  const names = model.get("runs") ?? [];
  const waiting = new Map(); // id of a wish -> what to do with the answer
  const page = Math.random().toString(36).slice(2); // tells this view of the model from others
  let still = null, asked = 0, wishes = 0;

  const send = (message) => {
    try {
      model.send(message);
    } catch {
      // a stored notebook has no kernel to send to; what it shows is in its state
    }
  };
  const control = (index, wish) => new Promise((resolve) => {
    const id = ++wishes;
    const timer = setTimeout(() => answer(id, { ok: false, text: "the kernel does not answer" }), ANSWER_WITHIN);
    waiting.set(id, { resolve, timer });
    send({ kind: "control", index, wish, id });
  });
  const answer = (id, said) => {
    clearTimeout(waiting.get(id)?.timer);
    waiting.get(id)?.resolve(said);
    waiting.delete(id);
  };
  const view = mount(el, { runs: names, control, options: model.get("options") ?? {} });

  const attach = () => {
    asked = Date.now();
    const have = names.map((_, index) => view.have(index));
    send({ kind: "attach", page, have: have.map(({ generation, count }) => [generation, count]) });
  };
  const take = (index, data) => {
    const { ok } = view.frame(index, data);
    if (ok && still) still = clear(still);
    if (!ok && Date.now() - asked > 1000) attach();
  };
  const heard = (message, buffers) => {
    if (message?.kind === "frame") take(message.index, buffers[0]);
    if (message?.kind === "said") answer(message.id, { ok: message.ok, text: message.text });
  };

  model.on("msg:custom", heard);
  for (const data of model.get("frames") ?? []) view.frame(indexOf(names, data), data);
  const picture = model.get("still");
  if (picture?.byteLength && !names.some((_, index) => view.have(index).count)) still = showStill(el, view, picture);
  attach();
  return () => {
    model.off("msg:custom", heard);
    send({ kind: "detach", page });
    for (const id of [...waiting.keys()]) answer(id, { ok: false, text: "the view was closed" });
    if (still) clear(still);
    view.destroy();
  };
}

// The run that a stored frame belongs to, by its name.
function indexOf(names, data) {
  try {
    return Math.max(0, names.indexOf(decodeFrame(data).header.run));
  } catch {
    return 0; // the view says what is wrong with it
  }
}

// Show the PNG in place of a view that has nothing to draw.
function showStill(el, view, bytes) {
  const src = URL.createObjectURL(new Blob([bytes], { type: "image/png" }));
  const image = make("img", { class: "andrea-still", alt: "The loss curve as it was stored", src });
  view.element.hidden = true;
  el.append(image);
  return { image, view };
}

function clear({ image, view }) {
  URL.revokeObjectURL(image.src);
  image.remove();
  view.element.hidden = false;
  return null;
}

export { mount, RunStore, decodeFrame };
export default { render };
