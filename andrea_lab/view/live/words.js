// What a run says in words: numbers as they are written, and lines made of its records and facts.

// How numbers are written: a step or a count; a loss; a rate; a time in words.
function number(n) {
  return Math.round(n).toLocaleString("en-US");
}

// Steps on an axis that ends at `last`: in thousands when they are many.
function stepTick(n, last) {
  return last >= 1e5 && n ? `${number(n / 1000)}k` : number(n);
}

function short(x) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "not a number" : x > 0 ? "+infinity" : "-infinity";
  return Math.abs(x) >= 1000 ? x.toPrecision(3) : x.toFixed(3);
}

function rate(x) {
  return Number.isFinite(x) ? (x ? x.toExponential(1) : "0") : "none";
}

function tick(x) {
  if (x !== 0 && (Math.abs(x) < 0.01 || Math.abs(x) >= 1e5)) return x.toExponential(0).replace("+", "");
  return Number(x.toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 4 });
}

function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  const [minutes, hours] = [Math.floor(s / 60), Math.floor(s / 3600)];
  if (hours >= 48) return `${Math.floor(hours / 24)} days ${hours % 24} h`;
  return hours ? `${hours} h ${minutes % 60} min` : `${minutes} min ${s % 60} s`;
}

function counted(n, one, many) {
  return `${number(n)} ${n === 1 ? one : many}`;
}

// An event in a word, and with what its run says of it.
function wordOf({ kind }) {
  return kind === "resume" ? "resumed" : kind;
}

function nameOf(mark) {
  return mark.label && mark.label !== mark.kind ? `${wordOf(mark)} (${mark.label})` : wordOf(mark);
}

// The figures of the header, by name; "" where there is nothing to say.
function figuresOf(store) {
  const { facts } = store, last = store.length - 1, pace = store.pace();
  const left = (facts.steps - store.lastStep) * pace.seconds;
  if (last < 0) return { step: "none yet" };
  return {
    step: facts.steps ? `${number(store.lastStep)} of ${number(facts.steps)}` : number(store.lastStep),
    loss: short(store.value("loss", last)),
    smoothed: store.finite[last] ? short(store.smooth[last]) : "",
    "tokens/s": pace.tokens ? number(pace.tokens) : "",
    "time left": facts.state === "training" && left > 0 ? duration(left) : "",
  };
}

// Why a run is in its state, else where it comes from.
function whyOf({ why, state, fork }) {
  if (why && why !== state) return why;
  return fork ? `forked from ${fork.from} at step ${number(fork.step)}` : "";
}

// [step, loss, smoothed] at a place of the curve, each with its name.
function placeWords(store, at) {
  if (at < 0) return ["", "", ""];
  return [`step ${number(store.stepAt(at))}`, `loss ${short(store.value("loss", at))}`, `smoothed ${short(store.smooth[at])}`];
}

// All that the log says of a place of the curve, and the events within `near` steps of it.
function readoutOf(store, at, near) {
  const pace = store.value("pace", at), step = store.stepAt(at);
  const events = store.facts.marks.filter((mark) => Math.abs(mark.step - step) <= near).map(nameOf);
  const parts = [
    ...placeWords(store, at),
    `rate ${rate(store.value("lr", at))}`,
    `norm ${short(store.value("grad_norm", at))}`,
    pace > 0 ? `${number(pace)} tokens/s` : "",
    store.sources[store.value("source", at)] ?? "",
    `segment ${store.value("segment", at)}`,
    [...new Set(events)].join(", "),
  ];
  return parts.filter(Boolean).map((part) => part.replaceAll(" ", "\u00a0")).join("   "); // wrapped between parts only
}

// Losses that no line shows, and what of the log does not count. highest: [loss, step] of one above the frame, or null.
function notesOf(store, highest) {
  const odd = store.notFinite(), { unreadable } = store.facts, notes = [];
  if (odd.count) notes.push(`${counted(odd.count, "loss", "losses")} not finite, first at step ${number(odd.first)}`);
  if (highest) notes.push(`above the frame, highest ${short(highest[0])} at step ${number(highest[1])}`);
  if (store.lostLength) notes.push(`${counted(store.lostLength, "step", "steps")} rewound`);
  if (unreadable) notes.push(`${counted(unreadable, "line", "lines")} of the log unreadable`);
  return notes.join("; ");
}

// A run's curve in a sentence.
function sentenceOf(store) {
  const { name, facts } = store, at = store.length - 1, odd = store.notFinite().count;
  if (at < 0) return `${name}, ${facts.state}: no steps yet`;
  const [first, last] = [0, at].map((place) => short(store.value("loss", place)));
  const end = odd ? `, ${number(odd)} not finite` : "", step = number(store.lastStep);
  return `${name}, ${facts.state}: step ${step}, loss ${first} to ${last}, smoothed ${short(store.smooth[at])}${end}`;
}
