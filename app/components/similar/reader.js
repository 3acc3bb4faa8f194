// The reader, which shows a whole text while the mouse rests on its tile. Opened by a button or key, it stays open.

import { part, say } from "../shared/dom.js";
import { sheet } from "../shared/text.js";

/** @import { SimilarCell } from "../types" */

// Milliseconds.
const REST = 400; // delay before opening, since the mouse passes over many tiles
const LEAVE = 250; // delay before closing, to move the mouse into the text

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
   * Open or close the text after the mouse has moved.
   *
   * @param {SimilarCell | null} cell the cell under the mouse
   * @param {boolean} isOnText whether the mouse is over the text itself, which keeps it open
   */
  over(cell, isOnText = false) {
    clearTimeout(this.#timer);
    if (this.#isKept || isOnText) return;
    if (cell?.text) this.#timer = setTimeout(() => this.#open(cell), REST);
    else if (this.isOpen) this.#timer = setTimeout(() => this.close(), LEAVE);
  }

  /**
   * Open a cell's text and keep it open.
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
   * Keep a cell's text open, or close it if it is kept open already.
   *
   * @param {SimilarCell | undefined} cell
   */
  toggle(cell) {
    if (this.#isKept && this.#cell?.id === cell?.id) this.close();
    else this.keep(cell);
  }

  /**
   * Show the text of another cell if a text is kept open.
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
   * Scroll the text by a number of pages.
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
