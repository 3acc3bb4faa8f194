// Answers that the server has not acknowledged yet. Each is a separate entry in localStorage, so that a reload, a
// crash of the browser or a second tab loses none. Without localStorage they live as long as the page.

/** @import { Answer, Entry } from "../types" */

const ROOT = "closecall";
const FORMER_ROOT = "marginalia"; // unsent answers of earlier versions are sent and removed like current ones

/**
 * Return whether an answer was given on Decide, where a skip only postpones the item.
 *
 * @param {Partial<Pick<Answer, "selection">>} answer
 */
export const isDecision = ({ selection }) => Boolean(selection?.startsWith("decide "));

export class Queue {
  /** @type {string} */
  #project;
  /** @type {string} */
  #session;
  /** @type {Map<string, Entry>} */
  #entries = new Map();
  #place = 0;

  /**
   * @param {string} project
   * @param {string} session
   */
  constructor(project, session) {
    this.#project = project;
    this.#session = session;
    this.durable = true;
    for (const [key, entry] of this.#stored()) this.#remember(key, entry);
  }

  /** Return all answers in the order in which they were given, including those of the project's other sessions. */
  get pending() {
    return [...this.#entries.values()].sort((a, b) => a.place - b.place).map((entry) => entry.answer);
  }

  /** Return the answers of this session. */
  get own() {
    return this.pending.filter((answer) => answer.session === this.#session);
  }

  get size() {
    return this.#entries.size;
  }

  /** @param {Omit<Answer, "session">} answer */
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

  /**
   * Remove answers that the server has stored or refused; return those that were in the queue.
   *
   * @param {Iterable<string>} ids
   */
  settle(ids) {
    const settled = new Set(ids);
    const found = [...this.#entries].filter(([, entry]) => settled.has(entry.answer.id));
    for (const [key] of found) {
      this.#entries.delete(key);
      removeEntry(key);
    }
    return found.map(([, entry]) => entry.answer);
  }

  /**
   * @param {string} key
   * @param {Entry} entry
   */
  #remember(key, entry) {
    this.#entries.set(key, entry);
    this.#place = Math.max(this.#place, entry.place + 1);
  }

  /** @returns {[string, Entry][]} */
  #stored() {
    const mine = [FORMER_ROOT, ROOT].map((root) => `${root}/${encodeURIComponent(this.#project)}/`);
    try {
      const keys = Object.keys(localStorage).filter((key) => mine.some((start) => key.startsWith(start)));
      return keys.flatMap((key) => {
        const entry = readEntry(localStorage.getItem(key));
        return entry ? [[key, entry]] : [];
      });
    } catch {
      this.durable = false;
      return [];
    }
  }
}

/**
 * Remove an entry, even after localStorage was full: another page must not send an earlier entry again.
 *
 * @param {string} key
 */
function removeEntry(key) {
  try {
    localStorage.removeItem(key);
  } catch {
    // Without localStorage there is no entry.
  }
}

/**
 * @param {string | null} text
 * @returns {Entry | null}
 */
function readEntry(text) {
  try {
    const { place, answer } = JSON.parse(text ?? "null");
    return Number.isInteger(place) && answer?.id ? { place, answer } : null;
  } catch {
    return null;
  }
}
