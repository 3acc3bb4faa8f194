// What the person has marked in a grid, and how it came to that: words by place, null where a place is open.

const CYCLE = [null, "yes", "no", "skip"]; // what clicks on one image give, one after the other

export class Marks {
  #past = []; // [words, cursor] before each step that can be taken back

  /** `stored` are the words that stand already: these can be changed, not taken away. */
  constructor(stored, words = stored) {
    this.stored = stored;
    this.words = [...words];
    this.cursor = Math.max(0, words.indexOf(null));
  }

  get open() {
    return this.words.filter((word) => word === null).length;
  }

  /** Places whose word is not the stored one. */
  get changed() {
    return this.words.flatMap((word, place) => (word === this.stored[place] ? [] : [place]));
  }

  get canUndo() {
    return this.#past.length > 0;
  }

  count(word) {
    return this.words.filter((other) => other === word).length;
  }

  /** Mark the place under the cursor, and go on to the next open one. */
  mark(word) {
    this.#remember();
    this.words[this.cursor] = word;
    const after = this.words.indexOf(null, this.cursor);
    const next = after < 0 ? this.words.indexOf(null) : after;
    if (next >= 0) this.cursor = next;
    else this.cursor = Math.min(this.cursor + 1, this.words.length - 1);
  }

  /** What a click on a place gives. */
  turn(place) {
    this.#remember();
    const words = this.stored[place] ? CYCLE.slice(1) : CYCLE;
    this.words[place] = words[(words.indexOf(this.words[place]) + 1) % words.length];
    this.cursor = place;
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
