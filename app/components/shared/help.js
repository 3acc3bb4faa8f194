// The help card: the keys of a page and what they do. It opens and closes with "?". While it is open, no key answers.

import { element, treeOf } from "./dom.js";
import { applySize, isLarge, setLarge } from "./size.js";

/** @typedef {[keys: string[], what: string]} Row keys that do the same, and what they do */

export class Help {
  #dialog = element("dialog", { className: "help", "aria-label": "Keys" });
  /** @type {() => Row[]} */
  #rows;

  /**
   * Create the card; `rows()` returns the keys that can be used when it is opened.
   *
   * @param {HTMLElement} card
   * @param {() => Row[]} rows
   */
  constructor(card, rows) {
    this.#rows = rows;
    card.append(this.#dialog);
    const opener = element("button", { type: "button", className: "link keys", "aria-keyshortcuts": "?" });
    opener.append("Keys", element("kbd", {}, "?"));
    opener.addEventListener("click", () => this.open());
    card.querySelector(".notes")?.append(opener);
    this.#dialog.addEventListener("click", (event) => {
      if (event.target === this.#dialog) this.close(); // beside the card
    });
  }

  get isOpen() {
    return this.#dialog.open;
  }

  open() {
    const list = this.#rows().map(([keys, what]) =>
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
    this.#dialog.replaceChildren(
      element("h2", {}, "Keys"),
      element("dl", {}, ...list),
      element("label", {}, size, "Large figures, to be read from afar"),
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
