// The check of the selected item against a full scan of the pool: a button requests it, and a note shows the result.

import { element, part, say } from "../shared/dom.js";
import { fixed, scanTime, whole } from "../shared/figures.js";

/** @import { Check, Item, RoundNotes } from "../types" */

export class FullScan {
  /** @type {HTMLElement} */
  #place;
  #button = element("button", { type: "button", className: "link" });
  #note = element("span", { className: "note", role: "status" });
  #wanted = false; // whether a check waits until the item in view can no longer change
  /** @type {string | null} */
  #asked = null; // the selection of the latest request
  /** @type {(selection: string | null) => void} */
  #ask;

  /**
   * Create the button; `begin()` is called when it is pressed, and `ask(selection)` requests a check from the server.
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
   * Show the button or the result, and send a pending request.
   *
   * @param {Check | null | undefined} found the server's latest result
   * @param {{ item: Item | null, notes: RoundNotes }} view
   * @param {boolean} waits whether the item in view waits for an answer and so will stay
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
function comparison({
  problem,
  by_score: byScore,
  is_apart: isApart,
  rank,
  items,
  value,
  best,
  selection_ms: own,
  full_scan_ms: scan,
}) {
  if (problem) return [problem];
  const figure = (/** @type {number} */ number) => fixed(7)(number);
  const ms = (/** @type {number} */ number) => `${fixed(2)(number)} ms`;
  const those = `${rank === 0 ? "none" : whole(rank)} of ${whole(items)} items`;
  const before = byScore
    ? `${rank < 2 ? "has" : "have"} a larger score`
    : `${rank < 2 ? "is" : "are"} nearer`;
  const beside = rank === 0 ? "the best there is" : `the best is ${figure(best)}`;
  return [
    ...(isApart ? [element("span", {}, "This item need not be near. ")] : []),
    element("span", {}, element("strong", {}, `Rank ${whole(rank)}`), `: ${those} ${before}. `),
    element("span", {}, `${byScore ? "wᵀx" : "|wᵀx|"} is ${figure(value)}, ${beside}. `),
    element("span", {}, `${ms(own)}, a full scan ${scanTime(scan)} ms: ${ratio(scan / own)}.`),
  ];
}

/** @param {number} times */
function ratio(times) {
  const written = (/** @type {number} */ value) => fixed(value < 10 ? 1 : 0)(value);
  return times < 1 ? `${written(1 / times)} times as slow` : `${written(times)} times as fast`;
}
