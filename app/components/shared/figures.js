// Figures in the margin: a name, a value, a word beside it and the course that the value took; and the counts.

import { drawn, element, glyph, say } from "./dom.js";

export const ABSENT = "–";
const WIDTH = 116;
const HEIGHT = 28;

const COUNTS = [
  { name: "no", word: "no", symbol: "g-no" },
  { name: "yes", word: "yes", symbol: "g-yes" },
  { name: "skip", word: "skipped", symbol: "g-skip" },
  { name: "unsure", word: "unsure", symbol: "g-unsure", hideZero: true },
  { name: "left", word: "left" },
];

export const whole = (value) => Math.round(value).toLocaleString("en-US");
export const fixed = (digits) => (value) =>
  value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** An interval, as it stands behind its figure; empty where there is none. */
export function between(interval) {
  return interval ? interval.map(fixed(2)).join(" – ").replaceAll("-", "−") : "";
}

/** A figure in `list`; `name` is text and elements. */
export class Figure {
  #place;
  #value = element("span", { className: "value" });
  #aside = element("span", { className: "aside" });
  #unit;
  #course = drawn("path", { class: "course" });
  #dot = drawn("circle", { class: "dot", r: 4 });

  constructor(list, name, unit = "") {
    this.#unit = element("span", { className: "unit" }, unit);
    const size = { width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}` };
    const chart = drawn("svg", { class: "chart", "aria-hidden": "true", ...size }, this.#course, this.#dot);
    const figure = element("dd", {}, element("span", {}, this.#value, this.#unit), chart);
    this.#place = element("div", {}, element("dt", {}, element("span", {}, ...name), this.#aside), figure);
    list.append(this.#place);
  }

  /**
   * `value` is written already, null where there is none; `unit` stands in the place of the usual one; `history`
   * are numbers, put to `scale`.
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

/** How many items have which answer, in words and as a bar. */
export class Tally {
  #counts;
  #bar;

  constructor(card) {
    this.#counts = COUNTS.map((count) => makeCount(count, card.querySelector(".counts")));
    this.#bar = card.querySelector(".bar");
  }

  show(counts) {
    COUNTS.forEach(({ name, hideZero }, i) => {
      say(this.#counts[i].value, whole(counts[name]));
      this.#counts[i].whole.hidden = Boolean(hideZero) && !counts[name];
    });
    const rest = counts.skip + counts.unsure;
    for (const [name, share] of Object.entries({ no: counts.no, yes: counts.yes, rest })) {
      this.#bar.querySelector(`.${name}`).style.flexGrow = share;
      this.#bar.querySelector(`.${name}`).hidden = !share;
    }
  }
}

function makeCount({ name, word, symbol }, list) {
  const value = element("b");
  const label = element(
    "span",
    {},
    ...(symbol ? [glyph(symbol)] : []),
    element("span", { className: "word" }, word),
  );
  const place = element("li", { className: name }, value, label);
  list.append(place);
  return { whole: place, value };
}

function points(values, scale) {
  const heights = values.map((value) => (value == null ? null : scale(Math.max(value, 1e-9))));
  const known = heights.filter((height) => height !== null);
  if (!known.length) return [];
  const low = Math.min(...known);
  const span = Math.max(...known) - low;
  const step = Math.min(8, (WIDTH - 8) / Math.max(1, values.length - 1));
  const y = (height) =>
    HEIGHT - 5 - (span > 1e-9 ? ((height - low) / span) * (HEIGHT - 10) : (HEIGHT - 10) / 2);
  return heights.flatMap((height, i) =>
    height === null ? [] : [[WIDTH - 5 - (values.length - 1 - i) * step, y(height)]],
  );
}

function trace(values, scale) {
  const found = points(values, scale);
  if (found.length < 2) return "";
  return `M${found.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;
}

function moveDot(dot, values, scale) {
  const last = values.length && values.at(-1) != null ? points(values, scale).at(-1) : null;
  dot.setAttribute("cx", last ? last[0].toFixed(1) : 0);
  dot.setAttribute("cy", last ? last[1].toFixed(1) : 0);
  dot.setAttribute("visibility", last ? "visible" : "hidden");
}
