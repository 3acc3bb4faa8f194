// The remarks beside the numbers of a round. The numbers are those at the time of the selection. Meanwhile, other people
// may have labeled, and the pool may have grown: the remarks then say what the numbers are of.

import { fixed, whole } from "./figures.js";

/** @import { RoundNotes } from "../types" */

/** @typedef {Pick<RoundNotes, "n_labels" | "now">} Trained */

/**
 * Return whether there are more labels now than the classifier was trained on.
 *
 * @param {Trained} notes
 */
const isOutdated = ({ n_labels: n, now }) => n !== null && now != null && n < now.labels;

/**
 * Return whether there was no classifier at the time of the selection, but the labels suffice for one now.
 *
 * @param {Trained & Pick<RoundNotes, "counts">} notes
 */
export const isBeforeTraining = (notes) => isOutdated(notes) && notes.counts.yes > 0 && notes.counts.no > 0;

/** @param {Pick<RoundNotes, "margin" | "furthest" | "why" | "counts"> & Trained} notes */
export function marginAside(notes) {
  const { margin, furthest, why } = notes;
  if (margin == null && isBeforeTraining(notes)) return "from the next item on";
  if (margin == null) return why ? "after the first yes and no" : "";
  if (why === "search" || why === "words") return "of the first item";
  return furthest == null ? "0 is on the hyperplane" : `up to ${fixed(7)(furthest)}`;
}

/** @param {Pick<RoundNotes, "total" | "now">} notes */
export const scoredAside = ({ total, now }) => `of ${whole(total)}${now && total < now.items ? " then" : ""}`;

/** @param {Trained} notes */
export function trainingAside(notes) {
  const { n_labels: n, now } = notes;
  if (n === null) return "";
  if (now && isOutdated(notes)) return `${whole(n)} of ${whole(now.labels)} labels`;
  return `${whole(n)} ${n === 1 ? "label" : "labels"}`;
}
