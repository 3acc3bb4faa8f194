// Answers that the server has not acknowledged yet. Each is an entry of its own in localStorage, so that a
// reload, a crash of the browser or a second tab loses none; without localStorage they live as long as the page.

const ROOT = "closecall";
const FORMER_ROOT = "marginalia"; // what earlier versions left unsent is sent, and removed, as if it were ours

export class Queue {
  #project;
  #session;
  #entries = new Map();
  #place = 0;

  constructor(project, session) {
    this.#project = project;
    this.#session = session;
    this.durable = true;
    for (const [key, entry] of this.#stored()) this.#remember(key, entry);
  }

  /** The answers in the order they were given; those left over from other sessions of the project included. */
  get pending() {
    return [...this.#entries.values()].sort((a, b) => a.place - b.place).map((entry) => entry.answer);
  }

  /** Answers of this session. */
  get own() {
    return this.pending.filter((answer) => answer.session === this.#session);
  }

  get size() {
    return this.#entries.size;
  }

  add(answer) {
    const key = [ROOT, this.#project, this.#session, answer.id].map(encodeURIComponent).join("/");
    const entry = { place: this.#place, answer: { ...answer, session: this.#session } };
    this.#remember(key, entry);
    try {
      localStorage.setItem(key, JSON.stringify(entry));
    } catch {
      this.durable = false;
    }
  }

  /** Forget answers that are stored, or refused for good; returns those that were here. */
  settle(ids) {
    const settled = new Set(ids);
    const found = [...this.#entries].filter(([, entry]) => settled.has(entry.answer.id));
    for (const [key] of found) {
      this.#entries.delete(key);
      removeEntry(key);
    }
    return found.map(([, entry]) => entry.answer);
  }

  #remember(key, entry) {
    this.#entries.set(key, entry);
    this.#place = Math.max(this.#place, entry.place + 1);
  }

  #stored() {
    const mine = [FORMER_ROOT, ROOT].map((root) => `${root}/${encodeURIComponent(this.#project)}/`);
    try {
      const keys = Object.keys(localStorage).filter((key) => mine.some((start) => key.startsWith(start)));
      return keys.map((key) => [key, readEntry(localStorage.getItem(key))]).filter(([, entry]) => entry);
    } catch {
      this.durable = false;
      return [];
    }
  }
}

/** Also after the store was full: what was kept before must not be sent again by another page. */
function removeEntry(key) {
  try {
    localStorage.removeItem(key);
  } catch {
    // Without localStorage nothing is there.
  }
}

function readEntry(text) {
  try {
    const { place, answer } = JSON.parse(text);
    return Number.isInteger(place) && answer?.id ? { place, answer } : null;
  } catch {
    return null;
  }
}
