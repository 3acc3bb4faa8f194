// What the person has marked in a grid, and how it came to that: words by place, null where a place is open.
// Of places that are settled nothing can be changed here.

const CYCLE = [null, "yes", "no", "skip"]; // what clicks on one image give, one after the other

export class Marks {
  #past = []; // [words, cursor] before each step that can be taken back

  /** `stored` are the words that stand already: these can be changed, not taken away; `settled` ones stay. */
  constructor(stored, words = stored, settled = stored.map(() => null)) {
    this.settled = settled;
    this.stored = stored.map((word, place) => settled[place] ?? word);
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

  /** The words that are not stored, null at the other places. */
  get unsent() {
    return this.words.map((word, place) => (word === this.stored[place] ? null : word));
  }

  get canUndo() {
    return this.#past.length > 0;
  }

  count(word) {
    return this.words.filter((other, place) => other === word && !this.settled[place]).length;
  }

  /** Mark the place under the cursor, and go on to the next open one. */
  mark(word) {
    if (this.settled[this.cursor]) return;
    this.#remember();
    this.words[this.cursor] = word;
    const after = this.words.indexOf(null, this.cursor);
    const next = after < 0 ? this.words.indexOf(null) : after;
    if (next >= 0) this.cursor = next;
    else this.cursor = Math.min(this.cursor + 1, this.words.length - 1);
  }

  /** What a click on a place gives. */
  turn(place) {
    this.cursor = place;
    if (this.settled[place]) return;
    this.#remember();
    const words = this.stored[place] ? CYCLE.slice(1) : CYCLE;
    this.words[place] = words[(words.indexOf(this.words[place]) + 1) % words.length];
  }

  markRest(word) {
    if (!this.open) return;
    this.#remember();
    this.words = this.words.map((other) => other ?? word);
  }

  undo() {
    [this.words, this.cursor] = this.#past.pop();
  }

  #remember() {
    this.#past.push([[...this.words], this.cursor]);
  }
}
