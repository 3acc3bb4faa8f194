// Marks that were not sent yet: a reload keeps them. They are no answers, and the server knows nothing of them.

export class Draft {
  #key;

  constructor(project, session) {
    this.#key = ["marginalia-draft", project, session].map(encodeURIComponent).join("/");
  }

  keep(cells, words) {
    const marked = cells.flatMap(({ selection }, place) => (words[place] ? [[selection, words[place]]] : []));
    try {
      localStorage.setItem(this.#key, JSON.stringify(marked));
    } catch {
      this.drop();
    }
  }

  /** What was marked in this grid, by selection. */
  of(cells) {
    const own = new Set(cells.map((cell) => cell.selection));
    try {
      const marked = JSON.parse(localStorage.getItem(this.#key)) ?? [];
      return new Map(marked.filter(([selection]) => own.has(selection)));
    } catch {
      return new Map();
    }
  }

  drop() {
    try {
      localStorage.removeItem(this.#key);
    } catch {
      // Without localStorage there is no draft.
    }
  }
}
