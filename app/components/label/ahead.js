// The views that follow each answer to the image in view. Their images are decoded in advance, so that the next
// frame can show them.

import { element } from "../shared/dom.js";
import { sheet } from "../shared/text.js";

/** @import { Following, Item } from "../types" */

/**
 * An element that shows an item and can be decoded before it is in the page.
 *
 * @typedef {HTMLElement & { decode(): Promise<void> }} Picture
 */

/** @typedef {{ view: Following, image: Picture, isDecoded: boolean }} Coming */

/**
 * Return the element that shows an item's image or text in the frame.
 *
 * @param {Item} item
 * @returns {Picture}
 */
export function picture({ alt, src, text }) {
  return text ? inFrame(sheet(alt, text)) : element("img", { alt, src, className: "item", draggable: false });
}

/**
 * @param {HTMLElement} made
 * @returns {Picture}
 */
function inFrame(made) {
  made.classList.add("item");
  return Object.assign(made, { decode: async () => {} });
}

export class Ahead {
  /** @type {(item: Item) => Picture} */
  #picture;
  /** @type {string | null} */
  #selection = null;
  /** @type {Map<string, Coming>} */
  #coming = new Map(); // by answer

  /**
   * Create an empty store; `picture(item)` returns an element that can be decoded.
   *
   * @param {(item: Item) => Picture} picture
   */
  constructor(picture) {
    this.#picture = picture;
  }

  /**
   * Take the views that the server has computed so far for the selection in view, and decode their images.
   *
   * The server sends views as they become ready. Views that are known already stay as they are, unless the server has
   * computed one of them again: then the others are out of date, too.
   *
   * @param {string} selection
   * @param {Record<string, Following>} next the view after each answer
   * @param {Record<string, string>} pictures image addresses by item
   * @param {() => void} done called when the images are decoded
   */
  take(selection, next, pictures, done) {
    const views = Object.entries(next);
    const isCurrent =
      selection === this.#selection && views.every(([answer, view]) => this.#agrees(answer, view));
    if (!isCurrent) this.#coming = new Map();
    this.#selection = selection;
    const byItem = new Map([...this.#coming.values()].map((entry) => [entry.view.item.id, entry]));
    const decoding = [];
    for (const [answer, view] of views) {
      const item = { ...view.item, src: pictures[view.item.id] };
      if (this.#coming.has(answer)) continue;
      if (!item.src) continue; // it can't be shown; the server reports that when the item is selected
      const { image, isDecoded } = byItem.get(item.id) ?? { image: this.#picture(item), isDecoded: false };
      const entry = { view: { ...view, item }, image, isDecoded };
      this.#coming.set(answer, entry);
      byItem.set(item.id, entry);
      decoding.push(decoded(entry));
    }
    if (decoding.length || !isCurrent) Promise.allSettled(decoding).then(done);
  }

  /**
   * Return the view and decoded image that follow an answer, or null if the server must be asked first.
   *
   * @param {string | undefined} selection
   * @param {string} answer
   * @returns {Coming | null}
   */
  after(selection, answer) {
    const entry = selection === this.#selection ? this.#coming.get(answer) : null;
    return entry?.isDecoded ? entry : null;
  }

  /**
   * Return false if another view is known for the answer.
   *
   * @param {string} answer
   * @param {Following} view
   */
  #agrees(answer, view) {
    const known = this.#coming.get(answer);
    return !known || known.view.item.selection === view.item.selection;
  }
}

/** @param {Coming} entry */
async function decoded(entry) {
  if (!entry.isDecoded) await entry.image.decode();
  entry.isDecoded = true;
}
