// One item of the list: its picture, its answers, its side of the hyperplane, and the answer buttons.

import { alikeAddress } from "../shared/alike.js";
import { element, glyph, say, sayWithEnd } from "../shared/dom.js";
import { isDecision } from "../shared/queue.js";
import { absenceOf } from "../shared/text.js";
import { clock, seconds } from "./times.js";

/** @import { Answer, ReviewEvent, ReviewRow, Word, WordOrUndo } from "../types" */

/** @typedef {{ id: string, answer: WordOrUndo, saving: boolean }} Given */

/** @type {{ answer: Word, word: string }[]} */
const CHOICES = [
  { answer: "no", word: "No" },
  { answer: "skip", word: "Skip" },
  { answer: "unsure", word: "Unsure" },
  { answer: "yes", word: "Yes" },
];
/** @type {Record<string, string>} */
const WORDS = { no: "no", skip: "skipped", unsure: "unsure", yes: "yes" };
const MINUS = "\u2212";
const ALIKE = "Items like this one (L)";

/**
 * Return an annotator's answers about an item, oldest first, without undone ones, and with those waiting to be saved.
 * The decisions of an owner count as another annotator's.
 *
 * @param {Pick<ReviewEvent, "id" | "answer" | "undoes" | "annotator">[]} events
 * @param {string} annotator
 * @param {Pick<Answer, "id" | "answer" | "selection" | "undoes" | "corrects">[]} pending
 * @returns {Given[]}
 */
export function standing(events, annotator, pending) {
  const undone = new Set(events.map((event) => event.undoes));
  const own = events.filter(
    (event) => event.annotator === annotator && event.answer !== "undo" && !undone.has(event.id),
  );
  const stack = own.map(({ id, answer }) => ({ id, answer, saving: false }));
  const others = new Set(events.filter((event) => event.annotator !== annotator).map(({ id }) => id));
  for (const given of pending) {
    const { id, answer, undoes, corrects } = given;
    if (isDecision(given) || others.has(undoes ?? corrects ?? "")) others.add(id);
    else if (answer === "undo") {
      const place = stack.findIndex((one) => one.id === undoes);
      if (place >= 0) stack.splice(place, 1);
    } else if (!stack.some((one) => one.id === id)) stack.push({ id, answer, saving: true });
  }
  return stack;
}

/** @param {Pick<Answer, "undoes" | "corrects">} given */
const changesSomething = ({ undoes, corrects }) => Boolean(undoes ?? corrects);

export class Row {
  /** @param {number} item */
  constructor(item) {
    this.item = item;
    this.lacksPicture = true; // the server sends it only once
    this.picture = element("img", { className: "picture", alt: "", draggable: false });
    this.name = element("strong", { className: "name" });
    this.by = element("button", { type: "button", className: "by", "aria-expanded": "false" });
    this.by.dataset.history = "";
    this.figure = element("span", { className: "figure" });
    this.bar = element("i", { className: "size" });
    this.score = element("span", { className: "score" }, this.bar, this.figure);
    this.buttons = CHOICES.map(makeButton);
    const group = element("span", { className: "choices", role: "group" }, ...this.buttons);
    this.alike = element("a", { className: "alike", target: "_self", title: ALIKE }, this.picture);
    const what = element("span", { className: "what" }, this.name, this.by);
    this.history = element("ol", { className: "history", hidden: true });
    this.place = element("li", { className: "row" }, this.alike, what, this.score, group, this.history);
    this.place.dataset.item = String(item);
    this.group = group;
    /** @type {Given[]} */
    this.stack = [];
    /** @type {Given | null} */
    this.mine = null;
    /** @type {string | null} */
    this.decidedBy = null; // another owner, whose decision only they can change
    this.spoken = "";
  }

  /**
   * Show the row's data.
   *
   * @param {ReviewRow} row
   * @param {string} annotator
   * @param {Answer[]} pending
   * @param {number} scale the score with the longest bar
   */
  show({ item, name, src, score, events }, annotator, pending, scale) {
    if (src) this.picture.src = src;
    if (src !== null) {
      this.alike.classList.toggle("lacking", !src);
      this.alike.title = src ? ALIKE : absenceOf({ alt: name });
    }
    this.lacksPicture = src === null && this.lacksPicture;
    sayWithEnd(this.name, name);
    this.alike.href = alikeAddress(item);
    this.alike.setAttribute("aria-label", `Items like ${name}`);
    const decision = events.filter((event) => event.in_force && event.decides !== null).at(-1);
    const isOwn = decision?.decides === annotator;
    const voice = isOwn ? decision.annotator : annotator;
    this.decidedBy = isOwn ? null : (decision?.decides ?? null);
    this.stack = standing(events, voice, isOwn ? pending.filter(changesSomething) : pending);
    this.mine = this.stack.at(-1) ?? null;
    const others = events.filter((event) => event.in_force && event.annotator !== voice);
    this.#showAnswers(others, name);
    this.#showScore(score, scale);
    say(this.by, byline(item, name, events, this.mine));
    this.#showHistory(events);
    this.place.dataset.saving = String(this.mine?.saving ?? false);
    this.spoken = `${name}. ${this.mine ? `You said ${WORDS[this.mine.answer]}. ` : ""}${modelSays(score)}`;
  }

  /**
   * Mark or unmark the row as the one that keys act on; only its buttons can be reached with Tab.
   *
   * @param {boolean} current
   */
  mark(current) {
    if (current) this.place.setAttribute("aria-current", "true");
    else this.place.removeAttribute("aria-current");
    for (const button of [this.alike, this.by, ...this.buttons]) button.tabIndex = current ? 0 : -1;
  }

  toggleHistory() {
    this.history.hidden = !this.history.hidden;
    this.by.setAttribute("aria-expanded", String(!this.history.hidden));
  }

  /**
   * @param {ReviewEvent[]} others
   * @param {string} name
   */
  #showAnswers(others, name) {
    this.group.setAttribute("aria-label", `Your answer about ${name}`);
    for (const button of this.buttons) {
      const { answer } = button.dataset;
      button.setAttribute("aria-pressed", String(this.mine?.answer === answer));
      const annotators = others.filter((event) => event.answer === answer).map((event) => event.annotator);
      button.dataset.others = String(annotators.length > 0);
      button.title = annotators.length ? `${annotators.join(", ")}: ${WORDS[answer ?? ""]}` : "";
    }
  }

  /**
   * @param {number | null} score
   * @param {number} scale
   */
  #showScore(score, scale) {
    this.place.dataset.side = score === null ? "" : score > 0 ? "yes" : "no";
    this.bar.style.setProperty("--size", String(score === null ? 0 : Math.abs(score) / scale));
    say(this.figure, score === null ? "" : signed(score));
  }

  /** @param {ReviewEvent[]} events */
  #showHistory(events) {
    const given = new Map(events.map((event) => [event.id, event.answer]));
    const undone = new Set(events.map((event) => event.undoes));
    const lines = events.map((event) => {
      const undo = event.answer === "undo";
      const what = undo ? `took back “${WORDS[given.get(event.undoes ?? "") ?? ""]}”` : WORDS[event.answer];
      const more = [
        event.is_correction ? "correction" : "",
        event.round === null ? "" : `round ${event.round}, chosen by ${event.chosen_by}`,
        event.taken_ms === null ? "" : seconds(event.taken_ms),
      ].filter(Boolean);
      const line = element(
        "li",
        {},
        element("time", {}, clock(event.time)),
        element("b", {}, event.annotator),
      );
      line.append(
        element("span", { className: event.answer }, glyph(`g-${event.answer}`), what),
        more.join(", "),
      );
      line.classList.toggle("undone", undone.has(event.id));
      return line;
    });
    this.history.replaceChildren(...lines);
  }
}

/** @param {{ answer: Word, word: string }} choice */
function makeButton({ answer, word }) {
  const button = element("button", { type: "button", className: `choice ${answer}`, "aria-label": word });
  button.dataset.answer = answer;
  button.append(glyph(`g-${answer}`), element("span", {}, word));
  return button;
}

/** @param {number} score */
const signed = (score) => `${score < 0 ? MINUS : "+"}${Math.abs(score).toFixed(2)}`;

/** @param {number | null} score */
function modelSays(score) {
  return score === null ? "" : `The model says ${score > 0 ? "yes" : "no"}, ${Math.abs(score).toFixed(2)}.`;
}

/**
 * Describe who answered and when: "ada, 14:02, 0.4 s, round 91".
 *
 * @param {number} item
 * @param {string} name
 * @param {ReviewEvent[]} events
 * @param {Given | null} mine
 */
export function byline(item, name, events, mine) {
  const now = events.filter((event) => event.in_force);
  const isInName = name.match(/\d+/g)?.includes(String(item)); // as in "digit 12", not as in "image_0012.jpg"
  const known = isInName ? [] : [`item ${item}`];
  if (now.length > 1)
    return [...known, ...now.map((event) => `${event.annotator} ${WORDS[event.answer]}`)].join(", ");
  const [last] = now;
  if (!last) return [...known, mine ? "being saved" : "no answer any more"].join(", ");
  const parts = [...known, last.annotator, clock(last.time)];
  if (last.is_correction) {
    const before = standing(events, last.annotator, []).at(-2); // an undone correction doesn't count
    return [...parts, before ? `corrected from ${WORDS[before.answer]}` : "corrected"].join(", ");
  }
  if (last.taken_ms !== null) parts.push(seconds(last.taken_ms));
  if (last.round !== null) parts.push(`round ${last.round}`);
  return parts.join(", ");
}
