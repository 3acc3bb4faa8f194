// What may be answered, and by which keys: yes or no to one question, or one of several classes. A class is a yes
// for its concept and a no for the others; to the concept whose turn comes next it is one or the other.

import { element, glyph } from "../shared/dom.js";

const NO = { action: "no", answer: "no", word: "No", key: "n", symbol: "g-no" };
const YES = { action: "yes", answer: "yes", word: "Yes", key: "y", symbol: "g-yes" };
const SKIP = { action: "skip", answer: "skip", word: "Skip", key: "s", symbol: "g-skip" };
const UNSURE = { action: "unsure", answer: "unsure", word: "Unsure", key: "m", symbol: "g-unsure" };
const NONE = { action: "none", answer: "no", word: "None", symbol: "g-no" };

const ALWAYS = {
  s: "skip",
  m: "unsure",
  "?": "unsure",
  u: "undo",
  arrowdown: "skip",
  arrowup: "unsure",
  backspace: "undo",
};
const YES_OR_NO = { ...ALWAYS, y: "yes", n: "no", arrowright: "yes", arrowleft: "no" };

export class Choices {
  #card;
  #classes = null;
  #keys = YES_OR_NO;
  list = [NO, YES, SKIP, UNSURE];

  constructor(card) {
    this.#card = card;
  }

  /** Whether classes are asked for, rather than yes or no. */
  get areClasses() {
    return this.#classes !== null;
  }

  /** `classes` are those that the server offers; undefined where it asks for yes or no. */
  update(classes) {
    if (!classes || JSON.stringify(classes) === JSON.stringify(this.#classes)) return;
    this.#classes = classes;
    const chosen = classes.map(({ key, concept, name }) => {
      return { action: `class-${concept}`, answer: "yes", concept, word: name, key };
    });
    const zeroIsFree = chosen.every(({ key }) => key !== "0");
    const none = { ...NONE, key: zeroIsFree ? "0" : "n", keys: zeroIsFree ? "0 N" : "N" };
    this.list = [...chosen, none, SKIP, UNSURE];
    const keys = [...chosen, none].map(({ key, action }) => [key, action]);
    this.#keys = { ...ALWAYS, n: "none", ...Object.fromEntries(keys) };
    this.#layOut([...chosen, none]);
  }

  /** What a key does; undefined for one that does nothing. */
  byKey(key) {
    return this.#keys[key.toLowerCase()];
  }

  /** What the server is told of an action. */
  given(action) {
    const { answer, concept = null } = this.list.find((choice) => choice.action === action) ?? {
      answer: action,
    };
    if (!this.areClasses) return { answer };
    return { answer, concept, classes: this.#classes.map((one) => one.concept) };
  }

  /** What an action says to one of the concepts. */
  means(action, concept) {
    const given = this.given(action);
    return given.answer === "yes" && this.areClasses && given.concept !== concept ? "no" : given.answer;
  }

  /** The choice that an answer was; it may be a class that is offered no more. */
  of({ answer, concept = null }) {
    const found = this.list.find(
      (choice) => choice.answer === answer && (choice.concept ?? null) === concept,
    );
    return found ?? { action: "", answer, concept, word: answer };
  }

  /** How a choice is called in a sentence. */
  said(given) {
    const { concept, word } = this.of(given);
    return concept ? word : word.toLowerCase();
  }

  #layOut(choices) {
    const answers = this.#card.querySelector(".answers");
    answers.classList.add("classes");
    answers.setAttribute("aria-label", "Class");
    answers.replaceChildren(...choices.map(makeButton));
    const wide = choices.length > 5 ? Math.ceil(choices.length / 2) : choices.length;
    const narrow = choices.length === 4 ? 2 : 3;
    this.#card.style.setProperty("--columns", wide);
    this.#card.style.setProperty("--narrow-columns", narrow);
    this.#card.dataset.rows = Math.ceil(choices.length / wide);
    this.#card.dataset.narrowRows = Math.ceil(choices.length / narrow);
    if (this.#card.querySelector(".tools .skip")) return;
    const skip = element("button", {
      type: "button",
      className: "tool skip",
      "aria-keyshortcuts": "S ArrowDown",
    });
    skip.dataset.answer = "skip";
    skip.append(...inside(SKIP));
    this.#card.querySelector(".tools .undo").after(skip);
  }
}

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

function inside({ word, key, symbol }) {
  const mark = symbol ? [glyph(symbol)] : [];
  return [...mark, element("span", {}, word), element("kbd", {}, key.toUpperCase())];
}
