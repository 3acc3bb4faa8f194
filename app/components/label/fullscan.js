// What chose the item in view, checked against a scan of the whole pool: asked for with a button, said in a note.

import { element, part, say } from "../shared/dom.js";
import { fixed, whole } from "../shared/figures.js";

/** @import { Check, Item, RoundNotes } from "../types" */

export class FullScan {
  /** @type {HTMLElement} */
  #place;
  #button = element("button", { type: "button", className: "link" });
  #note = element("span", { className: "note", role: "status" });
  #wanted = false; // asked for, while what is in view may still change
  /** @type {string | null} */
  #asked = null; // the selection that the server was asked about last
  /** @type {(selection: string | null) => void} */
  #ask;

  /**
   * `begin()` is called when a check is wanted, `ask(selection)` hands the question over.
   *
   * @param {HTMLElement} card
   * @param {{ begin: () => void, ask: (selection: string | null) => void }} calls
   */
  constructor(card, { begin, ask }) {
    this.#ask = ask;
    this.#place = element("p", { className: "full-scan" }, this.#button, this.#note);
    part(card, ".notes").append(this.#place);
    this.#button.addEventListener("click", () => {
      if (this.#button.getAttribute("aria-disabled") === "true") return;
      this.#wanted = true;
      begin();
    });
  }

  /**
   * `found` is what the server said last; the item in view is there to stay where it `waits` for an answer.
   *
   * @param {Check | null | undefined} found
   * @param {{ item: Item | null, notes: RoundNotes }} view
   * @param {boolean} waits
   */
  show(found, { item, notes }, waits) {
    const selection = item?.selection ?? null;
    if (this.#wanted && waits) {
      this.#wanted = false;
      this.#asked = selection;
      this.#ask(selection);
    }
    const done = found && !found.is_coming && found.selection === selection ? found : null;
    const scanning = !done && (this.#wanted || (item && this.#asked === selection));
    this.#place.hidden = !item || notes.margin == null;
    this.#button.hidden = done !== null;
    this.#button.setAttribute("aria-disabled", String(Boolean(scanning)));
    say(this.#button, scanning ? `Scanning ${whole(notes.total)} items…` : "Check against a full scan");
    this.#tell(done);
  }

  /** @param {Check | null} done */
  #tell(done) {
    if (this.#note.dataset.selection === done?.selection) return;
    if (done) this.#note.dataset.selection = done.selection;
    else delete this.#note.dataset.selection;
    this.#note.replaceChildren(...(done ? comparison(done) : []));
  }
}

/** @param {Check} check */
function comparison({ problem, rank, items, margin, best, selection_ms: own, full_scan_ms: scan }) {
  if (problem) return [problem];
  const near = (/** @type {number} */ value) => fixed(7)(value);
  const ms = (/** @type {number} */ value) => `${fixed(2)(value)} ms`;
  const nearer = `${rank === 0 ? "none" : whole(rank)} of ${whole(items)} items ${rank < 2 ? "is" : "are"} nearer.`;
  const beside = rank === 0 ? "the best there is" : `the best is ${near(best)}`;
  return [
    element("span", {}, element("strong", {}, `Rank ${whole(rank)}`), `: ${nearer} `),
    element("span", {}, `|wᵀx| is ${near(margin)}, ${beside}. `),
    element("span", {}, `${ms(own)}, the scan ${ms(scan)}: ${ratio(scan / own)}.`),
  ];
}

/** @param {number} times */
function ratio(times) {
  const written = (/** @type {number} */ value) => fixed(value < 10 ? 1 : 0)(value);
  return times < 1 ? `${written(1 / times)} times as slow` : `${written(times)} times as fast`;
}
