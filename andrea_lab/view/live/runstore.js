// The records of a run as a browser holds them: typed arrays in the order of the log, and what is worked out from them.
// Nothing here knows of a page. The other files follow in the same module: assets.py lays them end to end.

const COLUMN_KINDS = { i4: Int32Array, f4: Float32Array };
const RECORD = {
  step: Int32Array, segment: Int32Array, source: Int32Array,
  loss: Float32Array, grad_norm: Float32Array, clip: Float32Array, lr: Float32Array, tokens: Float32Array, ms: Float32Array,
  pace: Float32Array, // tokens a second, worked out here
};
const SPANS = [1, 1000]; // of the moving averages, in steps

// A frame taken apart: {header, columns}. The columns are views of the frame's own bytes, not copies.
// Throws an Error that says what is wrong with bytes that are no frame.
function decodeFrame(data) {
  let bytes = ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);
  if (bytes.byteOffset % 8) bytes = bytes.slice(); // typed arrays begin at multiples of their size
  if (bytes.length < 8) throw new Error(`a frame of ${bytes.length} bytes, expected 8 at least`);
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  if (4 + size > bytes.length) throw new Error(`a frame's header of ${size} bytes in a frame of ${bytes.length}`);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  if (header.v !== 1) throw new Error(`frames of version ${header.v}, expected 1: reload the page`);
  const columns = {};
  let at = 4 + size;
  for (const [name, kind] of header.columns) {
    if (!COLUMN_KINDS[kind]) throw new Error(`column ${name} of kind ${kind}, expected i4 or f4`);
    columns[name] = new COLUMN_KINDS[kind](bytes.buffer, bytes.byteOffset + at, header.count);
    at += Math.ceil(header.count / 2) * 8;
  }
  return { header, columns };
}

// The moving average of a loss, debiased exponential ("ema") or smoothed ("smma"), one value after the other.
// What a span of n keeps of itself is 1 - 2/(n+1) for the first and 1 - 1/n for the second.
class Average {
  constructor(kind, span) {
    this.kind = kind;
    this.span = span;
    this.keep = kind === "smma" ? 1 - 1 / span : 1 - 2 / (span + 1);
    this.power = 1; // keep ** seen: what is left of the zero that the exponential average begins with
    this.seen = 0;
  }

  // The average after x, when it was `last` after `seen` finite values.
  next(last, seen, x) {
    if (!seen) last = this.kind === "smma" ? x : 0;
    if (this.kind === "smma") return this.keep * last + (1 - this.keep) * x;
    if (this.seen !== seen) this.power = this.keep ** seen;
    const total = this.keep * last * (1 - this.power) + (1 - this.keep) * x;
    this.power *= this.keep;
    this.seen = seen + 1;
    return total / (1 - this.power);
  }
}

// One run. `records` holds every record in file order; `curve` the indices of those that count, by rising step: a record
// at step s makes void every earlier one at s or above. The void ones lie in `lost`, stretch after stretch.
class RunStore {
  constructor(name, kind = "ema", span = 20) {
    this.name = name;
    this.facts = { name, state: "waiting", marks: [], segments: [], problems: [] };
    this.sources = [];
    this.strips = [];
    this.generation = -1;
    this.average = new Average(kind, span);
    this.#clear();
  }

  #clear() {
    this.count = this.length = this.lostLength = this.total = 0;
    this.lostEnds = []; // where each rewound stretch ends in `lost`
    this.#reserve(1024, true);
  }

  // Room for n records: capacity doubles, so that a long run costs few copies and its memory stays flat between them.
  #reserve(n, fresh = false) {
    if (!fresh && n <= this.capacity) return;
    let capacity = fresh ? n : this.capacity;
    while (capacity < n) capacity *= 2;
    const grown = (Kind, old) => {
      const made = new Kind(capacity);
      if (!fresh) made.set(old);
      return made;
    };
    this.capacity = capacity;
    const records = {};
    for (const [name, Kind] of Object.entries(RECORD)) records[name] = grown(Kind, this.records?.[name]);
    this.records = records;
    this.curve = grown(Int32Array, this.curve);
    this.lost = grown(Int32Array, this.lost);
    this.finite = grown(Int32Array, this.finite); // finite losses up to this place of the curve
    this.smooth = grown(Float64Array, this.smooth); // the moving average at this place of the curve
  }

  // Take a decoded frame. False when records before it are missing, so that it can be asked for again from `count`.
  take({ header, columns }) {
    if (header.generation !== this.generation) {
      this.#clear();
      this.generation = header.generation;
    }
    this.facts = { marks: [], segments: [], problems: [], ...header.facts };
    this.sources = header.sources ?? [];
    this.strips = header.strips ?? [];
    this.total = header.total;
    const known = this.count - header.first;
    if (known < 0) return false;
    if (known >= header.count) return true; // nothing new: another view of this page asked for it
    this.#reserve(header.first + header.count);
    for (const name of Object.keys(RECORD)) {
      const to = this.records[name];
      if (columns[name]) to.set(columns[name].subarray(known), this.count);
      else to.fill(name in { step: 1, segment: 1, source: 1 } ? 0 : NaN, this.count, header.first + header.count);
    }
    for (const end = header.first + header.count; this.count < end; this.count++) this.#add(this.count);
    return true;
  }

  #add(record) {
    const { step, pace, tokens, ms } = this.records;
    pace[record] = (1000 * tokens[record]) / ms[record];
    let keep = this.length;
    while (keep && step[this.curve[keep - 1]] >= step[record]) keep--;
    if (keep < this.length) {
      this.lost.set(this.curve.subarray(keep, this.length), this.lostLength);
      this.lostLength += this.length - keep;
      this.lostEnds.push(this.lostLength);
    }
    this.curve[keep] = record;
    this.length = keep + 1;
    this.#smooth(keep);
  }

  #smooth(at) {
    const seen = at ? this.finite[at - 1] : 0;
    const last = at ? this.smooth[at - 1] : NaN;
    const x = this.records.loss[this.curve[at]];
    const good = Number.isFinite(x);
    this.finite[at] = seen + good;
    this.smooth[at] = good ? this.average.next(last, seen, x) : last;
  }

  // Average anew, over another span or in another way.
  respan(kind, span) {
    if (kind === this.average.kind && span === this.average.span) return;
    this.average = new Average(kind, span);
    for (let at = 0; at < this.length; at++) this.#smooth(at);
  }

  get firstStep() {
    return this.length ? this.stepAt(0) : 0;
  }

  get lastStep() {
    return this.length ? this.stepAt(this.length - 1) : 0;
  }

  stepAt(at) {
    return this.records.step[this.curve[at]];
  }

  value(name, at) {
    return this.records[name][this.curve[at]];
  }

  // The first step in the places from..to with this loss.
  stepOf(loss, from, to) {
    while (from < to && this.value("loss", from) !== loss) from++;
    return this.stepAt(from);
  }

  // The first place of the curve whose step is `step` or above; `length` when there is none.
  placeOf(step) {
    return firstPlace(this.length, (at) => this.stepAt(at) >= step);
  }

  // The place whose step lies nearest; -1 on an empty curve.
  nearest(step) {
    const at = this.placeOf(step);
    if (at === this.length) return at - 1;
    return at && step - this.stepAt(at - 1) < this.stepAt(at) - step ? at - 1 : at;
  }

  // {count, first}: how many losses of the curve are not finite, and the first step with such a one.
  notFinite() {
    const count = this.length ? this.length - this.finite[this.length - 1] : 0;
    return { count, first: count ? this.stepAt(firstPlace(this.length, (at) => at + 1 > this.finite[at])) : null };
  }

  // Steps from..to (places of the curve) whose loss is not finite, none nearer to the one before than `apart` steps.
  oddSteps(from, to, apart) {
    const found = [];
    for (let at = from; at < to;) {
      const before = at ? at - this.finite[at - 1] : 0;
      at += firstPlace(to - at, (n) => at + n + 1 - this.finite[at + n] > before);
      if (at === to) break;
      found.push(this.stepAt(at));
      at = Math.max(at + 1, this.placeOf(this.stepAt(at) + apart));
    }
    return found;
  }

  // {tokens, seconds}: tokens a second and seconds a step over the last twenty steps; NaN where the log does not say.
  pace() {
    let tokens = 0, ms = 0, steps = 0;
    for (let at = Math.max(0, this.length - 20); at < this.length; at++) {
      if (!(this.value("ms", at) > 0)) continue;
      ms += this.value("ms", at);
      tokens += this.value("tokens", at) || 0;
      steps++;
    }
    return { tokens: (1000 * tokens) / ms, seconds: ms / 1000 / steps };
  }
}

// The first of 0 .. n-1 that passes, when all after one that passes pass too; n when none does.
function firstPlace(n, passes) {
  let low = 0, high = n;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (passes(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
