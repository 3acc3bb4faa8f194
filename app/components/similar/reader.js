// A whole text beside the nearest: while the mouse rests on its tile, or kept open by a button or a key.

import { part, say } from "../shared/dom.js";
import { sheet } from "../shared/text.js";

/** @import { SimilarCell } from "../types" */

// Milliseconds.
const REST = 400; // the mouse passes over many tiles
const LEAVE = 250; // time to get into the text

export class Reader {
  /** @type {HTMLElement} */
  #place;
  /** @type {number | undefined} */
  #timer;
  /** @type {SimilarCell | null} */
  #cell = null;
  #isKept = false;

  /** @param {HTMLElement} place */
  constructor(place) {
    this.#place = place;
  }

  get isOpen() {
    return this.#cell !== null;
  }

  get isKept() {
    return this.#isKept;
  }

  /**
   * The mouse is over this cell now, null where it is over none; over the text itself it may stay.
   *
   * @param {SimilarCell | null} cell
   * @param {boolean} isOnText
   */
  over(cell, isOnText = false) {
    clearTimeout(this.#timer);
    if (this.#isKept || isOnText) return;
    if (cell?.text) this.#timer = setTimeout(() => this.#open(cell), REST);
    else if (this.isOpen) this.#timer = setTimeout(() => this.close(), LEAVE);
  }

  /**
   * Open a cell's text until it is closed.
   *
   * @param {SimilarCell | undefined} cell
   */
  keep(cell) {
    clearTimeout(this.#timer);
    if (!cell?.text) return;
    this.#isKept = true;
    this.#open(cell);
  }

  /**
   * Keep it open, or close it where it is.
   *
   * @param {SimilarCell | undefined} cell
   */
  toggle(cell) {
    if (this.#isKept && this.#cell?.id === cell?.id) this.close();
    else this.keep(cell);
  }

  /**
   * Go on with another cell, if a text is kept open.
   *
   * @param {SimilarCell} cell
   */
  follow(cell) {
    if (this.#isKept && cell?.text && cell.id !== this.#cell?.id) this.keep(cell);
  }

  close() {
    clearTimeout(this.#timer);
    this.#cell = null;
    this.#isKept = false;
    this.#place.hidden = true;
  }

  /**
   * Move by this number of pages.
   *
   * @param {number} pages
   */
  scroll(pages) {
    const text = part(this.#place, ".text");
    text.scrollBy({ top: pages * 0.9 * text.clientHeight });
  }

  /** @param {SimilarCell} cell */
  #open(cell) {
    const isOther = this.#cell?.id !== cell.id;
    this.#cell = cell;
    this.#place.hidden = false;
    this.#place.dataset.item = String(cell.id);
    if (!isOther) return;
    say(part(this.#place, ".name"), cell.alt);
    part(this.#place, ".text").replaceWith(sheet(cell.alt, cell.text ?? []));
  }
}
