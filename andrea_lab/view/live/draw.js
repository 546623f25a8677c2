// From records to pixels: steps gathered into columns no narrower than a pixel, the frame around the values, and the plots.
// uPlot draws axes, lines and the cursor; what it does not know of (marks, rewound stretches, sources) is drawn around it.

const GUTTER = 62; // pixels left of every plot, so that all begin at the same place
const MARGIN = 28; // pixels right of every plot
const RUN_COLOURS = 6;
const SOURCE_COLOURS = 8;
const LOST_DRAWN = 24; // rewound stretches, the newest
const DOT_ROOM = 6; // pixels a step, from which on each loss is a dot in the colour of its source

// The columns of a window: `size` whole steps each, counted from step 0, so that a window that moves does not shimmer.
// One column on either side lies outside the window, for lines that leave it. `x` is what uPlot gets: the middle of each
// column, twice where a column holds more than one step and so has a smallest and a largest value.
class Grid {
  constructor([low, high], pixels) {
    this.size = Math.max(1, Math.ceil((high - low) / Math.max(pixels, 1)));
    this.first = Math.floor(low / this.size) - 1;
    this.count = Math.floor(high / this.size) + 2 - this.first;
    this.each = this.size > 1 ? 2 : 1;
    this.x = Array.from({ length: this.count * this.each }, (_, n) => this.middle(Math.floor(n / this.each)));
    this.begin = this.first * this.size;
    this.end = this.begin + this.count * this.size;
  }

  middle(column) {
    return (this.first + column) * this.size + (this.size - 1) / 2;
  }
}

// The smallest and the largest value of every column, in the order in which they came, so that no spike is lost.
// `index` leads from places to values (null: they are the same); places from..to are those of the steps in the grid.
// null where nothing in the column is finite (a gap), undefined where the column is empty (the line passes over it).
function zigzag(grid, step, values, index, from, to, positive = false) {
  const { size, each, first } = grid;
  const out = new Array(grid.x.length).fill(undefined);
  for (let at = from; at < to;) {
    const column = Math.floor(step(at) / size) - first;
    const edge = (column + first + 1) * size;
    let low = Infinity, high = -Infinity, lowAt = 0, highAt = 0;
    do {
      const value = values[index ? index[at] : at];
      if (value - value === 0 && !(positive && value <= 0)) {
        if (value < low) {
          low = value;
          lowAt = at;
        }
        if (value > high) {
          high = value;
          highAt = at;
        }
      }
      at++;
    } while (at < to && step(at) < edge);
    const place = column * each;
    if (low > high) out[place] = out[place + each - 1] = null;
    else if (each === 1) out[place] = high;
    else [out[place], out[place + 1]] = lowAt < highAt ? [low, high] : [high, low];
  }
  return out;
}

// What one run shows in a grid: lines for its curve and, when `all`, for the strips of the chosen run.
function columnsOf(store, grid, all) {
  const { records, curve } = store;
  const [from, to] = [store.placeOf(grid.begin), store.placeOf(grid.end)];
  const step = (at) => records.step[curve[at]];
  const line = (name, positive) => zigzag(grid, step, records[name], curve, from, to, positive);
  const made = { from, to, loss: line("loss"), smooth: zigzag(grid, step, store.smooth, null, from, to) };
  if (all) Object.assign(made, { lr: line("lr"), norm: line("grad_norm", true), pace: line("pace") });
  return made;
}

// [[xs, ys], ...] of the newest rewound stretches, in the columns of the grid.
function lostLines(store, grid) {
  const { lostEnds, lost, records } = store, made = [];
  for (let n = lostEnds.length - 1; n >= Math.max(0, lostEnds.length - LOST_DRAWN); n--) {
    const begin = n ? lostEnds[n - 1] : 0, size = lostEnds[n] - begin;
    const step = (at) => records.step[lost[at]];
    const from = begin + firstPlace(size, (at) => step(begin + at) >= grid.begin);
    const to = begin + firstPlace(size, (at) => step(begin + at) >= grid.end);
    if (from < to) made.push(zigzag(grid, step, records.loss, lost, from, to));
  }
  return made;
}

// Cells of the strip of sources: [{from, to, shares: [part of each source]}]. One step a cell where there is room for it.
function sourceCells(store, grid, pixels) {
  const { records, curve } = store;
  const wide = grid.size === 1 ? 1 : grid.size * Math.ceil((6 * grid.count) / Math.max(pixels, 1));
  const cells = [], end = store.placeOf(grid.end);
  for (let at = store.placeOf(grid.begin); at < end;) {
    const from = Math.floor(store.stepAt(at) / wide) * wide;
    const shares = new Array(SOURCE_COLOURS + 1).fill(0);
    let steps = 0;
    do {
      shares[Math.min(records.source[curve[at]], SOURCE_COLOURS)]++; // the last one stands for all without a colour
      steps++;
      at++;
    } while (at < end && store.stepAt(at) < from + wide);
    cells.push({ from, to: Math.min(from + wide, store.lastStep + 1), shares: shares.map((n) => n / steps) });
  }
  return cells;
}

// The frame around losses: [low, high] from the lines in it. A single spike may leave it; it is marked at the edge.
// uniform: ln V, part of the frame where given.
function lossFrame(lines, uniform, log) {
  const values = lines.flat().filter((v) => v != null && !(log && v <= 0)).sort((a, b) => a - b);
  if (!values.length) return uniform ? [uniform - 3 > 0 ? uniform - 3 : uniform / 8, uniform + 0.5] : log ? [0.1, 10] : [0, 1];
  const [quarter, three] = [0.25, 0.75].map((share) => values[Math.floor(share * (values.length - 1))]);
  const fence = three + 3 * (three - quarter) + 0.05 * Math.abs(three);
  let usual = values[firstPlace(values.length, (n) => values[n] > fence) - 1];
  let low = values[0];
  const top = values[values.length - 1];
  if (uniform) [low, usual] = [Math.min(low, Math.max(uniform - 3, 0.5 * uniform)), Math.max(usual, uniform)];
  const high = Math.max(usual, Math.min(top, usual + 1.5 * (usual - low) + 0.02 * Math.abs(usual)));
  if (log) return [low / 1.08, high * 1.08];
  const unit = niceStep(Math.max(high - low, 0.02 * Math.abs(high), 1e-6) / 8);
  const floor = Math.floor((low - 0.15 * unit) / unit) * unit;
  return [low >= 0 ? Math.max(floor, 0) : floor, Math.ceil((high + 0.15 * unit) / unit) * unit];
}

// 1, 2, 2.5 or 5 times a power of ten, the next from `least` on.
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 2.5, 5, 10].find((lead) => lead * power >= least * 0.999);
}

// The frame of a strip: from 0 to above all values, or close around them where `log`; `include` (if a float > 0) lies within it.
function stripFrame(line, log, include = null) {
  let low = Infinity, high = -Infinity;
  for (const value of include > 0 && Math.fround(include) < Infinity ? [...line, include] : line) {
    if (value == null) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return log ? [0.1, 10] : [0, 1];
  return log ? [low / 1.25, high * 1.25] : [Math.min(low, 0), high > 0 ? 1.08 * high : 1];
}

// Where a logarithmic axis has lines, about `most` of them: decades, with others between them where there is room, or round
// steps where it spans less than one.
function logSplits(low, high, most) {
  const made = [];
  if (high / low < 5) {
    const unit = niceStep((high - low) / most);
    for (let n = Math.ceil(low / unit); n * unit <= high; n++) made.push(n * unit);
    return made;
  }
  const decades = Math.log10(high / low), each = Math.ceil(decades / most);
  const leads = 3 * decades <= most ? [1, 2, 5] : 2 * decades <= most ? [1, 3] : [1];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
    for (const lead of power % each ? [] : leads) made.push(lead * 10 ** power);
  return made.filter((value) => value >= low * 0.999 && value <= high * 1.001);
}

// One plot in `host`. spec: {height, axis, top, log, frame(), splits, format, lines: [{colour, width, alpha}], dotted: every
// second line alone has a dot under the cursor; and what to paint around them: under(ctx, place), after(ctx, place, line,
// xs) each line, over(ctx, place)}.
// shared: {window(), colour(name), font, key, cursor(plot), zoom(low, high), whole()}.
function makePlot(host, spec, shared) {
  const ink = () => shared.colour("soft"), grid = { stroke: () => shared.colour("grid"), width: 1 };
  const ticks = { show: false };
  const none = (_, splits) => splits.map(() => "");
  const x = {
    stroke: ink, grid, ticks, font: shared.font, space: 72, gap: 6, size: spec.axis ? 30 : 0,
    incrs: [1, 2, 5, 10, 20, 50].flatMap((n) => [n, n * 100, n * 1e4, n * 1e6]).sort((a, b) => a - b),
    values: spec.axis ? (_, splits) => splits.map((n) => stepTick(n, splits.at(-1))) : none,
  };
  const y = {
    stroke: ink, grid, ticks, font: shared.font, size: GUTTER, gap: 8, space: spec.space ?? 34,
    values: spec.format ? (_, splits) => splits.map(spec.format) : none,
  };
  if (spec.bare) x.grid = y.grid = { show: false };
  const logarithmic = { splits: (u, _, low, high) => logSplits(low, high, u.height / y.space), filter: (_, splits) => splits };
  if (spec.log) Object.assign(y, logarithmic);
  if (spec.splits) Object.assign(y, { splits: () => spec.splits() });
  const series = spec.lines.map(({ colour, width = 1.2, alpha = 1 }) => (
    { stroke: () => shared.colour(colour), width, alpha, points: { show: false } }
  ));
  return new uPlot({
    width: host.clientWidth || 600, height: spec.height, padding: [spec.top ?? 8, MARGIN, spec.bare ? 0 : 4, 0], pxAlign: 0,
    legend: { show: false },
    scales: { x: { time: false, range: () => shared.window() }, y: { distr: spec.log ? 3 : 1, range: () => spec.frame() } },
    axes: [x, y],
    series: [{}, ...series],
    cursor: {
      y: false, move: (u, left, top) => [left < 0 ? left : u.valToPos(Math.round(u.posToVal(left, "x")), "x"), top], // on a step
      points: { size: (_, n) => (spec.dotted && n % 2 ? 0 : 8), width: 0 }, sync: { key: shared.key, scales: ["x", null] },
      drag: { x: true, y: false, setScale: false, dist: 5 }, bind: { dblclick: () => shared.whole },
    },
    hooks: {
      drawAxes: [(u) => spec.under && painted(u, spec.under)],
      drawSeries: [(u, n) => n && spec.after && painted(u, (ctx, place) => spec.after(ctx, place, n - 1, u.data[0]))],
      draw: [(u) => spec.over && painted(u, spec.over, true)],
      setCursor: [(u) => shared.cursor(u)],
      setSelect: [(u) => {
        const { left, width } = u.select;
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        if (width > 0) shared.zoom(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
      }],
    },
  }, [[0, 1], ...spec.lines.map(() => [null, null])], host);
}

// Run `paint` with the canvas in CSS pixels. place: {x(step), y(value), left, top, right, bottom}; clipped to the plot
// unless `open`.
function painted(u, paint, open = false) {
  const ratio = uPlot.pxRatio, { left, top, width, height } = u.bbox;
  const place = {
    x: (step) => u.valToPos(step, "x", true) / ratio, y: (value) => u.valToPos(value, "y", true) / ratio,
    left: left / ratio, top: top / ratio, right: (left + width) / ratio, bottom: (top + height) / ratio,
  };
  u.ctx.save();
  u.ctx.scale(ratio, ratio);
  if (!open) {
    u.ctx.beginPath();
    u.ctx.rect(place.left, place.top, place.right - place.left, place.bottom - place.top);
    u.ctx.clip();
  }
  paint(u.ctx, place);
  u.ctx.restore();
}

// Begin a path through points; give the canvas back.
function trace(ctx, ...points) {
  ctx.beginPath();
  points.forEach(([x, y], n) => (n ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  return ctx;
}

function dot(ctx, x, y, colour) {
  ctx.fillStyle = colour;
  ctx.beginPath();
  ctx.arc(x, y, 2.5, 0, 7);
  ctx.fill();
}

// A line through [x, y] of a grid; null lifts the pen.
function paintLine(ctx, place, xs, ys, colour, { width = 1, dash = [], alpha = 1 } = {}) {
  Object.assign(ctx, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha, lineJoin: "round" });
  ctx.setLineDash(dash);
  ctx.beginPath();
  let down = false;
  for (let n = 0; n < xs.length; n++) {
    if (ys[n] === null) down = false;
    if (ys[n] == null) continue;
    if (down) ctx.lineTo(place.x(xs[n]), place.y(ys[n]));
    else ctx.moveTo(place.x(xs[n]), place.y(ys[n]));
    down = true;
  }
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}

// A horizontal line at a value, with words above its right end if any.
function paintLevel(ctx, place, value, words, colour, font) {
  const y = Math.round(place.y(value)) + 0.5;
  if (y < place.top || y > place.bottom) return;
  Object.assign(ctx, { strokeStyle: colour, fillStyle: colour, lineWidth: 1, font, textAlign: "right", textBaseline: "bottom" });
  ctx.setLineDash([6, 4]);
  trace(ctx, [place.left, y], [place.right, y]).stroke();
  ctx.setLineDash([]);
  if (words) ctx.fillText(words, place.right - 4, y - 2 < place.top + 14 ? y + 18 : y - 3);
}

// Events of a run: a tick on the axis for a checkpoint, a line with a word above the frame for the others. Words that
// would touch are left out: forks before resumes before wishes.
function paintMarks(ctx, place, marks, colour, font) {
  const order = ["fork", "resume", "abort asked", "stop asked", "save asked", "pinned", "checkpoint"];
  const taken = [];
  Object.assign(ctx, { font, lineWidth: 1, textAlign: "left", textBaseline: "alphabetic" });
  for (const mark of [...marks].sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind))) {
    const x = Math.round(place.x(mark.step)) + 0.5;
    if (x < place.left - 1 || x > place.right + 1) continue;
    const kept = mark.kind === "checkpoint" || mark.kind === "pinned";
    ctx.strokeStyle = colour(kept ? "ink" : "soft");
    ctx.lineWidth = kept ? 1.6 : 1;
    ctx.setLineDash(kept ? [] : [2, 3]);
    trace(ctx, [x, kept ? place.bottom - (mark.kind === "pinned" ? 12 : 7) : place.top - 4], [x, place.bottom]).stroke();
    ctx.setLineDash([]);
    if (mark.kind === "checkpoint") continue;
    const words = wordOf(mark), wide = ctx.measureText(words).width;
    const from = Math.max(place.left, Math.min(x - 2, place.right - wide));
    if (taken.some(([a, b]) => from < b + 10 && from + wide > a - 10)) continue;
    taken.push([from, from + wide]);
    ctx.fillStyle = colour("soft");
    ctx.fillText(words, from, place.top - 8);
  }
}

// Triangles at the head of the frame for values above it, dots for values alone between two that are not finite (no line
// goes through them).
function paintOdd(ctx, place, grid, line, ceiling, colour, warning) {
  const held = [];
  for (let at = 0; at < line.length; at += grid.each) if (line[at] !== undefined) held.push(at);
  let last = -Infinity;
  held.forEach((at, n) => {
    const x = place.x(grid.x[at]);
    if (line[at] === null || x < place.left - 0.5 || x > place.right + 0.5) return;
    const most = Math.max(line[at], line[at + grid.each - 1]);
    if (line[held[n - 1]] == null && line[held[n + 1]] == null) dot(ctx, x, place.y(Math.min(most, ceiling)), colour);
    if (most <= ceiling || x - last < 4) return;
    last = x;
    ctx.fillStyle = warning;
    trace(ctx, [x, place.top + 1], [x - 5, place.top + 10], [x + 5, place.top + 10]).fill();
  });
}

// Crosses at the foot of the frame, for losses that are not finite.
function paintCrosses(ctx, place, steps, colour) {
  Object.assign(ctx, { strokeStyle: colour, lineWidth: 2, lineCap: "round" });
  for (const step of steps) {
    const x = place.x(step), y = place.bottom - 15; // above the ticks
    if (x < place.left || x > place.right) continue;
    for (const slope of [-4, 4]) trace(ctx, [x - 4, y - slope], [x + 4, y + slope]).stroke();
  }
}

// A dot for each loss in the colour of its source, where a step has room for one.
function paintDots(ctx, place, store, { from, to }, colour) {
  for (let at = from; at < to; at++) {
    const loss = store.value("loss", at);
    if (!Number.isFinite(loss)) continue;
    const x = place.x(store.stepAt(at));
    if (x >= place.left - 1 && x <= place.right + 1) dot(ctx, x, place.y(loss), colour(sourceColour(store.value("source", at))));
  }
}

// The strip of sources: a cell a step, or the share of each source in the steps of a cell, stacked.
function paintSources(ctx, place, cells, colour) {
  const height = place.bottom - place.top;
  for (const { from, to, shares } of cells) {
    const left = place.x(from - 0.5), right = place.x(to - 0.5);
    let y = place.bottom;
    shares.forEach((share, n) => {
      if (!share) return;
      ctx.fillStyle = colour(sourceColour(n));
      ctx.fillRect(left, y - share * height, right - left + 0.3, share * height);
      y -= share * height;
    });
  }
}

function sourceColour(n) {
  return n < SOURCE_COLOURS ? `source-${n}` : "faint";
}

// A strip that came with the frame: {kind: "stack" | "lines", names, rows: [[step, values ...], ...]}; at most two rows a
// pixel are drawn.
function paintStrip(ctx, place, strip, colour) {
  const rows = strip.rows.filter((_, n) => n % Math.ceil(strip.rows.length / (2 * (place.right - place.left) + 1)) === 0);
  const under = rows.map(() => 0);
  strip.names.forEach((_, n) => {
    const values = rows.map((row) => row[n + 1]);
    if (strip.kind === "lines") {
      paintLine(ctx, place, rows.map((row) => row[0]), values, colour(sourceColour(n)), { width: 1.6 });
      return;
    }
    ctx.fillStyle = colour(sourceColour(n));
    ctx.beginPath();
    rows.forEach((row, at) => ctx.lineTo(place.x(row[0]), place.y(under[at] + (values[at] || 0))));
    for (let at = rows.length - 1; at >= 0; at--) ctx.lineTo(place.x(rows[at][0]), place.y(under[at]));
    ctx.fill();
    rows.forEach((_, at) => (under[at] += values[at] || 0));
  });
}

// [low, high] of a strip that came with the frame.
function stripRange(strip) {
  const stack = strip.kind === "stack";
  let low = 0, high = stack ? 0 : -Infinity;
  for (const [, ...values] of strip.rows) {
    const most = stack ? values.reduce((sum, v) => sum + (v || 0), 0) : Math.max(...values.filter(Number.isFinite));
    low = stack ? 0 : Math.min(low, ...values.filter(Number.isFinite));
    high = Math.max(high, most);
  }
  return high > low ? [low && low - 0.05 * (high - low), high + 0.05 * (high - low)] : [low, low + 1];
}
