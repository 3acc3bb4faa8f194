// What the person has marked in a grid, and how it came to that: words by place, null where a place is open.
// Of places that are settled nothing can be changed here.

/** @import { Standing, Word } from "../types" */

/** @typedef {Word | Standing} Mark */

/** @type {(Word | null)[]} */
const CYCLE = [null, "yes", "no", "skip"]; // what clicks on one image give, one after the other

export class Marks {
  /** @type {[(Mark | null)[], number][]} */
  #past = []; // [words, cursor] before each step that can be taken back

  /**
   * `stored` are the words that stand already: these can be changed, not taken away; `settled` ones stay.
   *
   * @param {(Word | null)[]} stored
   * @param {(Word | null)[]} words
   * @param {(Standing | null)[]} settled
   */
  constructor(stored, words = stored, settled = stored.map(() => null)) {
    this.settled = settled;
    this.stored = stored.map((word, place) => settled[place] ?? word);
    /** @type {(Mark | null)[]} */
    this.words = words.map((word, place) => settled[place] ?? word);
    this.cursor = Math.max(0, this.words.indexOf(null));
  }

  get open() {
    return this.words.filter((word) => word === null).length;
  }

  /** Places whose word is not the stored one. */
  get changed() {
    return this.words.flatMap((word, place) => (word === this.stored[place] ? [] : [place]));
  }

  /**
   * The words that are not stored, null at the other places.
   *
   * @returns {(Mark | null)[]}
   */
  get unsent() {
    return this.words.map((word, place) => (word === this.stored[place] ? null : word));
  }

  get canUndo() {
    return this.#past.length > 0;
  }

  /** @param {Word | null} word */
  count(word) {
    return this.words.filter((other, place) => other === word && !this.settled[place]).length;
  }

  /**
   * Mark the place under the cursor, and go on to the next open one.
   *
   * @param {Word} word
   */
  mark(word) {
    if (this.settled[this.cursor]) return;
    this.#remember();
    this.words[this.cursor] = word;
    const after = this.words.indexOf(null, this.cursor);
    const next = after < 0 ? this.words.indexOf(null) : after;
    if (next >= 0) this.cursor = next;
    else this.cursor = Math.min(this.cursor + 1, this.words.length - 1);
  }

  /**
   * What a click on a place gives.
   *
   * @param {number} place
   */
  turn(place) {
    this.cursor = place;
    if (this.settled[place]) return;
    this.#remember();
    /** @type {(Mark | null)[]} */
    const words = this.stored[place] ? CYCLE.slice(1) : CYCLE;
    this.words[place] = words[(words.indexOf(this.words[place]) + 1) % words.length];
  }

  /** @param {Word} word */
  markRest(word) {
    if (!this.open) return;
    this.#remember();
    this.words = this.words.map((other) => other ?? word);
  }

  /**
   * Take back what was said of images that can't be shown: they can only be skipped.
   *
   * @param {number[]} places
   */
  allowOnlySkip(places) {
    for (const place of places) if (this.words[place] !== "skip") this.words[place] = this.stored[place];
  }

  undo() {
    const before = this.#past.pop();
    if (before) [this.words, this.cursor] = before;
  }

  #remember() {
    this.#past.push([[...this.words], this.cursor]);
  }
}
