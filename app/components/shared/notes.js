// The notes in the margin: the numbers of the round whose image is in view, each with its history.

import { marginAside, scoredAside, trainingAside } from "./asides.js";
import { chosenBy } from "./chosen.js";
import { element, glyph, part, say, term, treeOf } from "./dom.js";
import { ABSENT, Figure, fixed, scanTime, Tally, whole } from "./figures.js";

/** @import { History, Item, Measured, RoundNotes } from "../types" */

/**
 * @typedef {object} Row
 * @property {Measured} name
 * @property {string} label
 * @property {string} [brief] shorter label
 * @property {(Node | string)[]} [parts] replacement of the label
 * @property {string} [hint] explanation in a sentence
 * @property {string} unit
 * @property {(value: number) => string} write
 * @property {(notes: RoundNotes) => string} [aside]
 * @property {(value: number) => number} scale
 * @property {(notes: RoundNotes) => boolean} [absent]
 */

const MARGIN_NAME = ["|w", element("sup", {}, "T"), "x|"];
const MARGIN_HINT =
  "How far the item is from the boundary between yes and no: near 0, the classifier can hardly decide.";

const RESET = "This question was reset. Answers given here still belong to the old one.";

// In a fixed order: cost of the selection, distance, items scored, cost of the training, accuracy.
/** @type {Row[]} */
const ROWS = [
  {
    name: "selection_ms",
    label: "Selection time",
    brief: "selection",
    hint: "How long the strategy took to choose; beside it, how long a full scan of all items takes while you label.",
    unit: "ms",
    write: fixed(2),
    aside: ({ full_scan_ms: ms, full_scan_is_estimate: isEstimate, full_scan_device: device }) =>
      ms == null
        ? ""
        : `full scan ${isEstimate ? "about " : ""}${scanTime(ms)} ms${device ? ` on ${device}` : ""}`,
    scale: Math.log,
  },
  {
    name: "margin",
    label: "|wᵀx|",
    parts: MARGIN_NAME,
    hint: MARGIN_HINT,
    unit: "",
    write: fixed(7),
    aside: marginAside,
    scale: Math.log,
  },
  {
    name: "scored",
    label: "Items scored",
    unit: "",
    write: whole,
    aside: scoredAside,
    scale: Math.log,
  },
  {
    name: "retrain_ms",
    label: "Retrain",
    brief: "retrain",
    unit: "ms",
    write: fixed(1),
    aside: trainingAside,
    scale: Math.log,
  },
  {
    name: "accuracy",
    label: "Held-out accuracy",
    unit: "%",
    write: (value) => fixed(1)(100 * value),
    aside: (notes) =>
      notes.always_no === null ? "" : `always “no”: ${(100 * notes.always_no).toFixed(1)} %`,
    scale: (value) => value,
    absent: (notes) => !notes.held_out,
  },
];

export class Notes {
  /** @type {Figure[]} */
  #figures;
  /** @type {ReturnType<typeof makeBrief>[]} */
  #briefs;
  /** @type {Tally} */
  #tally;
  /** @type {HTMLElement} */
  #chosen;
  /** @type {HTMLElement} */
  #advice;

  /** @param {HTMLElement} card */
  constructor(card) {
    const list = part(card, ".rows");
    const named = (/** @type {Row} */ row) => (row.hint ? [term(row.hint, ...nameOf(row))] : nameOf(row));
    this.#figures = ROWS.map((row) => new Figure(list, named(row), row.unit));
    this.#briefs = ROWS.slice(0, 4).map((row) => makeBrief(row, part(card, ".brief")));
    this.#tally = new Tally(card);
    this.#chosen = part(card, ".chosen");
    this.#advice = part(card, ".advice");
  }

  /** @param {{ notes: RoundNotes, history: History, round: number, item?: object | null }} view */
  show({ notes, history, round, item }) {
    ROWS.forEach((row, i) => {
      this.#figures[i].show({
        value: written(row, notes),
        aside: row.aside?.(notes),
        history: history[row.name],
        scale: row.scale,
        hidden: row.absent?.(notes) ?? false,
      });
    });
    this.#briefs.forEach(({ value, aside }, i) => {
      say(value, written(ROWS[i], notes) ?? ABSENT);
      if (aside) say(aside, ROWS[i].aside?.(notes) ?? "");
    });
    this.#tally.show(notes.counts);
    this.#showChosen(notes, round, item);
    this.#showAdvice(notes);
  }

  /** @param {RoundNotes} notes */
  #showAdvice({ advice, is_replaced: isReplaced }) {
    const sentence = isReplaced ? RESET : advice ? `You may stop here. ${advice}` : "";
    if (this.#advice.dataset.written === sentence) return;
    this.#advice.dataset.written = sentence;
    this.#advice.replaceChildren(sentence);
    if (isReplaced)
      this.#advice.append(" ", element("a", { href: pageOfProject() }, "Go to the new question"));
  }

  /**
   * @param {RoundNotes} notes
   * @param {number} round
   * @param {object | null | undefined} item
   */
  #showChosen(notes, round, item) {
    const [who, rest] = chosenBy(notes, round);
    const sentence = item ? `${notes.strategy} ${who}${rest}` : "";
    if (this.#chosen.dataset.written === sentence) return;
    this.#chosen.dataset.written = sentence;
    this.#chosen.replaceChildren();
    if (!item) return;
    const symbol = treeOf(this.#chosen).getElementById(`s-${notes.strategy}`) ? notes.strategy : "other";
    this.#chosen.append(glyph(`s-${symbol}`, `strategy ${symbol}`), element("strong", {}, who), rest);
  }
}

/**
 * @param {Row} row
 * @param {RoundNotes} notes
 */
function written(row, notes) {
  const value = notes[row.name];
  return value == null ? null : row.write(value);
}

/** @param {Row} row */
function nameOf(row) {
  return row.parts
    ? row.parts.map((part) => (typeof part === "string" ? part : part.cloneNode(true)))
    : [row.label];
}

/**
 * @param {Row} row
 * @param {Element} list
 */
function makeBrief(row, list) {
  const value = element("b");
  const unit = row.unit ? element("span", { className: "unit" }, row.unit) : "";
  const aside = row.brief || row.parts ? null : element("span");
  const below = element("small", {}, ...(aside ? [aside] : row.parts ? nameOf(row) : [row.brief ?? ""]));
  list.append(element("li", {}, element("span", {}, value, unit), below));
  return { value, aside };
}

/** Return the address of this page without a session: the page then opens the project's first question. */
function pageOfProject() {
  const project = new URLSearchParams(location.search).get("project") ?? "";
  return `${location.pathname}?project=${encodeURIComponent(project)}`;
}
