// The live loss view: mount(root, {...}) shows one run or several in any page and returns what feeds it.

const PERIOD = 250; // ms between two redraws for new records; what a reader does is drawn at once
const LABEL_PERIOD = 10_000; // ms between two new descriptions for a screen reader
const STATES = { training: "work", finished: "good", stopped: "calm",
  waiting: "calm", unknown: "calm", "not recorded": "calm", aborted: "calm" };
let views = 0;

// An element: make("p", {class: "x", ...attributes}, ...children).
function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function press(button, on) {
  button.setAttribute("aria-pressed", String(on));
}

// Write a text where it differs, so that nothing is laid out anew for nothing.
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// runs: names, one colour each. control: null, or (index, "save" | "stop") => Promise<{ok, text}>.
// options: {span: steps, average: "ema" | "smma", log: bool, theme: "light" | "dark"}, each as it begins, none needed.
// Returns {frame(index, bytes), have(index), forget(index), destroy(), element}. `frame` returns {ok, generation, count}: what
// it holds now; ok is false when records before are missing or it is no frame. `have`: the same. `forget`: begin anew with the next.
function mount(root, { runs, control = null, options = {} }) {
  const view = new LiveView(root, runs, control, options);
  return {
    frame: (index, data) => view.take(index, data),
    have: (index) => view.have(index),
    forget: (index) => {
      view.stores[index].generation = -1;
    },
    destroy: () => view.destroy(),
    element: view.element,
  };
}

class LiveView {
  constructor(root, runs, control, options) {
    this.stores = runs.map((name) => new RunStore(name, options.average, options.span));
    this.control = control;
    this.span = options.span ?? null; // null: by the length of the run
    this.average = options.average ?? "ema";
    this.log = options.log ?? false;
    this.theme = options.theme ?? null;
    this.shown = runs.map(() => true);
    this.chosen = 0;
    this.window = null; // null: the whole run; else {low, high, follow}
    this.faults = runs.map(() => null);
    this.redraws = 0;
    this.lastDraw = this.lastLabel = -Infinity;
    this.slowest = 0;
    this.visible = true;
    this.key = `andrea-lossview-${++views}`;
    this.specs = {}; // what each plot is made of, by name; from top to bottom
    this.plots = {}; // those made so far
    this.ended = new AbortController(); // takes every listener with it
    this.#build();
    root.append(this.element);
    this.#watch();
    this.#restyle();
  }

  // --- the page -------------------------------------------------------------------------------------------------

  #build() {
    const part = (name, tag = "div", more = {}, ...children) =>
      (this[name] = make(tag, { class: `al-${name}`, ...more }, ...children));
    const look = `andrea-lossview${this.stores.length > 1 ? " al-several" : ""}`;
    this.element = make("section", { class: look, "aria-label": "Training run" });
    const title = make("div", { class: "al-title" }, part("name", "h2"), part("badge", "span"), part("why", "span"));
    this.figures = {};
    const figures = make("dl", { class: "al-figures" });
    for (const name of ["step", "loss", "smoothed", "tokens/s", "time left"]) {
      this.figures[name] = make("dd");
      figures.append(make("div", {}, make("dt", {}, name), this.figures[name]));
    }
    const header = make("header", {}, title, figures);
    this.element.append(header, part("problems", "p", { hidden: "" }), this.#controls(part));
    this.element.append(part("legend", "div", { role: "group", "aria-label": "Runs", hidden: "" }));
    this.element.append(part("readout", "p"), part("charts"));
    if (this.stores.length > 1) this.#buildLegend();
    this.#buildMain(part);
    this.#buildStrips();
  }

  // Listen until the view ends.
  #on(target, event, action) {
    target.addEventListener(event, action, { signal: this.ended.signal });
  }

  #button(text, action, more = {}) {
    const made = make("button", { type: "button", ...more }, text);
    this.#on(made, "click", action);
    return made;
  }

  #controls(part) {
    const average = (kind, title) =>
      this.#button(kind.toUpperCase(), () => this.#respan(kind, null), { "aria-pressed": "false", title, "data-average": kind });
    this.averages = [average("ema", "exponential moving average"), average("smma", "smoothed moving average")];
    this.slider = make("input", { type: "range", min: 0, max: 300, step: 1, "aria-label": "Span of the moving average" });
    this.#on(this.slider, "input", () => this.#respan(null, Math.round(10 ** (this.slider.value / 100))));
    this.logButton = this.#button("Log scale", () => this.#setLog(!this.log), { "aria-pressed": String(this.log) });
    this.wholeButton = this.#button("Whole run", () => this.#zoom(null), { "aria-pressed": "true" });
    this.newestButton = this.#button("Newest", () => this.#follow(), { "aria-pressed": "false" });
    const smoothing = make("div", { class: "al-group", role: "group", "aria-label": "Smoothing" });
    smoothing.append(make("span", { class: "al-joined" }, ...this.averages), this.slider, part("over", "output"));
    const zooms = make("span", { class: "al-joined" }, this.wholeButton, this.newestButton);
    const scale = make("div", { class: "al-group" }, zooms, this.logButton);
    this.saveButton = this.#button("Checkpoint now", () => this.#wish("save"));
    this.stopButton = this.#button("Stop…", () => this.#confirm(true), { "aria-expanded": "false" });
    part("confirm", "span", { hidden: "", role: "group", "aria-label": "Stop the run?" });
    this.stopNow = this.#button("Stop", () => this.#wish("stop"), { class: "al-danger" });
    this.confirm.append("Save, then stop?", this.stopNow, this.#button("Keep training", () => this.#confirm(false)));
    part("wishes", "div", { class: "al-group al-wishes", hidden: "" }, this.saveButton, this.stopButton, this.confirm);
    return make("div", { class: "al-controls" }, smoothing, scale, this.wishes, part("answer", "p", { "aria-live": "polite" }));
  }

  #buildLegend() {
    this.legend.hidden = false;
    this.rows = this.stores.map((store, n) => {
      const box = make("input", { type: "checkbox", "aria-label": `Show ${store.name}` });
      box.checked = true;
      this.#on(box, "change", () => {
        this.shown[n] = box.checked;
        this.#ask(true);
      });
      const choose = { "aria-pressed": String(n === 0), title: "Show its strips below" };
      const name = this.#button(store.name, () => this.#choose(n), choose);
      const values = ["step", "loss", "smoothed", "state"].map(() => make("span", { class: "al-value" }));
      const swatch = make("i", { class: `al-swatch al-run-${n % RUN_COLOURS}` });
      this.legend.append(make("div", { class: "al-run" }, box, swatch, name, ...values));
      return { name, values };
    });
  }

  #figure(name, title, keys = []) {
    const host = make("div", { class: "al-plot", role: "img", "aria-label": title });
    const caption = make("figcaption", {}, make("span", {}, title), ...keys);
    this.charts.append(make("figure", { class: `al-figure al-figure-${name}` }, caption, host));
    return { host, caption };
  }

  #buildMain(part) {
    const key = (look, words) => make("span", { class: "al-key" }, make("i", { class: look }), words);
    this.lostKey = key("al-line al-line-lost", "rewound");
    this.lostKey.hidden = true;
    const keys = [key("al-line", "each step"), key("al-line al-line-smooth", "smoothed"), this.lostKey];
    const { host } = this.#figure("loss", "loss, nats per token", keys);
    this.main = host;
    host.after(part("notes", "p", { hidden: "" }));
    host.tabIndex = 0;
    this.#on(host, "keydown", (event) => this.#press(event));
    const several = this.stores.length > 1;
    const lines = this.stores.flatMap((_, n) => [
      { colour: several ? `run-${n % RUN_COLOURS}` : "raw", width: 1, alpha: several ? 0.3 : 1 },
      { colour: `run-${n % RUN_COLOURS}`, width: 2.2 },
    ]);
    this.specs.loss = {
      host, lines, height: 300, axis: true, top: 26, dotted: true, format: tick, frame: () => this.frame,
      under: (ctx, place) => this.#paintUniform(ctx, place),
      after: (ctx, place, line, xs) => line % 2 || this.#paintLost(ctx, place, line / 2, xs),
      over: (ctx, place) => this.#paintOver(ctx, place),
    };
  }

  #buildStrips() {
    const source = this.#figure("source", "source");
    this.sourceKeys = source.caption.appendChild(make("span", { class: "al-keys" }));
    this.specs.source = {
      host: source.host, height: 26, bare: true, lines: [], frame: () => [0, 1], splits: () => [],
      under: (ctx, place) => paintSources(ctx, place, this.cells, (name) => this.#colour(name)),
    };
    const strip = (name, title, colour, more) => {
      const { host, caption } = this.#figure(name, title);
      const frame = () => this.frames[name];
      this.specs[name] = { host, height: 64, lines: [{ colour }], frame, space: 22, format: tick, ...more };
      return caption;
    };
    strip("lr", "learning rate", "run-0");
    const over = (ctx, place) => this.#paintThreshold(ctx, place);
    const caption = strip("norm", "gradient norm", "norm", { log: true, height: 76, over });
    this.threshold = make("span", { class: "al-key" }, make("i", { class: "al-line al-line-level" }), make("span"));
    caption.append(this.threshold);
    strip("pace", "tokens per second", "pace");
  }

  // --- what changes it --------------------------------------------------------------------------------------------

  #watch() {
    this.#on(document, "visibilitychange", () => this.#ask(true));
    this.#on(matchMedia("(prefers-color-scheme: dark)"), "change", () => this.#restyle());
    this.observers = [new ResizeObserver(() => this.#ask(true)), new MutationObserver(() => this.#restyle())];
    this.observers.push(new IntersectionObserver((entries) => {
      this.visible = entries.at(-1).isIntersecting;
      if (this.visible) this.#ask(true);
    }, { rootMargin: "200px" }));
    this.observers[0].observe(this.charts);
    const themes = ["data-theme", "data-jp-theme-light", "data-vscode-theme-kind"];
    for (const element of [document.documentElement, document.body])
      this.observers[1].observe(element, { attributes: true, attributeFilter: themes });
    this.observers[2].observe(this.element);
  }

  // Dark where the page around says so (JupyterLab, Visual Studio Code, data-theme), else as the reader's system prefers.
  #isDark() {
    const { theme } = document.documentElement.dataset, { jpThemeLight, vscodeThemeKind } = document.body.dataset;
    const said = this.theme ?? theme;
    if (said) return said === "dark";
    if (jpThemeLight) return jpThemeLight === "false";
    if (vscodeThemeKind) return !vscodeThemeKind.includes("light");
    return matchMedia("(prefers-color-scheme: dark)").matches;
  }

  #restyle() {
    this.element.dataset.andreaTheme = this.#isDark() ? "dark" : "light";
    this.colours = {};
    this.style = getComputedStyle(this.element);
    this.#ask(true);
  }

  // Read where it is used: a widget is made before it stands in a page that gives it a font.
  get font() {
    return `13px ${this.style.fontFamily}`;
  }

  #colour(name) {
    return (this.colours[name] ??= this.style.getPropertyValue(`--al-${name}`).trim());
  }

  take(index, data) {
    const store = this.stores[index];
    if (!store) return { ok: false, generation: -1, count: 0 };
    let ok = false;
    try {
      ok = store.take(decodeFrame(data));
      this.faults[index] = null;
      if (this.span === null) store.respan(this.average, defaultSpan(this.stores[0].facts.steps));
    } catch (error) {
      this.faults[index] = `a frame could not be read: ${error.message}`;
    }
    this.#ask(false);
    return { ok, ...this.have(index) };
  }

  have(index) {
    const { generation, count } = this.stores[index];
    return { generation, count };
  }

  #respan(kind, span) {
    this.average = kind ?? this.average;
    if (span) this.span = span;
    for (const store of this.stores) store.respan(this.average, this.span ?? store.average.span);
    this.#ask(true);
  }

  #setLog(log) {
    this.log = log;
    this.#drop("loss"); // uPlot fixes an axis when it makes it
    this.#ask(true);
  }

  #choose(n) {
    this.chosen = n;
    this.rows.forEach(({ name }, row) => press(name, row === n));
    this.#confirm(false, false); // it was asked about another run
    this.#ask(true);
  }

  #confirm(open, focus = true) {
    this.confirm.hidden = !open;
    this.saveButton.hidden = this.stopButton.hidden = open;
    this.stopButton.setAttribute("aria-expanded", String(open));
    if (focus) (open ? this.stopNow : this.stopButton).focus();
  }

  async #wish(wish) {
    if (wish === "stop") this.#confirm(false);
    write(this.answer, wish === "stop" ? "Asking it to stop …" : "Asking for a checkpoint …");
    this.saveButton.disabled = this.stopButton.disabled = true;
    let said;
    try {
      said = await this.control(this.chosen, wish);
    } catch (error) {
      said = { ok: false, text: `it could not be asked: ${error.message}` };
    }
    this.saveButton.disabled = this.stopButton.disabled = false;
    this.answer.classList.toggle("al-bad", !said.ok);
    write(this.answer, said.text);
  }

  // --- the window -------------------------------------------------------------------------------------------------

  #extent() {
    const stores = this.stores.filter((store, n) => this.shown[n] && store.length);
    const last = Math.max(0, ...stores.map((store) => store.lastStep));
    const first = Math.min(...stores.map((store) => store.firstStep));
    const planned = Math.max(0, ...stores.map((store) => store.facts.steps ?? 0));
    const high = planned && planned >= last && last >= planned / 8 ? planned : roundUp(last);
    return { low: stores.length && first > last / 2 ? first - 1 : 0, high, last };
  }

  #bounds() {
    const { low, high, last } = this.#extent();
    if (!this.window) return [low, high];
    if (this.window.follow) {
      const wide = this.window.high - this.window.low;
      this.window.high = Math.max(last + 0.02 * wide, low + wide);
      this.window.low = this.window.high - wide;
    }
    return [this.window.low, this.window.high];
  }

  // Show steps low..high, kept within the run and four steps wide at least; null shows all.
  #zoom(low, high) {
    const whole = this.#extent();
    if (low !== null) {
      const wide = Math.min(Math.max(high - low, 4), whole.high - whole.low);
      low = Math.min(Math.max(low + (high - low - wide) / 2, whole.low), whole.high - wide);
      this.window = wide < whole.high - whole.low ? { low, high: low + wide, follow: false } : null;
    } else this.window = null;
    this.#ask(true);
  }

  // Keep to the newest steps, as many as are shown; a tenth of the run when that is the whole.
  #follow() {
    const [low, high] = this.#bounds(), { last } = this.#extent();
    const wide = this.window ? high - low : Math.max(20, Math.ceil(last / 10));
    this.window = { low: last - wide, high: last, follow: true };
    this.#ask(true);
  }

  #press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [low, high] = this.#bounds(), wide = high - low, part = (a, b) => this.#zoom(low + a * wide, high + b * wide);
    const actions = {
      ArrowLeft: () => part(-0.1, -0.1), ArrowRight: () => part(0.1, 0.1), "+": () => part(0.25, -0.25),
      "=": () => part(0.25, -0.25), "-": () => part(-0.5, 0.5), 0: () => this.#zoom(null), Home: () => this.#zoom(null),
      End: () => this.#follow(),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    event.stopPropagation(); // a notebook has keys of its own
    actions[event.key]();
  }

  // --- drawing ----------------------------------------------------------------------------------------------------

  // Ask for a redraw: at the next frame of the page for what a reader did, else when PERIOD is over.
  #ask(urgent) {
    if (this.ended.signal.aborted) return;
    if (urgent) this.soon ??= requestAnimationFrame(() => { this.soon = null; this.#draw(); });
    const wait = Math.max(0, this.lastDraw + PERIOD - performance.now());
    if (!urgent) this.timer ??= setTimeout(() => { this.timer = null; this.#draw(); }, wait);
  }

  // Words and attributes change always, pixels only where they can be seen.
  #draw() {
    const began = (this.lastDraw = performance.now());
    const root = this.element.dataset, [first] = this.stores;
    root.andreaSteps = first?.length ?? 0;
    root.andreaState = first?.facts.state ?? "waiting";
    this.#write();
    const width = this.charts.clientWidth;
    if (document.hidden || !this.visible || !width) return;
    this.#compute(width - GUTTER - MARGIN);
    this.#paint(width);
    const took = performance.now() - began;
    this.slowest = Math.max(this.slowest, took);
    Object.assign(root, {
      andreaRedraws: ++this.redraws, andreaPoints: this.points, andreaWindow: this.bounds.map(Math.round).join(" "),
      andreaRedrawMs: took.toFixed(1), andreaRedrawMsMax: this.slowest.toFixed(1),
    });
    this.#notes();
    this.#label();
  }

  // Everything the plots show, from the records in the window.
  #compute(pixels) {
    this.bounds = this.#bounds();
    const grid = (this.grid = new Grid(this.bounds, pixels));
    const wanted = (n) => this.shown[n] || n === this.chosen;
    this.columns = this.stores.map((store, n) => wanted(n) && columnsOf(store, grid, n === this.chosen));
    const chosen = this.stores[this.chosen], mine = this.columns[this.chosen];
    const curves = this.columns.filter((_, n) => this.shown[n]).flatMap(({ loss, smooth }) => [loss, smooth]);
    const vocab = this.stores.find((store) => store.facts.vocab)?.facts.vocab;
    this.uniform = vocab ? Math.log(vocab) : null;
    this.frame = lossFrame(curves, this.window ? null : this.uniform, this.log);
    this.lost = this.stores.map((store, n) => (this.shown[n] ? lostLines(store, grid) : []));
    this.cells = sourceCells(chosen, grid, pixels);
    this.frames = {
      lr: stripFrame(mine.lr, false), pace: stripFrame(mine.pace, false),
      norm: stripFrame(mine.norm, true, chosen.facts.threshold),
    };
    const lines = [...curves, mine.lr, mine.norm, mine.pace, ...this.lost.flat()];
    this.points = lines.reduce((sum, line) => sum + line.reduce((n, value) => n + (value != null), 0), 0);
  }

  #paint(width) {
    this.#syncStrips();
    const { x } = this.grid, mine = this.columns[this.chosen], nothing = new Array(x.length).fill(null);
    const lines = this.columns.flatMap((run, n) => (run && this.shown[n] ? [run.loss, run.smooth] : [nothing, nothing]));
    const data = { loss: [x, ...lines], lr: [x, mine.lr], norm: [x, mine.norm], pace: [x, mine.pace] };
    for (const [name, spec] of Object.entries(this.specs)) {
      const height = name === "loss" && width < 480 ? 230 : spec.height;
      const plot = (this.plots[name] ??= this.#plot(name));
      plot.batch(() => {
        if (plot.width !== width || plot.height !== height) plot.setSize({ width, height });
        plot.setData(data[name] ?? [x], false);
        plot.redraw(true, true);
      });
    }
  }

  #plot(name) {
    const spec = this.specs[name];
    return makePlot(spec.host, { ...spec, log: name === "loss" ? this.log : spec.log }, {
      window: () => this.bounds, colour: (colour) => this.#colour(colour), font: this.font, key: this.key,
      cursor: (plot) => this.#hover(plot), zoom: (low, high) => this.#zoom(low, high), whole: () => this.#zoom(null),
    });
  }

  #drop(name) {
    this.plots[name]?.destroy();
    delete this.plots[name];
  }

  // Plots for the strips that come with the chosen run's frames.
  #syncStrips() {
    const strips = this.stores[this.chosen].strips.filter((strip) => strip.rows.length);
    for (const name of Object.keys(this.specs).filter((key) => key.startsWith("more-"))) {
      if (strips.some((strip) => `more-${strip.id}` === name)) continue;
      this.#drop(name);
      this.specs[name].host.parentElement.remove();
      delete this.specs[name];
    }
    for (const strip of strips) {
      const name = `more-${strip.id}`;
      const spec = (this.specs[name] ??= this.#moreSpec(strip));
      spec.strip = strip;
    }
  }

  #moreSpec({ label, names }) {
    const { host, caption } = this.#figure("more", label), colour = (name) => this.#colour(name);
    caption.append(...keysOf(names));
    const spec = { host, height: 76, lines: [], space: 22, format: tick, frame: () => stripRange(spec.strip) };
    spec.under = (ctx, place) => paintStrip(ctx, place, spec.strip, colour);
    return spec;
  }

  #paintUniform(ctx, place) {
    if (!this.uniform) return;
    const words = `ln V = ${this.uniform.toFixed(2)}${place.right - place.left > 400 ? ", a uniform guess" : ""}`;
    paintLevel(ctx, place, this.uniform, words, this.#colour("soft"), this.font);
  }

  // Rewound stretches of run n, over its losses and under its average.
  #paintLost(ctx, place, n, xs) {
    const colour = this.#colour(this.stores.length > 1 ? `run-${n % RUN_COLOURS}` : "lost");
    for (const line of this.lost[n]) paintLine(ctx, place, xs, line, colour, { dash: [4, 3], alpha: 0.8 });
  }

  #paintOver(ctx, place) {
    const colour = (name) => this.#colour(name);
    const room = (place.right - place.left) / (this.bounds[1] - this.bounds[0]);
    this.columns.forEach((run, n) => {
      if (!this.shown[n]) return;
      const store = this.stores[n];
      if (this.stores.length === 1 && room >= DOT_ROOM) paintDots(ctx, place, store, run, colour);
      paintOdd(ctx, place, this.grid, run.loss, this.frame[1], colour(`run-${n % RUN_COLOURS}`), colour("bad"));
      paintCrosses(ctx, place, store.oddSteps(run.from, run.to, 9 / room), colour("bad"));
    });
    Object.assign(ctx, { fillStyle: colour("soft"), font: this.font, textAlign: "right", textBaseline: "top" });
    ctx.fillText("step", place.left - 16, place.bottom + 7);
    paintMarks(ctx, place, this.stores[this.chosen].facts.marks, colour, this.font);
  }

  #paintThreshold(ctx, place) {
    const { threshold } = this.stores[this.chosen].facts;
    if (threshold) paintLevel(ctx, place, threshold, "", this.#colour("soft"), this.font);
  }

  // --- words ------------------------------------------------------------------------------------------------------

  #write() {
    const store = this.stores[this.chosen], { facts } = store;
    write(this.name, store.facts.name ?? store.name);
    write(this.badge, facts.state);
    this.badge.dataset.look = STATES[facts.state] ?? "bad";
    write(this.why, whyOf(facts));
    const figures = figuresOf(store);
    for (const [name, element] of Object.entries(this.figures)) {
      write(element, figures[name] ?? "");
      element.parentElement.hidden = !figures[name];
    }
    const { kind, span } = store.average;
    for (const button of this.averages) press(button, button.dataset.average === kind);
    write(this.over, `over ${counted(span, "step", "steps")}`);
    this.slider.value = Math.round(100 * Math.log10(Math.min(Math.max(span, SPANS[0]), SPANS[1])));
    this.slider.setAttribute("aria-valuetext", this.over.textContent);
    press(this.logButton, this.log);
    press(this.wholeButton, !this.window);
    press(this.newestButton, Boolean(this.window?.follow));
    this.wishes.hidden = !(this.control && facts.control);
    this.#tell(this.problems, "; ", (one, n) => [this.faults[n], ...one.facts.problems]);
    this.lostKey.hidden = !this.stores.some((one) => one.lostLength);
    this.threshold.hidden = !facts.threshold;
    write(this.threshold.lastChild, `clipped above ${tick(facts.threshold ?? 0)}`);
    this.#sourceLegend(store);
    if (!this.pointed) this.#readout(null);
  }

  // Show what `say` gives for each run, with its name where there are several; nothing hides the element.
  #tell(element, between, say) {
    const name = (store) => (this.stores.length > 1 ? `${store.name}: ` : "");
    const said = this.stores.flatMap((store, n) => say(store, n).filter(Boolean).map((text) => name(store) + text));
    write(element, said.join(between));
    element.hidden = !said.length;
  }

  #sourceLegend(store) {
    const names = store.sources.join("\n");
    if (names === this.sourceNames) return;
    this.sourceNames = names;
    this.sourceKeys.replaceChildren(...keysOf(store.sources));
  }

  #notes() {
    const above = (store, { from, to, loss }) => {
      const highest = loss.reduce((most, value) => (value > most ? value : most), this.frame[1]);
      return highest > this.frame[1] ? [highest, store.stepOf(highest, from, to)] : null;
    };
    this.#tell(this.notes, ". ", (store, n) => (this.shown[n] ? [notesOf(store, above(store, this.columns[n]))] : []));
  }

  // Describe the charts for a screen reader, seldom enough that it can be listened to.
  #label() {
    const wait = this.lastLabel + LABEL_PERIOD - performance.now();
    if (wait > 0) {
      this.labelTimer ??= setTimeout(() => { this.labelTimer = null; this.#label(); }, wait);
      return;
    }
    if (this.stores.some((store) => store.length)) this.lastLabel = performance.now();
    const keys = "Arrow keys move, plus and minus zoom, Home shows the whole run, End the newest steps.";
    this.main.setAttribute("aria-label", `Loss by step. ${this.stores.map(sentenceOf).join(". ")}. ${keys}`);
    const store = this.stores[this.chosen], at = store.length - 1;
    if (at < 0) return;
    const say = (name, text) => this.specs[name].host.setAttribute("aria-label", text);
    say("source", `source of each step: ${store.sources.join(", ")}`);
    say("lr", `learning rate, now ${rate(store.value("lr", at))}`);
    say("norm", `gradient norm, now ${short(store.value("grad_norm", at))}`);
    say("pace", `tokens per second, now ${number(store.pace().tokens || 0)}`);
  }

  #hover(plot) {
    const { left } = plot.cursor;
    this.pointed = left >= 0;
    this.#readout(this.pointed ? plot.posToVal(left, "x") : null);
  }

  // What the log says at the step under the cursor; null: how to look closer.
  #readout(step) {
    const store = this.stores[this.chosen];
    this.rows?.forEach(({ values }, n) => {
      const one = this.stores[n], at = step === null ? one.length - 1 : one.nearest(step);
      [...placeWords(one, at), one.facts.state].forEach((text, place) => write(values[place], text));
    });
    const at = step === null ? -1 : store.nearest(step);
    this.readout.classList.toggle("al-hint", at < 0);
    const near = at < 0 ? 0 : (this.bounds[1] - this.bounds[0]) / 200;
    write(this.readout, at < 0 ? "Drag to zoom, double-click for the whole run." : readoutOf(store, at, near));
  }

  destroy() {
    if (this.ended.signal.aborted) return;
    this.ended.abort();
    for (const observer of this.observers) observer.disconnect();
    for (const timer of [this.timer, this.labelTimer]) clearTimeout(timer);
    cancelAnimationFrame(this.soon);
    for (const name of Object.keys(this.plots)) this.#drop(name);
    this.element.remove();
  }
}

// Names with their colours; those beyond the palette share one.
function keysOf(names) {
  return names.map((name, n) => make("span", { class: "al-key" }, make("i", { class: `al-square al-${sourceColour(n)}` }), name));
}

// The span that a run of so many planned steps is smoothed over: a twentieth, within 8 and 200; 20 when nobody planned.
function defaultSpan(steps) {
  return steps ? Math.min(Math.max(Math.floor(steps / 20), 8), 200) : 20;
}

// The next of 20, 30, 50, 80, 120 times a power of ten: an axis that grows in few jumps.
function roundUp(step) {
  for (let unit = 1; ; unit *= 10) for (const lead of [20, 30, 50, 80, 120]) if (step <= lead * unit) return lead * unit;
}
