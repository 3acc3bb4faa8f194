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
   * Take the views that the server computed for the selection in view, and decode their images.
   *
   * @param {string} selection
   * @param {Record<string, Following>} next the view after each answer
   * @param {Record<string, string>} pictures image addresses by item
   * @param {() => void} done called when the images are decoded
   */
  take(selection, next, pictures, done) {
    const views = Object.entries(next);
    if (selection === this.#selection && views.every(([answer, view]) => this.#has(answer, view))) return;
    this.#selection = selection;
    this.#coming = new Map();
    const images = new Map();
    for (const [answer, view] of views) {
      const item = { ...view.item, src: pictures[view.item.id] };
      if (!item.src) continue; // it can't be shown; the server reports that when the item is selected
      if (!images.has(item.id)) images.set(item.id, this.#picture(item));
      this.#coming.set(answer, { view: { ...view, item }, image: images.get(item.id), isDecoded: false });
    }
    const decoding = [...this.#coming.values()].map(async (entry) => {
      await entry.image.decode();
      entry.isDecoded = true;
    });
    Promise.allSettled(decoding).then(done);
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
   * @param {string} answer
   * @param {Following} view
   */
  #has(answer, view) {
    return this.#coming.get(answer)?.view.item.selection === view.item.selection;
  }
}
