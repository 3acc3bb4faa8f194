// The selected items and the cursor. Items are identified by their ids: an item in two lists is selected in both.

/** @import { SimilarCell } from "../types" */

export class Picks {
  /** @type {Set<number>} */
  #chosen = new Set();
  /** @type {number | null} */
  #anchor = null;
  cursor = 0;
  /** @type {SimilarCell[]} */
  cells;

  /**
   * Create the selection, keeping the cursor and the selected items of `before` that can still be answered.
   *
   * @param {SimilarCell[]} cells in their order on the page
   * @param {Picks | null} before
   */
  constructor(cells = [], before = null) {
    this.cells = cells;
    const free = new Set(cells.filter((cell) => cell.selection).map((cell) => cell.id));
    for (const id of before?.ids ?? []) if (free.has(id)) this.#chosen.add(id);
    const under = before?.cells[before.cursor];
    const same = under ? cells.findIndex((cell) => cell.id === under.id && cell.list === under.list) : -1;
    this.cursor = Math.max(0, same);
  }

  get ids() {
    return [...this.#chosen];
  }

  /** Return the selected cells, each item once. */
  get chosen() {
    /** @type {Map<number, SimilarCell>} */
    const first = new Map();
    for (const cell of this.cells) if (this.has(cell) && !first.has(cell.id)) first.set(cell.id, cell);
    return [...first.values()];
  }

  /** @param {SimilarCell} cell */
  has(cell) {
    return this.#chosen.has(cell.id);
  }

  clear() {
    this.#chosen.clear();
    this.#anchor = null;
  }

  /** @param {number} place */
  toggle(place) {
    this.cursor = place;
    this.#anchor = place;
    const cell = this.cells[place];
    if (!cell?.selection) return;
    if (!this.#chosen.delete(cell.id)) this.#chosen.add(cell.id);
  }

  /**
   * Select all items from the last one selected to this place.
   *
   * @param {number} place
   */
  extend(place) {
    this.#anchor ??= this.cursor;
    const [low, high] = [this.#anchor, place].sort((a, b) => a - b);
    for (const cell of this.cells.slice(low, high + 1)) if (cell.selection) this.#chosen.add(cell.id);
    this.cursor = place;
  }

  /** Select all items that can be answered; clear the selection if they are selected already. */
  all() {
    const free = this.cells.filter((cell) => cell.selection);
    if (free.every((cell) => this.has(cell))) this.clear();
    else for (const cell of free) this.#chosen.add(cell.id);
  }

  /** @param {number} to */
  move(to) {
    this.cursor = to;
    this.#anchor = null;
  }
}
