// The annotator's marks in a grid and the steps that led to them: one word per place, null for an open place.
// Settled places can't be changed here.

/** @import { Standing, Word } from "../types" */

/** @typedef {Word | Standing} Mark */

/** @type {(Word | null)[]} */
const CYCLE = [null, "yes", "no", "skip"]; // marks that repeated clicks on an image step through

export class Marks {
  /** @type {[(Mark | null)[], number][]} */
  #past = []; // [words, cursor] before each step that can be undone

  /**
   * Create the marks of a grid.
   *
   * @param {(Word | null)[]} stored saved words, which can be changed but not removed
   * @param {(Word | null)[]} words marks to start with
   * @param {(Standing | null)[]} settled words of places that can't be changed
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

  /** Return the places whose word differs from the stored one. */
  get changed() {
    return this.words.flatMap((word, place) => (word === this.stored[place] ? [] : [place]));
  }

  /**
   * Return the words that are not stored yet, null at the other places.
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
   * Mark the place under the cursor and move to the next open one.
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
   * Move the cursor to a clicked place and give it the next mark.
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

  /**
   * Mark the open places.
   *
   * @param {(place: number) => Word | null} wordOf null leaves the place open
   */
  markRest(wordOf) {
    if (!this.words.some((word, place) => word === null && wordOf(place) !== null)) return;
    this.#remember();
    this.words = this.words.map((word, place) => word ?? wordOf(place));
  }

  /**
   * Reset marks other than skip at places whose image can't be shown.
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
