// A line chart that fills its place, with a title, labels at the lines' ends, and a few ticks at round numbers.

import { drawn, element, say } from "../shared/dom.js";

/** @import { Scale } from "../types" */

/** @typedef {{ className: string, values: (number | null)[], label: string }} Line */
/** @typedef {(value: number) => number} Place */
/** @typedef {{ left: number, right: number, top: number, bottom: number, unit: number }} Edges of the plot, in pixels */

/**
 * Lines over the same `xs`, null where values are unknown; `aside` is a note beside the title, and `summary` describes
 * the chart in a sentence.
 *
 * @typedef {object} Drawing
 * @property {number[]} xs
 * @property {Line[]} lines
 * @property {Scale} x
 * @property {Scale} y
 * @property {{ value: number, text: string }} [mark]
 * @property {string} [aside]
 * @property {string} summary
 */

const USUAL = 12; // font size in pixels; with a larger one, the following pixels are more
const PAD = { left: 46, right: 58, top: 10, bottom: 24 };
const APART = 15; // least distance between two labels at lines' ends, in pixels

export class Chart {
  /** @type {HTMLElement} */
  #place;
  #head = element("h2", {});
  #aside = element("span", { className: "aside" });
  #figure = drawn("svg", { class: "plot", role: "img" });
  /** @type {number} */
  #height;
  /** @type {Drawing | null} */
  #drawing = null;

  /**
   * Create an empty chart; `note` is an explanation below it.
   *
   * @param {Element} list
   * @param {{ name: string, note?: string, className?: string, height?: number }} how
   */
  constructor(list, { name, note = "", className = "", height = 200 }) {
    say(this.#head, name);
    this.name = name;
    this.#height = height;
    const head = element("div", { className: "charthead" }, this.#head, this.#aside);
    this.#place = element("figure", { className: `linechart ${className}` }, head, this.#figure);
    if (note) this.#place.append(element("figcaption", {}, note));
    list.append(this.#place);
  }

  /**
   * Draw the chart, or hide it.
   *
   * @param {Drawing | null} drawing null to hide the chart
   */
  show(drawing) {
    this.#drawing = drawing;
    this.#place.hidden = drawing === null;
    if (drawing === null) return;
    say(this.#aside, drawing.aside ?? "");
    this.#figure.setAttribute("aria-label", `${this.name}. ${drawing.summary}`);
    this.draw();
  }

  draw() {
    const width = this.#figure.clientWidth;
    if (!this.#drawing || !width) return;
    const { xs, lines, x, y, mark } = this.#drawing;
    const height = this.#height;
    const unit = parseFloat(getComputedStyle(this.#figure).fontSize) / USUAL;
    const [left, right] = [unit * PAD.left, width - unit * PAD.right];
    const [top, bottom] = [unit * PAD.top, height - unit * PAD.bottom];
    const edges = { left, right, top, bottom, unit };
    const across = (/** @type {number} */ value) => left + inside(x.at(value)) * (right - left);
    const down = (/** @type {number} */ value) => bottom - inside(y.at(value)) * (bottom - top);
    this.#figure.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.#figure.setAttribute("height", String(height));
    /** @type {SVGElement[]} */
    const parts = y.ticks.map((tick) => ruled(tick, y, down(tick), edges));
    parts.push(...x.ticks.map((tick) => written("tick x", across(tick), height - 6 * unit, x.write(tick))));
    if (mark) parts.push(...marked(mark, down(mark.value), edges));
    for (const line of lines) parts.push(...traced(line, xs, across, down));
    parts.push(...ends(lines, xs, across, down, unit));
    this.#figure.replaceChildren(...parts);
  }
}

/**
 * Return a place on a scale, or the scale's nearer end for a place outside the plot.
 *
 * @param {number} place
 */
function inside(place) {
  return Math.min(1, Math.max(0, place));
}

/**
 * @param {number} tick
 * @param {Scale} y
 * @param {number} at
 * @param {Edges} edges
 */
function ruled(tick, y, at, { left, right, unit }) {
  const rule = drawn("line", { class: "gridline", x1: left, x2: right, y1: at, y2: at });
  return drawn("g", {}, rule, written("tick y", left - 8, at + 4 * unit, y.write(tick)));
}

/**
 * @param {{ text: string }} mark
 * @param {number} at
 * @param {Edges} edges
 */
function marked({ text }, at, { left, right }) {
  const rule = drawn("line", { class: "mark", x1: left, x2: right, y1: at, y2: at });
  return [rule, written("tick", left + 2, at - 5, text)]; // the lines' labels are on the right
}

/**
 * @param {Line} line
 * @param {number[]} xs
 * @param {Place} across
 * @param {Place} down
 * @returns {SVGElement[]}
 */
function traced({ className, values }, xs, across, down) {
  const known = xs.flatMap((value, i) => {
    const height = values[i];
    return height == null ? [] : [[across(value), down(height)]];
  });
  if (!known.length) return [];
  const path = `M${known.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L")}`;
  const [cx, cy] = known[known.length - 1];
  return [
    drawn("path", { class: `series ${className}`, d: path }),
    drawn("circle", { class: `end ${className}`, cx, cy, r: 3.5 }),
  ];
}

/**
 * Return labels at the lines' ends, moved apart where they would overlap.
 *
 * @param {Line[]} lines
 * @param {number[]} xs
 * @param {Place} across
 * @param {Place} down
 * @param {number} unit
 */
function ends(lines, xs, across, down, unit) {
  const places = lines.flatMap(({ className, values, label }) => {
    const last = values.findLastIndex((value) => value != null);
    return last < 0 || !label
      ? []
      : [{ className, label, left: across(xs[last]) + 8, top: down(values[last] ?? 0) + 4 * unit }];
  });
  places.sort((one, other) => one.top - other.top);
  places.forEach((place, i) => {
    if (i) place.top = Math.max(place.top, places[i - 1].top + unit * APART);
  });
  return places.map(({ className, label, left, top }) => written(`endlabel ${className}`, left, top, label));
}

/**
 * @param {string} className
 * @param {number} x
 * @param {number} y
 * @param {string} text
 */
function written(className, x, y, text) {
  return drawn("text", { class: className, x, y }, text);
}
