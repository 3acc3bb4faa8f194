// Why no item is in view.

/** @import { Waiting } from "../types" */

/**
 * Return whether an item may come without anyone's action here.
 *
 * @param {Waiting | null} waiting
 */
export function mayStillCome(waiting) {
  return waiting !== null && (!waiting.exhausted || waiting.done < waiting.total || waiting.held > 0);
}

/**
 * Return a sentence that says why there is no item.
 *
 * @param {Waiting} waiting
 * @param {string} question
 */
export function absence({ exhausted, done, total, held, stopped, message }, question) {
  if (stopped && !exhausted) return "No item can be shown now.";
  if (stopped && done < total) return "Every item so far has an answer. No more are being prepared.";
  if (exhausted && done < total) return "Every item so far has an answer. More are being prepared…";
  if (exhausted && held) return inOtherViews(held);
  if (exhausted) return message ?? `Every item has an answer to “${question}”`;
  if (!done) return "The first items are being prepared…";
  const whole = (/** @type {number} */ value) => value.toLocaleString("en-US");
  return `The first items are being prepared: ${whole(done)} of ${whole(total)}`;
}

/** @param {number} held */
function inOtherViews(held) {
  return held === 1
    ? "The last item without an answer is in another session's view."
    : `The last ${held} items without an answer are in other sessions' views.`;
}
