// What may be answered, and by which keys: yes or no to one question, or one of several classes. A class is a yes
// for its concept and a no for the others; to the concept whose turn comes next it is one or the other.

import { element, glyph, part } from "../shared/dom.js";

/** @import { Class, Standing, StripEntry, Word, WordOrUndo } from "../types" */

/**
 * What may be chosen; `concept` is the class's.
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

/** @type {Record<string, string>} */
const ALWAYS = {
  s: "skip",
  m: "unsure",
  "?": "unsure",
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

  /** Whether classes are asked for, rather than yes or no. */
  get areClasses() {
    return this.#classes !== null;
  }

  /**
   * `classes` are those that the server offers; undefined where it asks for yes or no.
   *
   * @param {Class[] | undefined} classes
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
   * What a key does; undefined for one that does nothing.
   *
   * @param {string} key
   * @returns {string | undefined}
   */
  byKey(key) {
    return this.#keys[key.toLowerCase()];
  }

  /**
   * The part of an answer that an action decides, as the server gets it.
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
   * What an action says to one of the concepts.
   *
   * @param {string} action
   * @param {number | undefined} concept
   */
  means(action, concept) {
    const given = this.given(action);
    return given.answer === "yes" && this.areClasses && given.concept !== concept ? "no" : given.answer;
  }

  /**
   * The choice that an answer was; it may be a class that is offered no more.
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
   * How a choice is called in a sentence.
   *
   * @param {{ answer: WordOrUndo, concept?: number | null }} given
   */
  said(given) {
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
