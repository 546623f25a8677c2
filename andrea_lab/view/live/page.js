// The dashboard: the runs there are, at the left, and the chosen ones, drawn at the right.
//
// Served, it asks for the list every three seconds and for what is new of each chosen run every second. Saved as a
// file, it finds both in itself and asks nobody. Nothing that comes from a run is ever read as markup.

import { mount } from "./lossview.js";

const LIST_MS = 3000;
const FRAME_MS = 1000;
const SLOWEST_MS = 15000; // between two tries while the server is gone
const MANY = 5000; // records in one answer: more are waiting, so ask again at once
const MOST = 6; // runs drawn at once: there are so many colours that can be told apart
const KINDS = { training: "live", finished: "good", stopped: "quiet",
  waiting: "quiet", unknown: "quiet", "not recorded": "quiet", aborted: "quiet" };

const $ = (id) => document.getElementById(id);

// ---- talking to the server ---------------------------------------------------------------------------------------

/** Whether the server answers. Tries come ever more slowly while it does not, and all at once when it does again. */
class Connection {
  constructor(told) {
    this.told = told;
    this.lostAt = null;
    this.asleep = new Set();
  }

  lost() {
    if (this.lostAt === null) {
      this.lostAt = performance.now();
      this.told(true);
    }
  }

  found() {
    if (this.lostAt !== null) {
      this.lostAt = null;
      this.told(false);
      this.wake();
    }
  }

  wake() {
    for (const rise of [...this.asleep]) rise();
  }

  /** Wait `ms`, or longer while the server is gone; ends early when woken or aborted. A hidden page waits. */
  pause(ms, signal) {
    const gone = this.lostAt === null ? 0 : performance.now() - this.lostAt;
    const wait = Math.min(Math.max(ms, gone), SLOWEST_MS);
    return new Promise((done) => {
      const rise = () => {
        clearTimeout(timer);
        this.asleep.delete(rise);
        signal.removeEventListener("abort", rise);
        done();
      };
      const timer = setTimeout(() => document.hidden || rise(), wait);
      this.asleep.add(rise);
      signal.addEventListener("abort", rise);
    });
  }
}

/** The served runs. `list` and `frames` call back until `signal` aborts. */
class Server {
  constructor(page) {
    this.page = page;
    this.connection = new Connection((gone) => page.gone(gone));
    document.addEventListener("visibilitychange", () => document.hidden || this.connection.wake());
  }

  headers(more = {}) {
    const token = sessionStorage.getItem("andrea-token");
    return token ? { Authorization: `token ${token}`, ...more } : more;
  }

  /** The server's answer, its body read by `read` where it is new; null while there is no server, or another's. */
  async heard(path, known, signal, read) {
    try {
      const headers = this.headers(known ? { "If-None-Match": known } : {});
      const found = await fetch(path, { headers, signal, cache: "no-store" });
      const ours = found.headers.has("Andrea-Dashboard") && [200, 304, 401, 404].includes(found.status);
      if (!ours) throw new Error(`status ${found.status}`);
      const body = found.ok ? await read(found) : null;
      this.page.needsToken(found.status === 401);
      this.connection.found();
      return { status: found.status, body, known: found.headers.get("ETag"), feed: found.headers.get("Andrea-Feed") };
    } catch {
      if (!signal.aborted) this.connection.lost();
      return null;
    }
  }

  async list(take, signal) {
    let known = null;
    while (!signal.aborted) {
      const answer = await this.heard("api/runs", known, signal, (found) => found.json());
      if (signal.aborted) return;
      if (answer?.body) {
        take(answer.body);
        known = answer.known;
      }
      await this.connection.pause(LIST_MS, signal);
    }
  }

  /** Give `take`, which says what it then has, every frame of a run. `again`: what was given counts no more. */
  async frames(id, take, again, missing, signal) {
    const at = { generation: 0, first: 0, feed: null, known: null };
    while (!signal.aborted) {
      let wait = FRAME_MS;
      const path = `api/runs/${encodeURIComponent(id)}/frame?generation=${at.generation}&first=${at.first}`;
      const answer = await this.heard(path, at.known, signal, (found) => found.arrayBuffer());
      if (signal.aborted) return undefined;
      if (answer) missing(answer.status === 404);
      if (answer?.body) {
        if (at.feed !== null && at.feed !== answer.feed) {
          again();
          Object.assign(at, { generation: 0, first: 0, feed: null, known: null });
          continue;
        }
        const { count, total } = header(answer.body);
        const has = take(answer.body);
        Object.assign(at, { feed: answer.feed, generation: has.generation, first: has.count, known: answer.known });
        if (has.ok && (has.count < total || count >= MANY)) wait = 0;
      }
      if (wait) await this.connection.pause(wait, signal);
    }
    return undefined;
  }

  /** What asks a run for a checkpoint or a stop; null where the page only looks on. */
  control(id) {
    if (!this.page.about.control || !sessionStorage.getItem("andrea-token")) return null;
    return async (wish) => {
      try {
        const body = JSON.stringify({ wish });
        const headers = this.headers({ "Content-Type": "application/json" });
        const answer = await fetch(`api/runs/${encodeURIComponent(id)}/control`, { method: "POST", headers, body });
        return await answer.json();
      } catch {
        return { ok: false, text: "the server does not answer" };
      }
    };
  }
}

/** The runs that a saved page holds. */
class Saved {
  constructor(node) {
    this.about = JSON.parse(node.textContent);
  }

  async list(take) {
    take(this.about);
  }

  async frames(id, take) {
    const number = this.about.runs.findIndex((row) => row.id === id);
    for (const node of document.querySelectorAll(`script[data-frame="${number}"]`)) {
      take(bytes(node.textContent));
    }
  }

  control() {
    return null;
  }
}

/** The bytes of base64; a loop, since Uint8Array.from takes ten times as long for a million records. */
function bytes(text) {
  const letters = atob(text);
  const made = new Uint8Array(letters.length);
  for (let n = 0; n < letters.length; n++) made[n] = letters.charCodeAt(n);
  return made.buffer;
}

/** The header of a frame: count, total among others. */
function header(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  return JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
}

// ---- the list ----------------------------------------------------------------------------------------------------

const counted = (number) => (number === null ? "" : number.toLocaleString("en"));

/** How long ago a time is, both in seconds since 1970; its date when `now` is null. */
function when(time, now) {
  if (now === null) return new Date(time * 1000).toLocaleDateString();
  const seconds = now - time;
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

function make(tag, name, ...inside) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...inside);
  return made;
}

/** One run of the list: a box that adds it to those drawn, a button that draws it alone. */
class Row {
  constructor(id, page) {
    const cut = id.lastIndexOf("/") + 1;
    this.id = id;
    this.box = make("input");
    this.box.type = "checkbox";
    this.box.setAttribute("aria-label", `Show ${id} with the others`);
    this.box.addEventListener("change", () => page.toggle(id, this.box.checked));
    this.state = make("span", "state");
    this.loss = make("span", "loss");
    this.steps = make("span", "steps");
    this.done = make("span", "done");
    const name = make("span", "name", make("span", "folder", id.slice(0, cut)), id.slice(cut));
    const track = make("span", "track", this.done);
    this.open = make("button", "open", name, this.loss, this.state, this.steps, track);
    this.open.type = "button";
    this.open.title = id;
    this.open.addEventListener("click", () => page.choose([id]));
    this.element = make("li", "", this.box, this.open);
    this.element.dataset.run = id;
  }

  update(row, now) {
    this.row = row;
    const loss = typeof row.loss === "number" ? row.loss.toFixed(3) : row.loss;
    const of = row.steps === null ? "" : ` of ${counted(row.steps)}`;
    this.element.dataset.kind = KINDS[row.state] ?? "bad";
    write(this.loss, loss === null ? "" : `loss ${loss}`);
    write(this.steps, row.step === null ? "no steps yet" : `${counted(row.step)}${of}`);
    write(this.state, row.state === "training" || row.changed === null ? row.state : `${row.state}, ${when(row.changed, now)}`);
    const share = row.step !== null && row.steps ? Math.min(row.step / row.steps, 1) : 0;
    this.done.style.width = `${(100 * share).toFixed(1)}%`;
  }

  /** Mark whether the run is drawn. */
  mark(chosen) {
    this.box.checked = chosen;
    this.open.setAttribute("aria-pressed", String(chosen));
    this.element.classList.toggle("chosen", chosen);
  }

  matches(text) {
    return `${this.id} ${this.row.state}`.toLowerCase().includes(text);
  }
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// ---- the page ----------------------------------------------------------------------------------------------------

class Page {
  constructor() {
    const saved = $("saved");
    this.about = { control: false, runs: [] };
    this.rows = new Map();
    this.chosen = [];
    this.listed = this.emptied = false;
    this.views = [];
    this.drawing = new AbortController();
    this.notices = new Map();
    this.isSaved = saved !== null;
    this.readAddress();
    this.source = saved ? new Saved(saved) : new Server(this);
    $("search").addEventListener("input", () => this.filter());
    $("layout").addEventListener("click", (event) => this.lay(event.target.dataset.layout));
    $("ask").addEventListener("submit", (event) => this.giveToken(event));
    window.addEventListener("hashchange", () => this.readAddress() && this.choose(this.chosen));
    followTheme($("theme"));
    this.start();
  }

  /** Ask for the list anew, with the token there is now. */
  start() {
    this.listing?.abort();
    this.listing = new AbortController();
    this.source.list((about) => this.take(about), this.listing.signal);
  }

  /** Take the token out of the address, and the runs it names. Returns whether it named any. */
  readAddress() {
    const found = new URLSearchParams(location.hash.slice(1));
    if (found.has("token") && !this.isSaved) sessionStorage.setItem("andrea-token", found.get("token"));
    this.chosen = found.getAll("run").slice(0, MOST);
    if (found.has("token")) this.writeAddress();
    return this.chosen.length > 0;
  }

  writeAddress() {
    const runs = this.chosen.map((id) => `run=${encodeURIComponent(id)}`).join("&");
    history.replaceState(null, "", runs ? `#${runs}` : location.pathname + location.search);
  }

  giveToken(event) {
    event.preventDefault();
    sessionStorage.setItem("andrea-token", $("token").value.trim());
    $("token").value = "";
    this.start();
    this.draw();
  }

  take(about) {
    const mayControl = this.about.control;
    this.about = about;
    write($("folder"), about.folder || "Runs");
    const now = this.isSaved ? null : Date.now() / 1000;
    const rows = new Map(about.runs.map((row) => [row.id, this.rows.get(row.id) ?? new Row(row.id, this)]));
    for (const row of about.runs) rows.get(row.id).update(row, now);
    this.place(rows);
    this.filter();
    if (!this.chosen.length && !this.emptied) this.chooseFirst();
    else if (!this.listed || mayControl !== about.control) this.choose(this.chosen);
    if (!this.listed) this.rows.get(this.chosen[0])?.element.scrollIntoView({ block: "nearest" });
    this.listed = true;
    this.mark();
  }

  /** Put rows into the list and take others out; those that stay are not touched, so that they keep the focus. */
  place(rows) {
    for (const [id, row] of this.rows) if (!rows.has(id)) row.element.remove();
    this.rows = rows;
    let next = $("runs").firstElementChild;
    for (const { element } of rows.values()) {
      if (element === next) next = next.nextElementSibling;
      else $("runs").insertBefore(element, next);
    }
  }

  /** Draw the run that trains, or else the one with steps that changed last. */
  chooseFirst() {
    const order = (row) => (row.state === "training" ? 2e12 : row.step !== null ? 1e12 : 0) + (row.changed ?? 0);
    const runs = [...this.about.runs].sort((a, b) => order(b) - order(a));
    if (runs.length) this.choose([runs[0].id]);
  }

  filter() {
    const text = $("search").value.trim().toLowerCase();
    let shown = 0;
    for (const row of this.rows.values()) {
      row.element.hidden = !row.matches(text);
      shown += !row.element.hidden;
    }
    const all = this.rows.size;
    const beyond = this.about.left_out ? `, ${counted(this.about.left_out)} folders left out` : "";
    write($("count"), (text ? `${counted(shown)} of ${counted(all)} runs` : all === 1 ? "1 run" : `${counted(all)} runs`) + beyond);
    $("empty").hidden = all > 0;
    write($("empty"), `No run in this folder yet. One that is started there, such as with andrea train ANDREA-nano, appears here by itself.`);
  }

  mark() {
    for (const row of this.rows.values()) row.mark(this.chosen.includes(row.id));
    $("layout").hidden = this.chosen.length < 2;
  }

  toggle(id, on) {
    const others = this.chosen.filter((each) => each !== id);
    if (on && others.length >= MOST) {
      this.notice("most", `${MOST} runs are drawn at once, no more: take one away first.`);
      this.mark();
      return;
    }
    this.emptied = !on && !others.length; // by the reader, who is asked first
    this.choose(on ? [...others, id] : others);
  }

  choose(ids) {
    this.chosen = ids;
    this.notice("most", null);
    this.writeAddress();
    this.mark();
    this.draw();
  }

  lay(layout) {
    if (!layout) return;
    for (const button of $("layout").children) button.setAttribute("aria-pressed", String(button.dataset.layout === layout));
    $("views").dataset.layout = layout;
    this.draw();
  }

  /** Draw the chosen runs anew, in one view or in one each. */
  draw() {
    this.drawing.abort();
    for (const view of this.views) view.destroy();
    this.drawing = new AbortController();
    for (const key of [...this.notices.keys()]) if (key.startsWith("missing ")) this.notice(key, null);
    const { signal } = this.drawing;
    const apart = $("views").dataset.layout === "beside";
    const groups = apart ? this.chosen.map((id) => [id]) : this.chosen.length ? [this.chosen] : [];
    const places = groups.map(() => make("div", "view"));
    $("views").replaceChildren(...places);
    $("views").classList.toggle("several", groups.length > 1);
    this.views = groups.map((ids, number) => this.view(places[number], ids, signal));
    document.title = this.chosen.length ? `${this.chosen.join(", ")} · ${this.about.folder}` : this.about.folder || "Runs";
  }

  view(place, ids, signal) {
    const controls = ids.map((id) => this.source.control(id));
    const control = controls[0] === null ? null : (index, wish) => controls[index](wish);
    const view = mount(place, { runs: ids, control, options: {} });
    ids.forEach((id, index) => {
      const take = (buffer) => view.frame(index, buffer);
      const missing = (is) => this.notice(`missing ${id}`, is ? `${id} is no longer there; what was read of it stays drawn.` : null);
      this.source.frames(id, take, () => view.forget(index), missing, signal);
    });
    return view;
  }

  // ---- what the page has to say ----

  gone(is) {
    const button = make("button", "", "Try now");
    button.type = "button";
    button.addEventListener("click", () => this.source.connection.wake());
    this.notice("gone", is ? "The server does not answer. What is drawn is what it said last; trying again. " : null, button);
  }

  needsToken(is) {
    $("ask").hidden = !is;
  }

  notice(key, text, ...more) {
    const shown = this.notices.get(key);
    if (text === null || shown) {
      if (text !== null && shown.dataset.text === text) return;
      shown?.remove();
      this.notices.delete(key);
    }
    if (text === null) return;
    const made = make("p", "", text, ...more);
    made.dataset.text = text;
    this.notices.set(key, made);
    $("notices").append(made);
  }
}

/** The button that turns light into dark and back; without it the system decides. */
function followTheme(button) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const tell = () => write(button, isDark() ? "Light" : "Dark");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    tell();
  });
  dark.addEventListener("change", tell);
  tell();
}

new Page();
