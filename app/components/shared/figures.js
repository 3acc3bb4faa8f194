// Figures in the margin, with a name, a value, a note and the history of the value; and the counts of answers.

import { drawn, element, glyph, part, say } from "./dom.js";

/** @import { Counts } from "../types" */

export const ABSENT = "–";
const WIDTH = 116;
const HEIGHT = 28;

/** @type {{ name: keyof Counts, word: string, symbol?: string, hideZero?: boolean }[]} */
const COUNTS = [
  { name: "no", word: "no", symbol: "g-no" },
  { name: "yes", word: "yes", symbol: "g-yes" },
  { name: "skip", word: "skipped", symbol: "g-skip" },
  { name: "unsure", word: "unsure", symbol: "g-unsure", hideZero: true },
  { name: "tied", word: "tied", hideZero: true },
  { name: "left", word: "left" },
];

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
/** @type {Map<number, Intl.NumberFormat>} */
const FIXED = new Map(); // by digits; to create one takes longer than to write a hundred numbers

/** @param {number} value */
export const whole = (value) => WHOLE.format(Math.round(value));
/**
 * @param {number} digits
 * @returns {(value: number) => string}
 */
export const fixed = (digits) => (value) => formatOf(digits).format(value).replace("-", "−");

/**
 * Return a rate: "1 round/s", "0.5 rounds/s".
 *
 * @param {number} rate
 * @param {string} what the singular
 */
export const perSecond = (rate, what) => `${rate} ${what}${rate === 1 ? "" : "s"}/s`;

/** @param {number} digits */
function formatOf(digits) {
  const known = FIXED.get(digits);
  if (known) return known;
  const made = new Intl.NumberFormat("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
  FIXED.set(digits, made);
  return made;
}

/**
 * Format the milliseconds of a full scan.
 *
 * @param {number} ms
 */
export const scanTime = (ms) => fixed(ms < 10 ? 2 : 0)(ms);

/**
 * Format an interval to follow its figure; return "" if there is none.
 *
 * @param {[number, number] | null | undefined} interval
 */
export function between(interval) {
  return interval ? interval.map(fixed(2)).join(" – ").replaceAll("-", "−") : "";
}

/** A figure, appended to `list`; its `name` consists of text and elements. */
export class Figure {
  /** @type {HTMLElement} */
  #place;
  #value = element("span", { className: "value" });
  #aside = element("span", { className: "aside" });
  /** @type {HTMLElement} */
  #unit;
  #course = drawn("path", { class: "course" });
  #dot = drawn("circle", { class: "dot", r: 4 });

  /**
   * @param {Element} list
   * @param {(Node | string)[]} name
   * @param {string} unit
   */
  constructor(list, name, unit = "") {
    this.#unit = element("span", { className: "unit" }, unit);
    const size = { width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}` };
    const chart = drawn("svg", { class: "chart", "aria-hidden": "true", ...size }, this.#course, this.#dot);
    const figure = element("dd", {}, element("span", {}, this.#value, this.#unit), chart);
    this.#place = element("div", {}, element("dt", {}, element("span", {}, ...name), this.#aside), figure);
    list.append(this.#place);
  }

  /**
   * Update the figure.
   *
   * @param {object} figure
   * @param {string | null} figure.value formatted value, null if there is none
   * @param {string | null} [figure.unit] replacement of the usual unit
   * @param {string} [figure.aside] note beside the value
   * @param {(number | null)[]} [figure.history] numbers to plot
   * @param {(value: number) => number} [figure.scale] mapping of the numbers to heights
   * @param {boolean} [figure.hidden]
   */
  show({ value, unit = null, aside = "", history = [], scale = (number) => number, hidden = false }) {
    this.#place.hidden = hidden;
    say(this.#value, value ?? ABSENT);
    if (unit !== null) say(this.#unit, unit);
    this.#unit.hidden = value == null;
    say(this.#aside, aside);
    this.#course.setAttribute("d", trace(history, scale));
    moveDot(this.#dot, history, scale);
  }
}

/** The number of items with each answer, in words and as a bar. */
export class Tally {
  /** @type {ReturnType<typeof makeCount>[]} */
  #counts;
  /** @type {HTMLElement} */
  #bar;

  /** @param {ParentNode} card */
  constructor(card) {
    this.#counts = COUNTS.map((count) => makeCount(count, part(card, ".counts")));
    this.#bar = part(card, ".bar");
  }

  /** @param {Counts} counts */
  show(counts) {
    COUNTS.forEach(({ name, hideZero }, i) => {
      const value = counts[name] ?? 0;
      say(this.#counts[i].value, whole(value));
      this.#counts[i].whole.hidden = Boolean(hideZero) && !value;
    });
    const rest = counts.skip + counts.unsure + (counts.tied ?? 0);
    for (const [name, share] of Object.entries({ no: counts.no, yes: counts.yes, rest })) {
      part(this.#bar, `.${name}`).style.flexGrow = String(share);
      part(this.#bar, `.${name}`).hidden = !share;
    }
  }
}

/**
 * @param {(typeof COUNTS)[number]} count
 * @param {Element} list
 */
function makeCount({ name, word, symbol }, list) {
  const value = element("b");
  const said = element("span", { className: "word" }, word);
  const label = element("span", {}, ...(symbol ? [glyph(symbol)] : []), said);
  const place = element("li", { className: name }, value, label);
  list.append(place);
  return { whole: place, value };
}

/**
 * @param {(number | null)[]} values
 * @param {(value: number) => number} scale
 * @returns {[number, number][]}
 */
function points(values, scale) {
  const heights = values.map((value) => (value == null ? null : scale(Math.max(value, 1e-9))));
  const known = heights.filter((height) => height !== null);
  if (!known.length) return [];
  const low = Math.min(...known);
  const span = Math.max(...known) - low;
  const step = Math.min(8, (WIDTH - 8) / Math.max(1, values.length - 1));
  const y = (/** @type {number} */ height) =>
    HEIGHT - 5 - (span > 1e-9 ? ((height - low) / span) * (HEIGHT - 10) : (HEIGHT - 10) / 2);
  return heights.flatMap((height, i) =>
    height === null ? [] : [[WIDTH - 5 - (values.length - 1 - i) * step, y(height)]],
  );
}

/**
 * @param {(number | null)[]} values
 * @param {(value: number) => number} scale
 */
function trace(values, scale) {
  const found = points(values, scale);
  if (found.length < 2) return "";
  return `M${found.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;
}

/**
 * @param {Element} dot
 * @param {(number | null)[]} values
 * @param {(value: number) => number} scale
 */
function moveDot(dot, values, scale) {
  const last = values.length && values.at(-1) != null ? points(values, scale).at(-1) : null;
  dot.setAttribute("cx", last ? last[0].toFixed(1) : "0");
  dot.setAttribute("cy", last ? last[1].toFixed(1) : "0");
  dot.setAttribute("visibility", last ? "visible" : "hidden");
}
