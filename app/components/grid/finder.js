// The search above the grid, by name or by words: the texts, the number of items found and the page in view. Items in a
// lasso on the map, and items chosen by predictions, have neither texts nor pages.

import { newId, part, partsOf, present, say } from "../shared/dom.js";
import { whole } from "../shared/figures.js";
import { takeTyped } from "../shared/keys.js";

/** @import { Search } from "../types" */

/** @typedef {{ text: string, excluded: string }} Texts */
/** @typedef {Texts & { first: number }} Wanted */

const TYPING = 250; // milliseconds without typing after which a search by name starts

const DESCRIBE = "Describe what to find, such as “a fox at night”, and press Enter.";

export class Finder {
  /** @type {HTMLElement} */
  #card;
  /** @type {HTMLElement} */
  #place;
  /** @type {HTMLInputElement} */
  #field;
  /** @type {HTMLInputElement} */
  #without;
  /** @type {(asked: Wanted & { id: string }) => void} */
  #send;
  /** @type {Search | null} */
  #search = null; // as the server last sent it
  /** @type {Wanted | null} */
  #asked = null;
  /** @type {number | undefined} */
  #timer;

  /**
   * Create the search; `send(asked)` requests another search or page from the server.
   *
   * @param {HTMLElement} card
   * @param {(asked: Wanted & { id: string }) => void} send
   */
  constructor(card, send) {
    this.#card = card;
    this.#place = part(card, ".finder");
    this.#field = part(card, "input.what");
    this.#without = part(card, "input.without");
    this.#send = send;
    this.#field.addEventListener("input", () => this.#typed());
    for (const field of this.#fields) {
      field.addEventListener("focus", () => this.#showTyping(true));
      field.addEventListener("blur", () => this.#showTyping(false));
    }
  }

  /** Return whether the images in view were found by a search. */
  get isUsed() {
    return this.#search !== null;
  }

  close() {
    clearTimeout(this.#timer);
  }

  /**
   * Show the server's result.
   *
   * @param {Search | null | undefined} search null or undefined if the items were not searched for
   */
  show(search) {
    const isNew = search && !this.#search;
    this.#search = search ?? null;
    this.#place.hidden = !search;
    this.#card.dataset.finding = String(Boolean(search));
    if (!search) return;
    const { text, found, first, page, words } = search;
    const isTyped = hasText(search);
    if (isNew) {
      this.#prepare(search);
      const typed = takeTyped();
      if (isTyped && !text) this.focus();
      if (isTyped && !text && typed) {
        this.#field.value = typed;
        this.#typed();
      }
    }
    if (!this.#asked || areSame(this.#asked, textsOf(search))) this.#card.removeAttribute("data-asked");
    const isDone = isTyped ? text && !words?.problem : !search.lasso?.problem;
    say(part(this.#card, ".found"), isDone ? countOf(search) : "");
    part(this.#card, ".pager").hidden = !isTyped || found <= page;
    say(part(this.#card, ".place"), `${whole(first + 1)}–${whole(Math.min(first + page, found))}`);
    for (const button of partsOf(this.#card, "[data-turn]")) {
      button.setAttribute("aria-disabled", String(this.#pageAfter(Number(button.dataset.turn)) === null));
    }
  }

  /**
   * Set up the fields for a search by name or by words, if it is one.
   *
   * @param {Search} search
   */
  #prepare(search) {
    const { text, longest, words } = search;
    this.#field.hidden = !hasText(search);
    this.#field.value = text;
    this.#field.placeholder = words ? "Describe what to find" : "Find by name";
    this.#field.setAttribute("aria-label", words ? "Describe what to find" : "Find items by their names");
    this.#without.value = words?.excluded ?? "";
    part(this.#card, ".except").hidden = !words;
    for (const field of this.#fields) field.maxLength = longest;
  }

  get #fields() {
    return [this.#field, this.#without];
  }

  /** Return a sentence for an empty result. */
  get absence() {
    const { text, found, total, like, words, lasso, predicted } = present(this.#search);
    if (predicted) return predicted.none;
    if (lasso) return lasso.problem ?? "No item in the lasso is left to answer.";
    if (words) return words.problem ?? (text ? "" : DESCRIBE);
    if (!text) return `Type part of a name, such as “${like}”.`;
    if (found) return "";
    const parts = text.split(" ");
    const contains = parts.length > 1 ? `contains all of “${parts.join("”, “")}”` : `contains “${text}”`;
    return `None of the ${whole(total)} names ${contains}. Names look like “${like}”.`;
  }

  focus() {
    this.#field.focus();
    this.#field.select();
  }

  /**
   * Return whether the event belongs to a field; Enter, Escape and arrow down give the keys back to the images.
   *
   * @param {KeyboardEvent} event
   */
  pressed(event) {
    const field = this.#fields.find((one) => one === event.composedPath()[0]);
    if (!field) return false;
    if (event.key === "Escape" && field.value) field.value = "";
    else if (!["Escape", "Enter", "ArrowDown"].includes(event.key)) return true;
    event.preventDefault();
    this.#find();
    field.blur();
    return true;
  }

  /**
   * Request the next or the previous page.
   *
   * @param {number} step 1 or -1
   */
  turn(step) {
    const first = this.#pageAfter(step);
    if (first !== null) this.#ask({ ...textsOf(present(this.#search)), first });
  }

  /** @param {number} step */
  #pageAfter(step) {
    const search = present(this.#search);
    if (!hasText(search)) return null;
    const { found, first, page } = search;
    const to = first + step * page;
    return to >= 0 && to < found ? to : null;
  }

  /**
   * Say in the list of keys that they work only after Enter, as long as a field has the focus.
   *
   * @param {boolean} isTyping
   */
  #showTyping(isTyping) {
    this.#card.dataset.typing = String(isTyping);
  }

  /** Start a search by name once the typing pauses; a search by words starts only with Enter. */
  #typed() {
    clearTimeout(this.#timer);
    if (this.#search?.words) return;
    this.#timer = setTimeout(() => this.#find(), TYPING);
  }

  #find() {
    clearTimeout(this.#timer);
    const [text, excluded] = this.#fields.map(({ value }) => value.trim().split(/\s+/).join(" "));
    const texts = { text, excluded };
    if (!areSame(texts, this.#asked ?? textsOf(present(this.#search)))) this.#ask({ ...texts, first: 0 });
  }

  /** @param {Wanted} asked */
  #ask(asked) {
    this.#asked = asked;
    this.#card.dataset.asked = "";
    this.#send({ id: newId(), ...asked });
  }
}

/**
 * @param {Search} search
 * @returns {Texts}
 */
function textsOf({ text, words }) {
  return { text, excluded: words?.excluded ?? "" };
}

/**
 * @param {Texts} one
 * @param {Texts} other
 */
function areSame(one, other) {
  return one.text === other.text && one.excluded === other.excluded;
}

/** @param {Search} search */
function hasText({ lasso, predicted }) {
  return !(lasso || predicted);
}

/** @param {Search} search */
function countOf({ found, total, words, lasso, predicted }) {
  if (predicted) return predicted.how;
  const items = total === 1 ? "item" : "items";
  if (lasso) return `${whole(found)} of ${whole(total)} ${items} in the lasso left to answer`;
  if (!words) return `${whole(found)} of ${whole(total)} ${items}`;
  return found < total
    ? `The ${whole(found)} nearest of ${whole(total)} ${items}`
    : `${whole(total)} ${items}, nearest first`;
}
