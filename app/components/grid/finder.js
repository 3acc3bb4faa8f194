// The search by name above the grid: the text, the number of matches and the page in view.

import { newId, part, partsOf, present, say } from "../shared/dom.js";
import { whole } from "../shared/figures.js";

/** @import { Search } from "../types" */

/** @typedef {{ text: string, first: number }} Wanted */

const TYPING = 250; // milliseconds without typing after which the search starts

export class Finder {
  /** @type {HTMLElement} */
  #card;
  /** @type {HTMLElement} */
  #place;
  /** @type {HTMLInputElement} */
  #field;
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
    this.#field = part(card, "input.search");
    this.#send = send;
    this.#field.addEventListener("input", () => this.#typed());
  }

  /** Return whether the images in view were found by name. */
  get isUsed() {
    return this.#search !== null;
  }

  close() {
    clearTimeout(this.#timer);
  }

  /**
   * Show the server's result.
   *
   * @param {Search | null | undefined} search null or undefined if the items were not found by name
   */
  show(search) {
    const isNew = search && !this.#search;
    this.#search = search ?? null;
    this.#place.hidden = !search;
    this.#card.dataset.finding = String(Boolean(search));
    if (!search) return;
    const { text, found, total, first, page } = search;
    if (isNew) {
      this.#field.value = text;
      if (!text) this.focus();
    }
    const isAnswered = !this.#asked || this.#asked.text === text;
    if (isAnswered) this.#card.removeAttribute("data-asked");
    say(
      part(this.#card, ".found"),
      text ? `${whole(found)} of ${whole(total)} ${total === 1 ? "item" : "items"}` : "",
    );
    part(this.#card, ".pager").hidden = found <= page;
    say(part(this.#card, ".place"), `${whole(first + 1)}–${whole(Math.min(first + page, found))}`);
    for (const button of partsOf(this.#card, "[data-turn]")) {
      button.setAttribute("aria-disabled", String(this.#pageAfter(Number(button.dataset.turn)) === null));
    }
  }

  /** Return a sentence for an empty result. */
  get absence() {
    const { text, found, total, like } = present(this.#search);
    if (!text) return `Type part of a name, such as “${like}”.`;
    if (found) return "";
    const words = text.split(" ");
    const contains = words.length > 1 ? `contains all of “${words.join("”, “")}”` : `contains “${text}”`;
    return `None of the ${whole(total)} names ${contains}. Names look like “${like}”.`;
  }

  focus() {
    this.#field.focus();
    this.#field.select();
  }

  /**
   * Return whether the event belongs to the field; Enter, Escape and arrow down give the keys back to the images.
   *
   * @param {KeyboardEvent} event
   */
  pressed(event) {
    if (event.composedPath()[0] !== this.#field) return false;
    if (event.key === "Escape" && this.#field.value) this.#field.value = "";
    else if (!["Escape", "Enter", "ArrowDown"].includes(event.key)) return true;
    event.preventDefault();
    this.#find();
    this.#field.blur();
    return true;
  }

  /**
   * Request the next or the previous page.
   *
   * @param {number} step 1 or -1
   */
  turn(step) {
    const first = this.#pageAfter(step);
    if (first !== null) this.#ask({ text: present(this.#search).text, first });
  }

  /** @param {number} step */
  #pageAfter(step) {
    const { found, first, page } = present(this.#search);
    const to = first + step * page;
    return to >= 0 && to < found ? to : null;
  }

  #typed() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#find(), TYPING);
  }

  #find() {
    clearTimeout(this.#timer);
    const text = this.#field.value.trim().split(/\s+/).join(" ");
    if (text !== (this.#asked?.text ?? present(this.#search).text)) this.#ask({ text, first: 0 });
  }

  /** @param {Wanted} asked */
  #ask(asked) {
    this.#asked = asked;
    this.#card.dataset.asked = "";
    this.#send({ id: newId(), ...asked });
  }
}
