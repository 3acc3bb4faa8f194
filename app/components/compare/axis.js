// A logarithmic axis shared by a column of plots, and box plots on it. Positions are percentages of the plot's width.

import { element, say } from "../shared/dom.js";

/** @import { Spread } from "../types" */

/** @type {Record<string, string>} */
const SUPERSCRIPTS = {
  "-": "⁻",
  0: "⁰",
  1: "¹",
  2: "²",
  3: "³",
  4: "⁴",
  5: "⁵",
  6: "⁶",
  7: "⁷",
  8: "⁸",
  9: "⁹",
};
const LEAST = 1e-9; // smaller distances are drawn here: closer is as good as on the hyperplane
const LABEL = 3; // width of a tick's label, and of the space beside it, in font sizes

/** A logarithmic axis between powers of ten that enclose all `values`; with many powers, only every nth has a tick. */
export class LogAxis {
  /**
   * @param {(number | null)[]} values
   * @param {{ unit?: string, mostTicks?: number, write: (power: number) => string }} how
   */
  constructor(values, { unit = "", mostTicks = 5, write }) {
    const known = values.filter((value) => value != null).map((value) => Math.max(value, LEAST));
    this.low = Math.floor(Math.log10(Math.min(...known)) + 1e-9);
    this.high = Math.max(this.low + 1, Math.ceil(Math.log10(Math.max(...known)) - 1e-9));
    const step = Math.ceil((this.high - this.low) / mostTicks);
    const powers = Array.from({ length: this.high - this.low + 1 }, (_, i) => this.low + i);
    this.ticks = powers.filter((power) => (this.high - power) % step === 0);
    this.unit = unit;
    this.write = write;
  }

  /**
   * Return the position of a value on the axis, 0 … 100.
   *
   * @param {number} value
   */
  at(value) {
    const exponent = Math.log10(Math.max(value, LEAST));
    return Math.min(100, Math.max(0, (100 * (exponent - this.low)) / (this.high - this.low)));
  }

  /** Return the tick labels, for the column's header. */
  names() {
    return this.ticks.map((power) => {
      const unit =
        power === this.high && this.unit ? [element("span", { className: "unit" }, this.unit)] : [];
      const side = power === this.high ? " last" : power === this.low ? " first" : "";
      return placed("span", `tick${side}`, this.at(10 ** power), this.write(power), ...unit);
    });
  }

  /** Return the tick lines, for a row. */
  lines() {
    return this.ticks.map((power) => placed("i", "gridline", this.at(10 ** power)));
  }
}

/**
 * Return the number of intervals between ticks for whose labels there is room.
 *
 * @param {Element} place an element with the axis's width and the font of its labels
 * @param {number} most
 */
export function roomIn(place, most) {
  const fontSize = Number.parseFloat(getComputedStyle(place).fontSize);
  return Math.min(most, Math.max(1, Math.floor(place.clientWidth / (LABEL * fontSize))));
}

/**
 * Return an element positioned at `x` per cent of its plot.
 *
 * @param {"span" | "i"} tag
 * @param {string} className
 * @param {number} x
 * @param {(Node | string)[]} children
 */
export function placed(tag, className, x, ...children) {
  const made = element(tag, { className }, ...children);
  move(made, x);
  return made;
}

/**
 * Return an element that reaches from `x` to `end` per cent of its plot.
 *
 * @param {string} className
 * @param {number} x
 * @param {number} end
 */
export function stretched(className, x, end) {
  const made = element("i", { className });
  stretch(made, x, end);
  return made;
}

/**
 * @param {HTMLElement} part
 * @param {number} x
 */
function move(part, x) {
  part.style.left = `${x.toFixed(2)}%`;
}

/**
 * @param {HTMLElement} part
 * @param {number} x
 * @param {number} end
 */
function stretch(part, x, end) {
  move(part, Math.min(x, end));
  part.style.width = `${Math.abs(end - x).toFixed(2)}%`;
}

/** A box plot of a spread's percentiles, with the newest value as a dot and a label above the median. */
export class BoxPlot {
  #parts = Object.fromEntries(
    ["whisker", "box", "middle", "newest"].map((name) => [name, element("i", { className: name })]),
  );
  #label = element("b", {});
  #reads = element("span", { className: "reads" }, this.#label);
  /** @type {HTMLElement} */
  #place;
  #axis = "";

  /** @param {HTMLElement} place */
  constructor(place) {
    this.#place = place;
  }

  /**
   * Draw a spread on an axis.
   *
   * @param {Spread | null} spread null while there are no values
   * @param {LogAxis} axis
   * @param {string} [label] text above the median
   */
  show(spread, axis, label = "") {
    const key = `${axis.low} ${axis.ticks} ${Boolean(spread)}`;
    if (this.#axis !== key) {
      this.#axis = key;
      this.#place.replaceChildren(
        ...axis.lines(),
        ...(spread ? [...Object.values(this.#parts), this.#reads] : []),
      );
    }
    if (!spread) return;
    const { whisker, box, middle, newest } = this.#parts;
    stretch(whisker, axis.at(spread.low), axis.at(spread.high));
    stretch(box, axis.at(spread.q1), axis.at(spread.q3));
    move(middle, axis.at(spread.median));
    newest.hidden = spread.now == null;
    if (spread.now != null) move(newest, axis.at(spread.now));
    move(this.#reads, axis.at(spread.median));
    this.#reads.style.setProperty("--x", axis.at(spread.median).toFixed(1));
    say(this.#label, label);
  }
}

/**
 * Return a power of ten in decimals: 0.01, 0.1, 1, 10.
 *
 * @param {number} power the exponent
 */
export const plain = (power) => String(Number((10 ** power).toPrecision(1)));

/**
 * Return a power of ten with a superscript: 10⁻²; 1 for the exponent 0.
 *
 * @param {number} power the exponent
 */
export const powerOfTen = (power) =>
  power ? `10${[...String(power)].map((sign) => SUPERSCRIPTS[sign]).join("")}` : "1";

/**
 * Format milliseconds with as many digits as the measurement supports: 0.012, 0.52, 6.20, 47.
 *
 * @param {number} value
 */
export function milliseconds(value) {
  return value >= 10 ? Math.round(value).toLocaleString("en-US") : value.toFixed(value < 0.1 ? 3 : 2);
}

/**
 * Format a share as a percentage: 0.0001 %, 0.5 %, 100 %.
 *
 * @param {number} share from 0 to 1
 */
export function percentage(share) {
  const percent = 100 * share;
  return `${percent >= 1 ? Math.round(percent) : Number(percent.toPrecision(1)).toLocaleString("en-US", { maximumFractionDigits: 6 })} %`;
}
