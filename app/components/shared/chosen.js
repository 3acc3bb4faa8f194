// The sentence in the margin that says who or what chose the items in view.

import { isBeforeTraining } from "./asides.js";
import { whole } from "./figures.js";

/** @import { RoundNotes } from "../types" */

/** @param {RoundNotes} notes */
const untilTrained = (notes) =>
  isBeforeTraining(notes) ? "before the first yes and no" : "until there is a yes and a no";

/** @type {Record<string, (round: number, notes: RoundNotes) => [string, string]>} */
const WHY = {
  "random-start": (round, notes) => ["Chosen at random", ` ${untilTrained(notes)}, round ${round}`],
  example: (round) => ["Like the examples", `, round ${round}`],
  description: (round, notes) => [
    "Like the description",
    ` “${notes.searched}” ${untilTrained(notes)}, round ${round}`,
  ],
  undo: (round) => ["Back because you undid your answer", `, round ${round}`],
  "last-grid": (round) => ["Back for corrections", `, round ${round}`],
  audit: (round) => ["Drawn for the audit", `: your answer does not train, round ${round}`],
  search: (round, { searched }) => ["Found by name", `: “${searched}”, round ${round}`],
  words: (round, { searched }) => ["Found by words", `: “${searched}”, round ${round}`],
  lasso: (round, { margin }) => [
    "In the lasso",
    margin == null ? `, round ${round}` : `: those nearest the hyperplane, round ${round}`,
  ],
  predicted: (round) => ["Chosen by predictions", ` of another model, round ${round}`],
  overlap: (round, { items }) => [
    "Drawn for another opinion",
    `: somebody has answered ${(items ?? 1) > 1 ? "them" : "it"} already, round ${round}`,
  ],
  decision: (_round, { waiting }) => [
    "People disagree",
    `: your answer decides. ${waiting === 1 ? "The last one" : `${whole(waiting ?? 0)} items to decide`}`,
  ],
  blind: (round) => ["Strategies take turns", `: you’ll learn at the end who chose this, round ${round}`],
  "skipped-again": (round) => ["Skipped before", `, back for an answer, round ${round}`],
};

/** @type {Record<string, string>} */
const PARTS = {
  margin: "at the margin",
  likely: "likely positive",
  random: "random",
  unlike: "unlike the labeled ones",
};

/** @type {Record<string, string>} Why Auto lets this part choose. */
const PHASES = { likely: ", while yes is rare", unlike: ", as none is left at the margin" };

/**
 * Return who or what chose the items in view, and the rest of the sentence.
 *
 * @param {RoundNotes} notes
 * @param {number} round
 * @returns {[string, string]}
 */
export function chosenBy(notes, round) {
  const many = notes.items ?? 1;
  const those = many > 1 ? `these ${notes.items}` : "this item";
  const portion = PARTS[notes.part ?? ""];
  const phase = (notes.strategy === "auto" && PHASES[notes.part ?? ""]) || "";
  const chosenAs = many > 1 || !portion ? "" : ` (${portion}${phase})`;
  const asked = notes.asked ? ` for “${notes.asked}”` : "";
  const reason = WHY[notes.why ?? ""]?.(round, notes);
  if (reason) return [reason[0], asked + reason[1]];
  const hurried = notes.hurried ? " with a smaller budget, to save time" : "";
  const incomplete = notes.missing
    ? ` (incomplete: workers did not answer in time for ${whole(notes.missing)} items)`
    : "";
  const when = notes.awaited
    ? ` while ${notes.awaited} is prepared`
    : `${chosenAs}${hurried}${incomplete}, round ${round}`;
  return [notes.strategy_label ?? "", ` chose ${those}${asked}${when}`];
}
