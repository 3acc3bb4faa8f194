// What follows each answer to the image in view: decoded before it is needed, so that the next frame shows it.

import { element } from "../shared/dom.js";
import { sheet } from "../shared/text.js";

/** @import { Following, Item } from "../types" */

/**
 * What shows an item: it can be decoded before it is in the page.
 *
 * @typedef {HTMLElement & { decode(): Promise<void> }} Picture
 */

/** @typedef {{ view: Following, image: Picture, isDecoded: boolean }} Coming */

/**
 * An item's image, or its text, as the frame shows it.
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
   * `picture(item)` makes what can be decoded.
   *
   * @param {(item: Item) => Picture} picture
   */
  constructor(picture) {
    this.#picture = picture;
  }

  /**
   * Take up what the server computed for the selection in view: `next` has a view for each answer, `pictures` the
   * images by item. `done` is called when they are decoded.
   *
   * @param {string} selection
   * @param {Record<string, Following>} next
   * @param {Record<string, string>} pictures
   * @param {() => void} done
   */
  take(selection, next, pictures, done) {
    const views = Object.entries(next);
    if (selection === this.#selection && views.every(([answer, view]) => this.#has(answer, view))) return;
    this.#selection = selection;
    this.#coming = new Map();
    const images = new Map();
    for (const [answer, view] of views) {
      const item = { ...view.item, src: pictures[view.item.id] };
      if (!item.src) continue; // it can't be shown; the server says so when its turn comes
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
   * The view that follows, and its image; null where the server has to be waited for.
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
