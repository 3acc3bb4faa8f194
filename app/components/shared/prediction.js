// The prediction of another model for an item, on a tile of a grid or over the image.

import { fixed } from "./figures.js";

/** @import { Prediction } from "../types" */

const DIGITS = 2;

/**
 * Return a prediction in few words; "" if there is none.
 *
 * @param {Prediction | undefined} prediction
 */
export function inShort(prediction) {
  if (!prediction) return "";
  const { answer, score } = prediction;
  return score === null ? answer : `${answer} ${fixed(DIGITS)(score)}`;
}

/**
 * Return a prediction as a phrase; "" if there is none.
 *
 * @param {Prediction | undefined} prediction
 */
export function inWords(prediction) {
  return prediction ? `${prediction.model} predicts ${inShort(prediction)}` : "";
}
