// A live race between strategies: learning curves, selection times and distances to the hyperplane. State that must
// outlive a payload is kept on the root element. New rounds are requested from the server several times a second.

import { around, element, glyph, part, partsOf, say } from "../shared/dom.js";
import { fixed, perSecond, whole } from "../shared/figures.js";
import { Help } from "../shared/help.js";
import { hasKeys, isField, isShortcut, takeKeys, watchButtons, watchPickers } from "../shared/keys.js";
import { mounting } from "../shared/mount.js";
import { BoxPlot, LogAxis, milliseconds, plain, powerOfTen, roomIn } from "./axis.js";
import { Curves } from "./curves.js";
import { Records, spreadOf, verdict } from "./records.js";

/** @import { Component, Course, Lane, RaceData, RaceNews, Spread } from "../types" */

// Milliseconds.
const POLL = 100; // between requests while the race runs
const PREPARING = 700; // between requests while indexes are built
const BETWEEN = 3000; // pause between two runs
const PICTURES = 330; // least time between two rounds whose picks are shown
const PATIENCE = 2000; // wait for a command to take effect, and before a retry if the server doesn't answer

const ABOUT =
  "Each strategy chooses labels for a classifier of its own; the curves show how fast the classifiers learn.";
/** @type {[string[], string][]} */
const KEYS = [
  [["Space"], "start, pause or repeat the race"],
  [["→"], "one round"],
];

class RacePage {
  /**
   * @param {ShadowRoot} root
   * @param {Component<RaceData>} component
   */
  constructor(root, component) {
    this.root = root;
    this.component = component;
    this.data = component.data;
    this.card = part(root, ".card");
    this.title = part(root, ".title");
    this.done = part(root, ".done");
    this.rounds = part(root, ".rounds");
    this.go = part(root, ".go");
    /** @type {HTMLButtonElement} */
    this.step = part(root, ".step");
    this.speed = part(root, ".speed");
    this.repeat = part(root, ".repeat");
    this.measure = part(root, ".measure");
    this.failures = part(root, ".failures");
    this.absent = part(root, ".absent");
    this.lines = part(root, ".lines");
    /** @type {SVGElement} */
    this.curves = part(root, ".curves");
    this.trouble = part(root, ".trouble");
    this.heads = { time: part(root, ".axis.time"), margin: part(root, ".axis.margin") };
    this.against = "labels";
    this.column = "numbers";
    this.beat = 0;
    this.pictured = this.awaited = 0;
    /** @type {string | null} */
    this.race = null; // the key of the race in view
    this.records = new Records({ lanes: [], first_auroc: 0 });
    /** @type {Curves | null} */
    this.chart = null;
    /** @type {LaneRow[]} */
    this.rows = [];
    /** @type {RaceNews | null} */
    this.news = null;
    /** @type {number | null} */
    this.pace = null; // rounds per second
    this.wasOver = this.isRepeating = this.isAsking = this.isDrawing = this.isClosed = false;
    this.help = new Help(this.card, () => ({ about: ABOUT, keys: KEYS }));
    this.abort = new AbortController();
    this.listen();
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.curves);
    takeKeys(this);
  }

  close() {
    this.abort.abort();
    this.observer.disconnect();
    clearTimeout(this.timer);
    clearTimeout(this.next);
    this.isClosed = true;
  }

  listen() {
    const options = { signal: this.abort.signal };
    document.addEventListener("keydown", (event) => this.pressed(event), options);
    watchPickers(this.abort.signal);
    this.go.addEventListener("click", () => this.command(this.go.dataset.does));
    this.step.addEventListener("click", () => this.command("step"));
    this.repeat.addEventListener("click", () => this.setRepeating(!this.isRepeating));
    this.speed.addEventListener("click", () => this.command("speed", this.nextSpeed()));
    watchButtons(this.card, this.abort.signal);
    this.choice("against", () => this.draw());
    this.choice("column", () => {
      this.card.dataset.column = this.column;
      this.draw(); // the plots have a width again
    });
    this.card.dataset.column = this.column;
  }

  /**
   * Let the tabs of `name` set the property of that name, and call `chosen` after each change.
   *
   * @param {"against" | "column"} name
   * @param {() => void} chosen
   */
  choice(name, chosen) {
    const tabs = partsOf(this.root, `[data-${name}].tab`);
    const show = () => {
      for (const tab of tabs) tab.setAttribute("aria-pressed", String(tab.dataset[name] === this[name]));
    };
    for (const tab of tabs) {
      tab.addEventListener("click", () => {
        this[name] = tab.dataset[name] ?? "";
        show();
        chosen();
      });
    }
    show();
  }

  /**
   * Set whether another run, with other first labels, starts after the end of a run.
   *
   * @param {boolean} isRepeating
   */
  setRepeating(isRepeating) {
    this.isRepeating = isRepeating;
    this.repeat.setAttribute("aria-pressed", String(isRepeating));
    if (this.wasOver) this.beginAgain();
  }

  /** Start another run after a pause in which the result can be read. */
  beginAgain() {
    clearTimeout(this.next);
    this.next = setTimeout(() => this.isRepeating && this.news?.is_over && this.command("again"), BETWEEN);
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (!hasKeys(this) || event.repeat || event.defaultPrevented || isField(event)) return;
    if (isShortcut(event) || this.help.pressed(event) || !this.data.race) return;
    const isButtons = around(/** @type {Element} */ (event.composedPath()[0]), "button");
    if (event.key === " " && !isButtons) this.command(this.go.dataset.does);
    else if (event.key === "ArrowRight" && !this.step.disabled) this.command("step");
    else return;
    event.preventDefault();
  }

  /**
   * @param {string | undefined} does
   * @param {number | null} value
   */
  command(does, value = null) {
    this.component.setTriggerValue("command", { does, value });
    this.awaited = performance.now() + PATIENCE;
    this.poll();
  }

  nextSpeed() {
    const { speeds } = this.data;
    return speeds[(speeds.indexOf(this.pace ?? speeds[0]) + 1) % speeds.length];
  }

  /** @param {Component<RaceData>} component */
  update(component) {
    this.component = component;
    this.data = component.data;
    const before = this.race;
    this.race = this.data.race;
    const { race, message, trouble, is_coming: isComing } = this.data;
    say(this.trouble, trouble ?? "");
    say(this.absent, this.data.absent ?? "");
    this.card.dataset.state = race ? "shown" : isComing ? "coming" : "failed";
    clearTimeout(this.timer);
    if (!race) {
      say(this.title, message ?? "");
      if (isComing) this.timer = setTimeout(() => component.setStateValue("beat", ++this.beat), PREPARING);
      return;
    }
    if (race !== before) this.begin();
    this.draw();
    this.awaited = performance.now() + PATIENCE; // the payload may be the reply to a command
    this.poll();
  }

  begin() {
    const { lanes, rounds, held_out: heldOut } = this.data;
    const symbols = lanes.map(({ strategy }) =>
      this.root.querySelector(`#s-${strategy}`) ? strategy : "other",
    );
    this.records = new Records(this.data);
    this.chart = new Curves(
      this.curves,
      lanes.map(({ label }, i) => ({ label, symbol: symbols[i] })),
    );
    this.lines.replaceChildren();
    this.rows = lanes.map((lane, i) => new LaneRow(this.lines, lane, symbols[i], this.data.first_picks));
    this.news = null;
    this.wasOver = false;
    say(this.rounds, whole(rounds));
    say(this.measure, `AUROC on ${whole(heldOut)} held-out items`);
  }

  /** Request new rounds, repeatedly while the race runs; one request at a time. */
  async poll() {
    clearTimeout(this.timer);
    if (this.isAsking) return;
    this.isAsking = true;
    const race = this.data.race;
    let pause = PATIENCE;
    try {
      const pictures = performance.now() - this.pictured > PICTURES || !this.news?.is_running;
      const asked = `race?race=${race}&since=${this.records.rounds}${pictures ? "&pictures" : ""}`;
      const answer = await fetch(asked, { cache: "no-store", signal: this.abort.signal });
      if (answer.status === 404) {
        this.component.setStateValue("beat", ++this.beat);
      } else if (answer.ok) {
        const news = await answer.json();
        if (race === this.data.race && !this.isClosed) this.take(news, pictures);
        pause = POLL;
      }
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") return;
      say(this.trouble, "No connection to the server. Retrying…");
    } finally {
      this.isAsking = false;
    }
    const goesOn =
      !this.news || this.news.is_running || pause === PATIENCE || performance.now() < this.awaited;
    if (!this.isClosed && goesOn) this.timer = setTimeout(() => this.poll(), pause);
  }

  /**
   * @param {RaceNews} news
   * @param {boolean} pictures
   */
  take(news, pictures) {
    this.records.take(news);
    if (pictures && news.picks) this.pictured = performance.now();
    this.news = news;
    this.pace = news.speed;
    say(this.trouble, "");
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      this.draw();
    });
  }

  draw() {
    if (!this.chart || this.isClosed) return;
    const { lanes, rounds, label_seconds: labelSeconds, speeds } = this.data;
    const { records, against, news } = this;
    const { headline, guide } = verdict(records, lanes, { against, labelSeconds });
    const isOver = news?.is_over ?? false;
    if (isOver && !this.wasOver) this.beginAgain();
    this.wasOver = isOver;
    say(this.title, headline ?? (records.rounds ? "The race has begun." : "Which strategy learns fastest?"));
    say(this.done, whole(records.rounds));
    const does = news?.is_running ? "pause" : isOver ? "again" : "start";
    this.go.dataset.does = does;
    const words = { pause: "Pause", again: "Again", start: records.rounds ? "Continue" : "Start" };
    say(part(this.go, ".word"), words[does]);
    this.step.disabled = isOver || Boolean(news?.is_running);
    say(this.speed, perSecond(this.pace ?? speeds[0], "round"));
    this.card.dataset.running = String(Boolean(news?.is_running));
    this.card.dataset.rounds = String(records.rounds);
    say(
      this.failures,
      (news?.failures ?? [])
        .flatMap((why, i) => (why ? [`${lanes[i].label} is out: ${why}.`] : []))
        .join(" "),
    );
    const courses = lanes.map((_, i) => records.course(i, against, labelSeconds));
    const most = against === "labels" ? rounds : this.mostSeconds(courses, labelSeconds * rounds);
    const name =
      against === "labels" ? "labels given" : `seconds spent: ${labelSeconds} s per label, and selecting`;
    const write = against === "labels" || most >= 10 ? whole : fixed(1);
    this.chart.show({ courses, most, guide, name, write });
    this.curves.setAttribute("aria-label", this.spoken(courses));
    this.drawRows();
  }

  /**
   * Return the end of the time axis: the planned seconds, repeatedly enlarged by half until all courses fit.
   *
   * @param {Course[]} courses
   * @param {number} planned
   */
  mostSeconds(courses, planned) {
    const spent = Math.max(...courses.map(({ xs }) => xs[xs.length - 1]));
    let most = Math.max(planned, 0.5);
    while (most < spent) most *= 1.5;
    return most;
  }

  drawRows() {
    const { records } = this;
    const spreads = records.lanes.map((lane) => ({
      time: spreadOf(lane.milliseconds),
      margin: spreadOf(lane.margins),
    }));
    const values = (/** @type {"time" | "margin"} */ name) =>
      spreads.flatMap(({ [name]: spread }) => (spread ? [spread.low, spread.high] : []));
    const { heads } = this;
    const time = new LogAxis([...values("time"), 0.1, 10], {
      mostTicks: roomIn(heads.time, 5),
      write: plain,
    });
    const margin = new LogAxis([...values("margin"), 1e-4, 1], {
      mostTicks: roomIn(heads.margin, 4),
      write: powerOfTen,
    });
    for (const [head, axis] of /** @type {const} */ ([
      [heads.time, time],
      [heads.margin, margin],
    ])) {
      const key = `${axis.low} ${axis.ticks}`;
      if (head.dataset.key === key) continue;
      head.dataset.key = key;
      head.replaceChildren(part(head, ".axisname"), element("span", { className: "ticks" }, ...axis.names()));
    }
    for (const [i, row] of this.rows.entries()) {
      const firsts = records.firsts.map((round) => round[i]);
      row.show(spreads[i], { time, margin }, records.picks[i], firsts);
    }
  }

  /** @param {Course[]} courses */
  spoken(courses) {
    const reached = courses.map(
      ({ ys }, i) => `${this.data.lanes[i].label} ${ys.findLast((y) => y != null)?.toFixed(3) ?? "–"}`,
    );
    return `AUROC after ${this.records.rounds} ${this.records.rounds === 1 ? "label" : "labels"}: ${reached.join(", ")}`;
  }
}

/** The row of one strategy. */
class LaneRow {
  /**
   * @param {Element} lines
   * @param {Lane} lane
   * @param {string} symbol
   * @param {number} nFirst
   */
  constructor(lines, { label, in_use: inUse }, symbol, nFirst) {
    this.image = element("img", { alt: "", hidden: true });
    const cells = ["time", "margin"].map((name) =>
      element("span", { className: `plot ${name}`, role: "cell" }),
    );
    this.plots = { time: new BoxPlot(cells[0]), margin: new BoxPlot(cells[1]) };
    this.firsts = Array.from({ length: nFirst }, () => element("img", { alt: "", hidden: true }));
    const who = element(
      "span",
      { className: "who", role: "rowheader" },
      glyph(`s-${symbol}`, `strategy ${symbol}`),
      element("b", {}, label),
    );
    const pick = element("span", { className: "pick", role: "cell" }, this.image);
    const firsts = element("span", { className: "firsts", role: "cell" }, ...this.firsts);
    const line = element("div", { className: `line ${symbol}`, role: "row" }, who, pick, ...cells, firsts);
    line.dataset.used = String(inUse);
    lines.append(line);
  }

  /**
   * @param {Record<"time" | "margin", Spread | null>} spread
   * @param {Record<"time" | "margin", LogAxis>} axes
   * @param {string} pick
   * @param {string[]} firsts
   */
  show(spread, axes, pick, firsts) {
    const { time, margin } = spread;
    this.plots.time.show(time, axes.time, time ? `${milliseconds(time.median)} ms` : "");
    this.plots.margin.show(margin, axes.margin, margin ? nearness(margin.median) : "");
    showPicture(this.image, pick);
    for (const [i, image] of this.firsts.entries()) showPicture(image, firsts[i] ?? "");
  }
}

/**
 * @param {HTMLImageElement} image
 * @param {string} src
 */
function showPicture(image, src) {
  image.hidden = !src;
  if (src && image.src !== src) image.src = src;
}

/**
 * Format a distance to the hyperplane: 0.16, 2·10⁻³.
 *
 * @param {number} value
 */
function nearness(value) {
  if (value >= 0.01) return value.toFixed(2);
  if (!value) return "0";
  const [digit, power] = value.toExponential(0).split("e");
  return `${digit}·${powerOfTen(Number(power))}`;
}

export default mounting(RacePage);
