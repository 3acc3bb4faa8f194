// What more labels would probably bring: how many predictions they change at most.

import { fixed, whole } from "../shared/figures.js";

/** @import { ProgressData } from "../types" */

/**
 * Return a sentence, or "" if it can't be told yet.
 *
 * @param {Pick<ProgressData, "ahead" | "items">} data
 */
export function aheadInWords({ ahead, items }) {
  if (!ahead) return "";
  const percent = 100 * ahead.share;
  const share = fixed(percent < 0.1 ? 2 : percent < 10 ? 1 : 0)(percent);
  const many = whole(Math.ceil(ahead.share * items));
  return `${ahead.labels} more labels would probably change at most ${share} % of the predictions: ${many} of ${whole(items)}.`;
}
