// Marks that were not sent yet: a reload keeps them, and so do the pages of a search, where one turns from one to
// the other. They are no answers, and the server knows nothing of them.

/** @import { Cell, Standing, Word } from "../types" */

/** @typedef {Pick<Cell, "id" | "selection">} Named */
/** @typedef {Named[keyof Named]} Name */

export class Draft {
  /** @type {string} */
  #key;
  /** @type {"selection" | "id"} */
  #by;

  /**
   * Marks are known by the cells' `selection`, or by their item's `id`: then they outlive the grid.
   *
   * @param {string} project
   * @param {string} session
   * @param {"selection" | "id"} by
   */
  constructor(project, session, by = "selection") {
    const of = [project, session, ...(by === "id" ? ["found"] : [])].map(encodeURIComponent).join("/");
    this.#key = `closecall-draft/${of}`;
    this.#by = by;
    takeOver(`marginalia-draft/${of}`, this.#key);
  }

  /**
   * Keep what the cells are marked as, null where they are open.
   *
   * @param {Named[]} cells
   * @param {(Standing | null)[]} words
   */
  keep(cells, words) {
    const marked = cells.flatMap((cell, place) => (words[place] ? [[cell[this.#by], words[place]]] : []));
    const kept = this.#by === "id" ? this.#elsewhere(cells) : [];
    try {
      localStorage.setItem(this.#key, JSON.stringify([...kept, ...marked]));
    } catch {
      // Without room in localStorage there is no draft.
    }
  }

  /**
   * What was marked of these cells, by what they are known by.
   *
   * @param {Named[]} cells
   */
  of(cells) {
    const own = new Set(cells.map((cell) => cell[this.#by]));
    return new Map(this.#stored().filter(([name]) => own.has(name)));
  }

  /**
   * How many marks are not of these cells.
   *
   * @param {Named[]} cells
   */
  elsewhere(cells) {
    return this.#by === "id" ? this.#elsewhere(cells).length : 0;
  }

  /** @param {Named[]} cells */
  #elsewhere(cells) {
    const own = new Set(cells.map((cell) => cell[this.#by]));
    return this.#stored().filter(([name]) => !own.has(name));
  }

  /** @returns {[Name, Word][]} */
  #stored() {
    try {
      return JSON.parse(localStorage.getItem(this.#key) ?? "[]") ?? [];
    } catch {
      return [];
    }
  }
}

/**
 * A draft of an earlier version becomes this one's, unless there is one already.
 *
 * @param {string} former
 * @param {string} key
 */
function takeOver(former, key) {
  try {
    const kept = localStorage.getItem(former);
    if (kept === null) return;
    if (localStorage.getItem(key) === null) localStorage.setItem(key, kept);
    localStorage.removeItem(former);
  } catch {
    // Without localStorage there is no draft.
  }
}
