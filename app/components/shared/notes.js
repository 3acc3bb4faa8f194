// The notes in the margin: the numbers of the round whose image is in view, each with its course.

import { drawn, element, glyph, say } from "./dom.js";

const ABSENT = "–";
const WIDTH = 116;
const HEIGHT = 28;
const MARGIN_NAME = ["|w", element("sup", {}, "T"), "x|"];

const whole = (value) => Math.round(value).toLocaleString("en-US");
const fixed = (digits) => (value) =>
  value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

// In the order in which they are always read: what it cost, how near, how much was looked at, what was learned.
const ROWS = [
  {
    name: "selection_ms",
    label: "Selection time",
    brief: "selection",
    unit: "ms",
    write: fixed(2),
    aside: (notes) => (notes.full_scan_ms == null ? "" : `full scan ${whole(notes.full_scan_ms)} ms`),
    scale: Math.log,
  },
  {
    name: "margin",
    label: "|wᵀx|",
    parts: MARGIN_NAME,
    unit: "",
    write: fixed(7),
    aside: (notes) => (notes.margin == null ? "after the first yes and no" : "0 is on the hyperplane"),
    scale: Math.log,
  },
  {
    name: "scored",
    label: "Items scored",
    unit: "",
    write: whole,
    aside: (notes) => `of ${whole(notes.total)}`,
    scale: Math.log,
  },
  {
    name: "retrain_ms",
    label: "Retrain",
    brief: "retrain",
    unit: "ms",
    write: fixed(1),
    aside: (notes) => `${whole(notes.n_labels)} ${notes.n_labels === 1 ? "label" : "labels"}`,
    scale: Math.log,
  },
  {
    name: "accuracy",
    label: "Held-out accuracy",
    unit: "%",
    write: (value) => fixed(1)(100 * value),
    aside: (notes) => (notes.always_no === null ? "" : `always “no”: ${(100 * notes.always_no).toFixed(1)} %`),
    scale: (value) => value,
    absent: (notes) => !notes.held_out,
  },
];

const COUNTS = [
  { name: "no", word: "no", symbol: "g-no" },
  { name: "yes", word: "yes", symbol: "g-yes" },
  { name: "skip", word: "skipped", symbol: "g-skip" },
  { name: "unsure", word: "unsure", symbol: "g-unsure", hideZero: true },
  { name: "left", word: "left" },
];

const WHY = {
  "random-start": (round) => ["Chosen at random", ` until there is a yes and a no, round ${round}`],
  example: (round) => ["Like the examples", `, round ${round}`],
  undo: (round) => ["Back again", ` for another answer, round ${round}`],
  "skipped-again": (round) => ["Skipped before", `, back for an answer, round ${round}`],
};

export class Notes {
  #rows;
  #briefs;
  #counts;
  #bar;
  #chosen;

  constructor(card) {
    this.#rows = ROWS.map((row) => makeRow(row, card.querySelector(".rows")));
    this.#briefs = ROWS.slice(0, 4).map((row) => makeBrief(row, card.querySelector(".brief")));
    this.#counts = COUNTS.map((count) => makeCount(count, card.querySelector(".counts")));
    this.#bar = card.querySelector(".bar");
    this.#chosen = card.querySelector(".chosen");
  }

  show({ notes, history, round, item }) {
    ROWS.forEach((row, i) => {
      const { whole: place, value, unit, aside, course } = this.#rows[i];
      place.hidden = row.absent?.(notes) ?? false;
      say(value, write(row, notes));
      unit.hidden = notes[row.name] == null;
      say(aside, row.aside(notes));
      course.setAttribute("d", trace(history[row.name] ?? [], row.scale));
      moveDot(course.nextSibling, history[row.name] ?? [], row.scale);
    });
    this.#briefs.forEach(({ value, aside }, i) => {
      say(value, write(ROWS[i], notes));
      if (aside) say(aside, ROWS[i].aside(notes));
    });
    this.#showCounts(notes.counts);
    this.#showChosen(notes, round, item);
  }

  #showCounts(counts) {
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

  #showChosen(notes, round, item) {
    const [who, rest] = WHY[notes.why]?.(round) ?? [
      notes.strategy_label,
      notes.awaited ? ` chose this item while ${notes.awaited} is prepared` : ` chose this item, round ${round}`,
    ];
    const written = item ? `${notes.strategy} ${who}${rest}` : "";
    if (this.#chosen.dataset.written === written) return;
    this.#chosen.dataset.written = written;
    this.#chosen.replaceChildren();
    if (!item) return;
    const symbol = this.#chosen.getRootNode().getElementById(`s-${notes.strategy}`) ? notes.strategy : "other";
    this.#chosen.append(glyph(`s-${symbol}`, `strategy ${symbol}`), element("strong", {}, who), rest);
  }
}

function write(row, notes) {
  const value = notes[row.name];
  return value == null ? ABSENT : row.write(value);
}

function nameOf(row) {
  return row.parts ? row.parts.map((part) => part.cloneNode?.(true) ?? part) : [row.label];
}

function makeRow(row, list) {
  const value = element("span", { className: "value" });
  const aside = element("span", { className: "aside" });
  const course = drawn("path", { class: "course" });
  const dot = drawn("circle", { class: "dot", r: 4 });
  const size = { width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}` };
  const chart = drawn("svg", { class: "chart", "aria-hidden": "true", ...size }, course, dot);
  const unit = element("span", { className: "unit" }, row.unit);
  const figure = element("dd", {}, element("span", {}, value, unit), chart);
  const place = element("div", {}, element("dt", {}, element("span", {}, ...nameOf(row)), aside), figure);
  list.append(place);
  return { whole: place, value, unit, aside, course };
}

function makeBrief(row, list) {
  const value = element("b");
  const unit = row.unit ? element("span", { className: "unit" }, row.unit) : "";
  const aside = row.brief || row.parts ? null : element("span");
  const below = element("small", {}, ...(aside ? [aside] : row.parts ? nameOf(row) : [row.brief]));
  list.append(element("li", {}, element("span", {}, value, unit), below));
  return { value, aside };
}

function makeCount({ name, word, symbol }, list) {
  const value = element("b");
  const label = element("span", {}, ...(symbol ? [glyph(symbol)] : []), element("span", { className: "word" }, word));
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
  const y = (height) => HEIGHT - 5 - (span > 1e-9 ? ((height - low) / span) * (HEIGHT - 10) : (HEIGHT - 10) / 2);
  return heights.flatMap((height, i) => (height === null ? [] : [[WIDTH - 5 - (values.length - 1 - i) * step, y(height)]]));
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
