// Learning curves: one line per lane, labeled at its end, with guide lines for the figures in the headline.

import { drawn, say } from "../shared/dom.js";
import { roundTicks } from "../shared/scales.js";
import { yScale } from "./heights.js";

/** @import { Course, Guide } from "../types" */

/** @typedef {(value: number) => number} Place */
/** @typedef {{ left: number, right: number, bottom: number }} Edges */
/** @typedef {{ left: number, top: number, value: number }} End */
/** @typedef {End & { at: number, edge: number, isNarrow: boolean, digits: number }} Label */

/**
 * @typedef {object} Grid
 * @property {ReturnType<typeof yScale>} y
 * @property {number} most
 * @property {Place} across
 * @property {Place} down
 * @property {Edges} edges
 * @property {string} name
 * @property {(x: number) => string} write
 * @property {number} height
 */

const PAD = { left: 64, top: 14, bottom: 46 };
const NARROW = 520; // pixels; below this width the labels have no values
const LABEL = 24; // pixels between the end of the x axis and the labels
const VALUE = 64; // of a label's value, in pixels
const APART = 24; // least distance between two labels, in pixels
const MARK = 14;
const MOST_POINTS = 700; // points of a line; more would be closer than pixels

export class Curves {
  /** @type {SVGElement} */
  #svg;
  #grid = drawn("g", {});
  #guides = drawn("g", {});
  /** @type {Line[]} */
  #lines;

  /**
   * Create the chart; `lanes` come in the order of the rows.
   *
   * @param {SVGElement} svg
   * @param {{ symbol: string, label: string }[]} lanes
   */
  constructor(svg, lanes) {
    this.#svg = svg;
    this.#lines = lanes.map((lane) => new Line(lane));
    const paths = this.#lines.map((line) => line.path);
    svg.replaceChildren(this.#grid, ...paths, this.#guides, ...this.#lines.flatMap((line) => line.parts));
  }

  /**
   * Draw the curves.
   *
   * `courses` has one course per lane. `most` is the end of the x axis and `name` its label. `guide` marks the x
   * values at which two lanes reach the same y. `write` formats x values.
   *
   * @param {{ courses: Course[], most: number, guide: Guide | null, name: string, write: (x: number) => string }} drawing
   */
  show({ courses, most, guide, name, write }) {
    const width = this.#svg.clientWidth;
    const height = this.#svg.clientHeight;
    if (!width || !height) return;
    const longest = Math.max(...this.#lines.map((line) => line.name.getComputedTextLength()));
    const right = Math.ceil(LABEL + longest + (width < NARROW ? 2 : VALUE));
    const y = yScale(courses.map(({ ys }) => ys.filter((value) => value != null)));
    const across = (/** @type {number} */ value) =>
      PAD.left + Math.min(1, value / most) * (width - PAD.left - right);
    const down = (/** @type {number} */ value) =>
      PAD.top + (1 - y.at(value)) * (height - PAD.top - PAD.bottom);
    const edges = { left: PAD.left, right: width - right, bottom: height - PAD.bottom };
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.#drawGrid({ y, most, across, down, edges, name, write, height });
    this.#guides.replaceChildren(...(guide ? guided(guide, across, down, edges) : []));
    const ends = courses.map(({ xs, ys }, i) => this.#lines[i].draw(xs, ys, across, down));
    this.#label(ends, edges, width < NARROW, y.fine);
  }

  /** @param {Grid} grid */
  #drawGrid({ y, most, across, down, edges, name, write, height }) {
    const key = [...y.ticks, most, edges.right, height, name].join(" ");
    if (this.#grid.dataset.key === key) return;
    this.#grid.dataset.key = key;
    const parts = [];
    for (const tick of y.ticks) {
      const at = down(tick);
      parts.push(drawn("line", { class: "level", x1: edges.left, x2: edges.right, y1: at, y2: at }));
      parts.push(written("ytick", edges.left - 10, at + 5, y.write(tick)));
    }
    if (y.note) parts.push(written("ynote", edges.left + 8, PAD.top + 14, y.note));
    for (const tick of roundTicks(0, most, edges.right > 400 ? 6 : 3)) {
      parts.push(written("xtick", across(tick), edges.bottom + 20, write(tick)));
    }
    parts.push(written("xtick", (edges.left + edges.right) / 2, edges.bottom + 41, name));
    this.#grid.replaceChildren(...parts);
  }

  /**
   * Put the labels at the right edge, ordered by the lanes' last values and moved apart where they would overlap.
   *
   * @param {(End | null)[]} ends
   * @param {Edges} edges
   * @param {boolean} isNarrow
   * @param {number} digits
   */
  #label(ends, edges, isNarrow, digits) {
    const apart = isNarrow ? 18 : APART;
    const places = ends.flatMap((end, i) => (end ? [{ ...end, line: this.#lines[i], at: end.top }] : []));
    places.sort((one, other) => one.top - other.top);
    places.forEach((place, i) => {
      place.at = Math.max(place.top, i ? places[i - 1].at + apart : PAD.top);
    });
    const room = edges.bottom;
    for (let i = places.length - 1; i >= 0; i -= 1) {
      places[i].at = Math.min(places[i].at, i === places.length - 1 ? room : places[i + 1].at - apart);
    }
    for (const line of this.#lines) line.label(null);
    for (const { line, left, top, at, value } of places)
      line.label({ left, top, at, value, edge: edges.right, isNarrow, digits });
  }
}

/** The SVG elements of one lane, created once. */
class Line {
  /** @param {{ symbol: string, label: string }} lane */
  constructor({ symbol, label }) {
    this.path = drawn("path", { class: `curve ${symbol}` });
    this.leader = drawn("path", { class: `leader ${symbol}` });
    this.mark = drawn("use", { class: `endmark ${symbol}`, href: `#s-${symbol}`, width: MARK, height: MARK });
    this.name = drawn("tspan", { class: `endname ${symbol}` }, label);
    this.value = drawn("tspan", { dx: 6 });
    this.text = drawn("text", { class: "endlabel" }, this.name, this.value);
    this.parts = [this.leader, this.mark, this.text];
  }

  /**
   * @param {number[]} xs
   * @param {(number | null)[]} ys
   * @param {Place} across
   * @param {Place} down
   * @returns {End | null}
   */
  draw(xs, ys, across, down) {
    const step = Math.ceil(xs.length / MOST_POINTS);
    /** @type {string[]} */
    const points = [];
    xs.forEach((x, i) => {
      const y = ys[i];
      if (y == null || (i % step && i !== xs.length - 1)) return;
      points.push(`${across(x).toFixed(1)} ${down(y).toFixed(1)}`);
    });
    this.path.setAttribute("d", points.length > 1 ? `M${points.join("L")}` : "");
    const last = ys.findLastIndex((y) => y != null);
    const value = ys[last] ?? null;
    return value === null ? null : { left: across(xs[last]), top: down(value), value };
  }

  /** @param {Label | null} place */
  label(place) {
    for (const part of [this.leader, this.mark, this.text])
      part.setAttribute("visibility", place ? "visible" : "hidden");
    if (!place) return;
    const { left, top, at, value, edge, isNarrow, digits } = place;
    const turn = Math.max(edge, left);
    this.mark.setAttribute("x", String(left - MARK / 2));
    this.mark.setAttribute("y", String(top - MARK / 2));
    this.leader.setAttribute("d", `M${left + MARK / 2} ${top}L${turn} ${top}L${turn + 18} ${at}`);
    this.text.setAttribute("x", String(turn + LABEL));
    this.text.setAttribute("y", String(at + 6));
    say(this.value, isNarrow ? "" : value.toFixed(digits));
  }
}

/**
 * @param {Guide} guide
 * @param {Place} across
 * @param {Place} down
 * @param {Edges} edges
 */
function guided({ from, to, y, write }, across, down, edges) {
  const line = (/** @type {number[][]} */ points) =>
    drawn("path", { class: "guide", d: `M${points.map((point) => point.join(" ")).join("L")}` });
  const [x1, x2, at] = [across(from), across(to), down(y)];
  const near = x2 - x1 < 36;
  return [
    line([
      [x1, edges.bottom],
      [x1, at],
      [x2, at],
    ]),
    line([
      [x2, at],
      [x2, edges.bottom],
    ]),
    written(`guidename${near ? " before" : ""}`, x1 + (near ? -6 : 6), edges.bottom - 8, write(from)),
    written("guidename", x2 + 6, edges.bottom - 8, write(to)),
  ];
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
