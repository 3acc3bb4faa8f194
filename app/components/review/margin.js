// The margin of the review page: likely mistakes, corrections, agreement, pace, counts.

import { part } from "../shared/dom.js";
import { Figure, fixed, Tally, whole } from "../shared/figures.js";
import { ago } from "./times.js";

/** @import { ReviewNotes } from "../types" */

export class Margin {
  /** @type {Figure} */
  #doubted;
  /** @type {Figure} */
  #corrected;
  /** @type {Figure} */
  #agreement;
  /** @type {Figure} */
  #pace;
  /** @type {Tally} */
  #tally;

  /** @param {HTMLElement} card */
  constructor(card) {
    const list = part(card, ".rows");
    this.#doubted = new Figure(list, ["Likely mistakes"]);
    this.#corrected = new Figure(list, ["Corrected so far"]);
    this.#agreement = new Figure(list, ["Agreement (kappa)"]);
    this.#pace = new Figure(list, ["Pace"], "s");
    this.#tally = new Tally(card);
  }

  /**
   * @param {ReviewNotes} notes
   * @param {boolean} judged
   */
  show(notes, judged) {
    const {
      doubted,
      labels,
      corrected,
      corrected_last: last,
      agreement,
      pace_ms: pace,
      paces_ms: paces,
    } = notes;
    this.#doubted.show({
      value: doubted === null ? null : whole(doubted),
      aside:
        doubted === null
          ? judged
            ? "after the first yes and no"
            : ""
          : `of ${whole(labels)} ${labels === 1 ? "label" : "labels"}`,
    });
    this.#corrected.show({ value: whole(corrected), aside: last === null ? "" : `last one ${ago(last)}` });
    this.#agreement.show({
      hidden: agreement === null,
      value: agreement?.kappa == null ? null : fixed(2)(agreement.kappa),
      aside: agreement ? `${agreement.names.join(" and ")}, ${whole(agreement.items)} items` : "",
    });
    this.#pace.show({
      hidden: pace === null,
      value: pace === null ? null : fixed(1)(pace / 1000),
      aside: `median, last ${paces.length === 1 ? "answer" : `${paces.length} answers`}`,
      history: paces,
      scale: Math.log,
    });
    this.#tally.show(notes.counts);
  }
}
