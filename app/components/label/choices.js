// The possible answers and their keys: yes or no to one question, or one of several classes. A class means yes for its
// concept and no for the others. For the concept that selects next, a class therefore means yes or no.

import { element, glyph, part } from "../shared/dom.js";

/** @import { CardData, Class, Standing, StripEntry, Word, WordOrUndo } from "../types" */

/**
 * A possible answer; `concept` belongs to a class.
 *
 * @typedef {object} Choice
 * @property {string} action
 * @property {WordOrUndo} answer
 * @property {string} word
 * @property {string} key
 * @property {string} [keys]
 * @property {string} [symbol]
 * @property {number | null} [concept]
 */

/** @typedef {{ answer: WordOrUndo, concept?: number | null, classes?: number[] }} Given */

/** @type {Choice} */
const NO = { action: "no", answer: "no", word: "No", key: "n", symbol: "g-no" };
/** @type {Choice} */
const YES = { action: "yes", answer: "yes", word: "Yes", key: "y", symbol: "g-yes" };
/** @type {Choice} */
const SKIP = { action: "skip", answer: "skip", word: "Skip", key: "s", symbol: "g-skip" };
/** @type {Choice} */
const UNSURE = { action: "unsure", answer: "unsure", word: "Unsure", key: "m", symbol: "g-unsure" };
/** @type {Choice} */
const NONE = { action: "none", answer: "no", word: "None", key: "0", symbol: "g-no" };

// The keys of the choices and of undo that are not on their buttons.
/** @type {Record<string, string>} */
const ARROWS = { no: "←", yes: "→", skip: "↓", unsure: "↑" };

/** @type {Record<string, string>} */
const ALWAYS = {
  s: "skip",
  m: "unsure",
  u: "undo",
  arrowdown: "skip",
  arrowup: "unsure",
  backspace: "undo",
};
/** @type {Record<string, string>} */
const YES_OR_NO = { ...ALWAYS, y: "yes", n: "no", arrowright: "yes", arrowleft: "no" };

export class Choices {
  /** @type {HTMLElement} */
  #card;
  /** @type {Class[] | null} */
  #classes = null;
  /** @type {Record<string, string>} */
  #keys = YES_OR_NO;
  /** @type {Choice[]} */
  list = [NO, YES, SKIP, UNSURE];

  /** @param {HTMLElement} card */
  constructor(card) {
    this.#card = card;
  }

  /** Return whether the choices are classes rather than yes and no. */
  get areClasses() {
    return this.#classes !== null;
  }

  /**
   * Take the classes that the server offers.
   *
   * @param {Class[] | undefined} classes undefined for yes or no
   */
  update(classes) {
    if (!classes || JSON.stringify(classes) === JSON.stringify(this.#classes)) return;
    this.#classes = classes;
    /** @type {(one: Class) => Choice} */
    const choiceOf = ({ key, concept, name }) => {
      return { action: `class-${concept}`, answer: "yes", concept, word: name, key };
    };
    const chosen = classes.map(choiceOf);
    const zeroIsFree = chosen.every(({ key }) => key !== "0");
    const none = { ...NONE, key: zeroIsFree ? "0" : "n", keys: zeroIsFree ? "0 N" : "N" };
    this.list = [...chosen, none, SKIP, UNSURE];
    const keys = [...chosen, none].map(({ key, action }) => [key, action]);
    this.#keys = { ...ALWAYS, n: "none", ...Object.fromEntries(keys) };
    this.#layOut([...chosen, none]);
  }

  /**
   * Return the action of a key, or undefined.
   *
   * @param {string} key
   * @returns {string | undefined}
   */
  byKey(key) {
    return this.#keys[key.toLowerCase()];
  }

  /** Return a sentence about the card, for the help card. */
  get about() {
    const what = this.areClasses
      ? "Choose the class of the item in view"
      : "Answer the question about the item in view";
    return `${what}; the next item follows at once.`;
  }

  /**
   * Return all keys of the card, for the help card.
   *
   * @param {Pick<CardData, "has_groups" | "item">} data
   * @returns {[keys: string[], what: string][]}
   */
  keys({ has_groups: hasGroups, item }) {
    return /** @type {[string[], string][]} */ ([
      ...this.list.map(({ action, concept, word, key, keys }) => [
        [...(keys ?? key.toUpperCase()).split(" "), ...(ARROWS[action] ?? "")],
        concept ? word : word.toLowerCase(),
      ]),
      ...(hasGroups && !this.areClasses ? [[["⇧Y", "⇧N"], "yes or no for all near-duplicates shown"]] : []),
      [["U", "⌫"], "undo the last answer or correction"],
      [["Z"], "zoom in at the mouse, or out; a click and the wheel zoom as well"],
      [["⇧←", "⇧→"], "move a zoomed image"],
      ...(item?.text ? [[["PgUp", "PgDn"], "scroll the text"]] : []),
      [["/"], "find items by name"],
    ]);
  }

  /**
   * Return the fields of an answer that an action determines, as they are sent to the server.
   *
   * @param {string} action
   * @returns {Given}
   */
  given(action) {
    const { answer, concept = null } = this.list.find((choice) => choice.action === action) ?? {
      answer: /** @type {WordOrUndo} */ (action), // such as undo
    };
    if (!this.#classes) return { answer };
    return { answer, concept, classes: this.#classes.map((one) => one.concept) };
  }

  /**
   * Return the answer that an action gives for one of the concepts.
   *
   * @param {string} action
   * @param {number | undefined} concept
   */
  means(action, concept) {
    const given = this.given(action);
    return given.answer === "yes" && this.areClasses && given.concept !== concept ? "no" : given.answer;
  }

  /**
   * Return the choice of a given answer, which may be a class that is no longer offered.
   *
   * @param {{ answer: WordOrUndo, concept?: number | null }} given
   * @returns {Choice}
   */
  of({ answer, concept = null }) {
    const found = this.list.find(
      (choice) => choice.answer === answer && (choice.concept ?? null) === concept,
    );
    return found ?? { action: "", answer, concept, word: answer, key: "" };
  }

  /**
   * Return the name of a given answer within a sentence.
   *
   * @param {{ answer: WordOrUndo, concept?: number | null }} given
   */
  nameOf(given) {
    const { concept, word } = this.of(given);
    return concept ? word : word.toLowerCase();
  }

  /** @param {Choice[]} choices */
  #layOut(choices) {
    const answers = part(this.#card, ".answers");
    answers.classList.add("classes");
    answers.setAttribute("aria-label", "Class");
    answers.replaceChildren(...choices.map(makeButton));
    const wide = choices.length > 5 ? Math.ceil(choices.length / 2) : choices.length;
    const narrow = choices.length === 4 ? 2 : 3;
    this.#card.style.setProperty("--columns", String(wide));
    this.#card.style.setProperty("--narrow-columns", String(narrow));
    this.#card.dataset.rows = String(Math.ceil(choices.length / wide));
    this.#card.toggleAttribute("data-many", choices.length > 4);
    this.#card.dataset.narrowRows = String(Math.ceil(choices.length / narrow));
    if (this.#card.querySelector(".tools .skip")) return;
    const skip = element("button", {
      type: "button",
      className: "tool skip",
      "aria-keyshortcuts": "S ArrowDown",
    });
    skip.dataset.answer = "skip";
    skip.append(...inside(SKIP));
    part(this.#card, ".tools .undo").after(skip);
  }
}

/** @param {Choice} choice */
function makeButton(choice) {
  const button = element("button", {
    type: "button",
    className: `answer ${choice.answer}`,
    title: choice.word,
  });
  button.dataset.answer = choice.action;
  button.setAttribute("aria-keyshortcuts", choice.keys ?? choice.key);
  button.append(...inside(choice));
  return button;
}

/** @param {Choice} choice */
function inside({ word, key, symbol }) {
  const mark = symbol ? [glyph(symbol)] : [];
  return [...mark, element("span", {}, word), element("kbd", {}, key.toUpperCase())];
}
