// Marks that have not been sent yet. They survive a reload, and turning the pages of a search. They are not answers,
// and the server doesn't know them.

/** @import { Cell, Standing, Word } from "../types" */

/** @typedef {Pick<Cell, "id" | "selection">} Named */
/** @typedef {Named[keyof Named]} Name */
/** @typedef {[name: Name, word: Word, item?: number]} Kept earlier versions stored no item */

export class Draft {
  /** @type {string} */
  #key;
  /** @type {"selection" | "id"} */
  #by;

  /**
   * Create a draft whose marks are identified by the cells' `selection`, or by the items' `id` so that they outlive
   * the grid. Marks of a grid also hold for an item that the next grid shows again, for example after a look at
   * another view.
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
   * Store the marks of the cells.
   *
   * @param {Named[]} cells
   * @param {(Standing | null)[]} words the marks, null for open cells
   */
  keep(cells, words) {
    const marked = cells.flatMap((cell, place) =>
      words[place] ? [[cell[this.#by], words[place], cell.id]] : [],
    );
    const kept = this.#by === "id" ? this.#elsewhere(cells) : [];
    try {
      localStorage.setItem(this.#key, JSON.stringify([...kept, ...marked]));
    } catch {
      // If localStorage is full, there is no draft.
    }
  }

  /**
   * Return the stored marks of these cells, by `selection` or `id`.
   *
   * @param {Named[]} cells
   */
  of(cells) {
    const stored = this.#stored();
    const named = new Map(stored.map(([name, word]) => [name, word]));
    const about = new Map(stored.map(([, word, item]) => [item, word]));
    return new Map(
      cells.flatMap((cell) => {
        const word = named.get(cell[this.#by]) ?? about.get(cell.id);
        return word ? [[cell[this.#by], word]] : [];
      }),
    );
  }

  /**
   * Return the number of stored marks of other cells.
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

  /** @returns {Kept[]} */
  #stored() {
    try {
      return JSON.parse(localStorage.getItem(this.#key) ?? "[]") ?? [];
    } catch {
      return [];
    }
  }
}

/**
 * Move the draft of an earlier version to the current key, unless there is a draft already.
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
