// The search above items that were found by name: what is looked for, how many are called so, and the page in view.

import { newId, part, partsOf, present, say } from "../shared/dom.js";
import { whole } from "../shared/figures.js";

/** @import { Search } from "../types" */

/** @typedef {{ text: string, first: number }} Wanted */

const TYPING = 250; // milliseconds: a pause in typing after which the search begins

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
  #search = null; // the server's last word
  /** @type {Wanted | null} */
  #asked = null;
  /** @type {number | undefined} */
  #timer;

  /**
   * `send(asked)` asks the server for another search or page.
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

  /** Whether the images in view were found by name. */
  get isUsed() {
    return this.#search !== null;
  }

  close() {
    clearTimeout(this.#timer);
  }

  /**
   * What the server says of the search; null where there is none.
   *
   * @param {Search | null | undefined} search
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

  /** A sentence where there is nothing to show. */
  get absence() {
    const { text, found, total, like } = present(this.#search);
    if (!text) return `Type a part of a name. Here they are like “${like}”.`;
    if (found) return "";
    const words = text.split(" ");
    const contains = words.length > 1 ? `contains all of “${words.join("”, “")}”` : `contains “${text}”`;
    return `None of the ${whole(total)} names ${contains}. They are like “${like}”.`;
  }

  focus() {
    this.#field.focus();
    this.#field.select();
  }

  /**
   * True if the event is about the field; Enter and Escape give the keys back to the images.
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
   * Ask for the next page, or for the one before.
   *
   * @param {number} step
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
