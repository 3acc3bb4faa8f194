// The help card: what a page is for, its keys and what they do. It opens and closes with "?". While it is open, no key
// answers.

import { element, treeOf } from "./dom.js";
import { hasKeys, isField, isShortcut } from "./keys.js";
import { applySize, isLarge, setLarge } from "./size.js";

/** @typedef {[keys: string[], what: string]} Row keys that do the same, and what they do */

/** @typedef {{ about: string, keys?: Row[] }} Page a sentence about the page, and the keys that can be used now */

/** @type {Row} */
const OWN = [["?"], "this card"];

export class Help {
  #dialog = element("dialog", { className: "help" });
  /** @type {() => Page} */
  #page;

  /**
   * Create the card; `page()` is called when the card is opened.
   *
   * @param {HTMLElement} card
   * @param {() => Page} page
   */
  constructor(card, page) {
    this.#page = page;
    card.append(this.#dialog);
    const opener = element("button", { type: "button", className: "link keys", "aria-keyshortcuts": "?" });
    opener.append(titleOf(page()), element("kbd", {}, "?"));
    opener.addEventListener("click", () => this.open());
    (card.querySelector(".notes") ?? card).append(opener);
    this.#dialog.addEventListener("click", (event) => {
      if (event.target === this.#dialog) this.close(); // beside the card
    });
  }

  /**
   * Listen to the keyboard, for a page without keys of its own.
   *
   * @param {object} owner the component, which must have taken the keys
   * @param {AbortSignal} signal
   */
  listen(owner, signal) {
    /** @type {(event: KeyboardEvent) => void} */
    const pressed = (event) => {
      if (hasKeys(owner) && !isShortcut(event) && !isField(event)) this.pressed(event);
    };
    document.addEventListener("keydown", pressed, { signal });
  }

  get isOpen() {
    return this.#dialog.open;
  }

  open() {
    const page = this.#page();
    const list = [...(page.keys ?? []), OWN].map(([keys, what]) =>
      element(
        "div",
        {},
        element("dt", {}, ...keys.map((key) => element("kbd", {}, key))),
        element("dd", {}, what),
      ),
    );
    const size = element("input", { type: "checkbox", checked: isLarge() });
    size.addEventListener("change", () => {
      setLarge(size.checked);
      applySize(treeOf(this.#dialog).host);
    });
    const close = element("button", { type: "button", className: "tool close" }, "Close");
    close.addEventListener("click", () => this.close());
    this.#dialog.setAttribute("aria-label", titleOf(page));
    this.#dialog.replaceChildren(
      element("h2", {}, titleOf(page)),
      element("p", {}, page.about),
      element("dl", {}, ...list),
      element("label", {}, size, "Large figures and texts, to be read from afar"),
      close,
    );
    this.#dialog.showModal();
    close.focus();
  }

  close() {
    this.#dialog.close();
  }

  /**
   * Handle a key; return true if no other part of the page may act on it. Keys of the card's own controls keep their
   * default action.
   *
   * @param {KeyboardEvent} event
   */
  pressed(event) {
    if (event.key === "?" && !event.repeat) {
      if (this.isOpen) this.close();
      else this.open();
    } else if (!this.isOpen) return false;
    else if (event.key === "Escape") this.close();
    else return true;
    event.preventDefault();
    return true;
  }
}

/** @param {Page} page */
function titleOf({ keys }) {
  return keys ? "Keys" : "Help";
}
