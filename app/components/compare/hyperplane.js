// One hyperplane and the item that each query strategy selects for it: one row per strategy, in a fixed order. State
// that must outlive a payload is kept on the root element.

import { element, glyph, part, say, treeOf } from "../shared/dom.js";
import { whole } from "../shared/figures.js";
import { Help } from "../shared/help.js";
import { takeKeys, watchPickers } from "../shared/keys.js";
import { mounting } from "../shared/mount.js";
import { BoxPlot, LogAxis, milliseconds, percentage, placed, plain, powerOfTen, stretched } from "./axis.js";

/** @import { CompareData, CompareRow, Component, ShownRow, Spread } from "../types" */

const POLL = 700; // milliseconds between requests while something is being measured or built
// A time's label is to the left of its dot if the dot is beyond `until` per cent, otherwise to the right. If the full
// scan's line is less than `apart` per cent away, the label is on the side away from the line, if there is room.
const ROOM = { until: 62, apart: 20 };
const ALIKE = 1.1; // times that differ by a smaller factor are shown as equal

const ABOUT =
  "Each strategy chooses one item for the same hyperplane: how long that takes, and how near the item is.";

class Comparison {
  /**
   * @param {ShadowRoot} root
   * @param {Component<CompareData>} component
   */
  constructor(root, component) {
    this.component = component;
    this.card = part(root, ".card");
    this.title = part(root, ".title");
    this.about = part(root, ".about");
    this.table = part(root, ".table");
    this.lines = part(root, ".lines");
    this.foot = part(root, ".foot");
    this.trouble = part(root, ".trouble");
    this.last = part(root, ".last");
    /** @type {HTMLButtonElement} */
    this.again = part(root, ".again");
    this.heads = { time: part(root, ".axis.time"), margin: part(root, ".axis.margin") };
    /** @type {Map<string, Row>} */
    this.rows = new Map();
    this.beat = 0;
    this.abort = new AbortController();
    watchPickers(this.abort.signal);
    takeKeys(this);
    new Help(this.card, () => ({ about: ABOUT })).listen(this, this.abort.signal);
    this.again.addEventListener("click", () => this.component.setTriggerValue("again", true));
  }

  close() {
    this.abort.abort();
    clearTimeout(this.timer);
  }

  /** @param {Component<CompareData>} component */
  update(component) {
    this.component = component;
    const { headline, about, rows, trouble, is_coming: isComing } = component.data;
    say(this.title, headline);
    say(this.about, about);
    say(this.trouble, trouble ?? "");
    this.table.hidden = this.foot.hidden = !rows.length;
    this.again.disabled = isComing;
    if (rows.length) this.show(rows);
    this.card.dataset.state = isComing ? "coming" : "shown";
    clearTimeout(this.timer);
    if (isComing) this.timer = setTimeout(() => component.setStateValue("beat", ++this.beat), POLL);
  }

  /** @param {CompareRow[]} rows */
  show(rows) {
    const shown = rows.filter((row) => row.state === "shown");
    const full = shown.find((row) => row.strategy === "exhaustive");
    if (!full) return;
    say(this.last, spanOf(this.component.data.n));
    const time = timeAxis(shown, full);
    const margin = new LogAxis(
      shown.flatMap((row) => [row.margin.low, row.margin.high, row.margin.now]),
      { mostTicks: 4, write: powerOfTen },
    );
    for (const [head, axis] of /** @type {const} */ ([
      [this.heads.time, time],
      [this.heads.margin, margin],
    ])) {
      head.replaceChildren(part(head, ".axisname"), element("span", { className: "ticks" }, ...axis.names()));
    }
    for (const row of rows) {
      const key = `${row.strategy} ${row.label}`;
      const line = this.rows.get(key) ?? new Row(this.lines, row);
      this.rows.set(key, line);
      line.show(row, { time, margin, full: time.at(full.ms.median) });
    }
    for (const [key, row] of this.rows) {
      if (!rows.some((known) => `${known.strategy} ${known.label}` === key)) {
        row.line.remove();
        this.rows.delete(key);
      }
    }
  }
}

/**
 * Return the axis of the times, with one more power of ten if a label would otherwise reach beyond the left end.
 *
 * @param {ShownRow[]} rows
 * @param {ShownRow} full
 */
function timeAxis(rows, full) {
  const times = rows.flatMap(({ ms }) => [ms.low, ms.high]);
  const how = { unit: "ms", write: plain };
  const axis = new LogAxis(times, how);
  const places = rows.map(({ ms }) => axis.at(ms.median));
  const isCut = places.some((at) => at < ROOM.apart && sideOf(at, axis.at(full.ms.median)) === "left");
  return isCut ? new LogAxis([...times, 10 ** (axis.low - 1)], how) : axis;
}

/**
 * Return the side of a time's label.
 *
 * @param {number} at
 * @param {number} full
 */
function sideOf(at, full) {
  const isNear = Math.abs(at - full) < ROOM.apart;
  if (at <= full) return isNear || at > ROOM.until ? "left" : "right";
  return at > (isNear ? 100 - ROOM.apart : ROOM.until) ? "left" : "right";
}

/** @param {number} n */
const spanOf = (n) => (n === 1 ? "this hyperplane" : `the last ${n} hyperplanes`);

class Row {
  /**
   * @param {Element} lines
   * @param {CompareRow} row
   */
  constructor(lines, { strategy, label }) {
    this.image = element("img", { alt: "" });
    this.pick = cell("pick", this.image);
    this.time = cell("plot time");
    this.margin = cell("plot margin");
    this.distances = new BoxPlot(this.margin);
    this.rank = new Quantity("rank");
    this.scored = new Quantity("scored");
    this.note = cell("message");
    this.brief = element("small", { className: "brief" });
    this.line = element("div", { className: "line", role: "row" });
    this.symbol = treeOf(lines).getElementById(`s-${strategy}`) ? strategy : "other";
    this.line.classList.add(this.symbol);
    const name = element("span", { className: "name" }, element("b", {}, label), this.brief);
    const who = element("span", { className: "who", role: "rowheader" }, this.marker("strategy"), name);
    this.line.append(who, this.pick, this.time, this.margin, this.rank.place, this.scored.place, this.note);
    lines.append(this.line);
  }

  /** @param {string} className */
  marker(className) {
    return glyph(`s-${this.symbol}`, `${className} ${this.symbol}`);
  }

  /**
   * @param {CompareRow} row
   * @param {{ time: LogAxis, margin: LogAxis, full: number }} axes
   */
  show(row, { time, margin, full }) {
    const isShown = row.state === "shown";
    this.line.dataset.used = String(row.in_use);
    this.line.dataset.state = row.state;
    for (const part of [this.pick, this.time, this.margin, this.rank.place, this.scored.place])
      part.hidden = !isShown;
    this.note.hidden = isShown;
    say(this.note, isShown ? "" : row.message);
    say(this.brief, isShown ? `rank ${rankOf(row)}` : "");
    if (!isShown) return;
    if (this.image.src !== row.src) this.image.src = row.src;
    const isNearest = row.sought === "nearest" && row.rank === 0;
    this.image.alt = `${row.alt}${isNearest ? ", the nearest" : ""}`;
    this.pick.dataset.nearest = String(isNearest);
    this.time.replaceChildren(...time.lines(), ...this.timed(row, time, full));
    this.distances.show(row.margin, margin);
    this.margin.setAttribute("aria-label", spokenSpread(row.margin));
    const beside = { nearest: `median ${whole(row.typical_rank)}`, likeliest: "by wᵀx", other: "not sought" };
    this.rank.show(rankOf(row), beside[row.sought]);
    this.scored.show(whole(row.scored), percentage(row.share));
  }

  /**
   * @param {ShownRow} row
   * @param {LogAxis} axis
   * @param {number} full
   */
  timed(row, axis, full) {
    const at = axis.at(row.ms.median);
    const [value, ratio] = [`${milliseconds(row.ms.median)} ms`, ratioOf(row)];
    const reads = placed("span", "reads", at, element("b", {}, value), element("small", {}, ratio));
    reads.style.setProperty("--x", at.toFixed(2));
    reads.dataset.side = sideOf(at, full);
    const dot = placed("span", "dot", at, this.marker("mark"));
    return [
      stretched("rule", at, full),
      placed("i", "full", full),
      stretched("band", axis.at(row.ms.low), axis.at(row.ms.high)),
      dot,
      reads,
    ];
  }
}

/** A number with a note below it. */
class Quantity {
  /** @param {string} className */
  constructor(className) {
    this.value = element("b", {});
    this.aside = element("small", {});
    this.place = cell(`number ${className}`, this.value, this.aside);
  }

  /**
   * @param {string} value
   * @param {string} aside
   */
  show(value, aside) {
    say(this.value, value);
    say(this.aside, aside);
  }
}

/**
 * @param {string} className
 * @param {(Node | string)[]} children
 */
function cell(className, ...children) {
  return element("span", { className, role: "cell" }, ...children);
}

/** @param {Spread & { now: number }} spread */
function spokenSpread({ now, median }) {
  return `${now.toPrecision(2)} now, median ${median.toPrecision(2)}`;
}

/** @param {ShownRow} row */
function ratioOf({ strategy, ratio }) {
  if (strategy === "exhaustive") return "full scan";
  if (ratio < ALIKE && ratio > 1 / ALIKE) return "as fast";
  const times = ratio > 1 ? ratio : 1 / ratio;
  return `${times >= 9.95 ? whole(times) : times.toFixed(1)}× ${ratio > 1 ? "faster" : "slower"}`;
}

/** @param {ShownRow} row */
function rankOf({ sought, rank }) {
  return sought === "other" ? "–" : whole(rank);
}

export default mounting(Comparison);
