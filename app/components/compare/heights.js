// The y axes of learning curves: even steps of AUROC, or, if the curves crowd below 1, equal ratios of the gap to 1.

/**
 * @typedef {object} Heights
 * @property {number} low
 * @property {number} high
 * @property {(value: number) => number} at the height of a value, from 0 to 1
 * @property {number[]} ticks
 * @property {(tick: number) => string} write
 * @property {number} fine digits of the labels at the curves' ends
 * @property {string} note says if the steps are not even
 */

const STEPS = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1]; // between two ticks
const CROWDED = 0.2; // share of the height; if all curves end within it, they crowd
const HIGH = 0.9; // only curves that end above this AUROC can crowd below 1
const GAPS = [1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001];
const LEAST_GAP = 0.0001; // smaller gaps to 1 are drawn like this one
const MOST_TICKS = 8;

/**
 * Return the y axis of curves, each given by its values.
 *
 * @param {number[][]} courses
 * @returns {Heights}
 */
export function yScale(courses) {
  const even = evenSteps(courses);
  const ends = courses.filter((ys) => ys.length).map((ys) => ys[ys.length - 1]);
  const spread = even.at(Math.max(...ends)) - even.at(Math.min(...ends));
  return ends.length > 1 && Math.min(...ends) >= HIGH && spread < CROWDED ? equalRatios(courses, even) : even;
}

/**
 * Return an axis with even steps and round limits around all values of the curves.
 *
 * @param {number[][]} courses
 * @returns {Heights}
 */
function evenSteps(courses) {
  const [least, highest] = limits(courses);
  const step = STEPS.find((one) => highest - least < 7 * one) ?? 0.1;
  const low = Math.min(1 - step, Math.floor(least / step + 1e-9) * step);
  const high = Math.max(low + step, Math.min(1, Math.ceil(highest / step - 1e-9) * step));
  const ticks = Array.from({ length: Math.round((high - low) / step) + 1 }, (_, i) => low + i * step);
  const digits = step < 0.01 ? 3 : 2;
  return {
    low,
    high,
    at: (value) => (value - low) / (high - low),
    ticks,
    write: (tick) => tick.toFixed(digits),
    fine: step < 0.005 ? 4 : 3,
    note: "",
  };
}

/**
 * Return an axis on which halving the gap to 1 is everywhere the same distance, or `even` if all gaps are alike.
 *
 * @param {number[][]} courses
 * @param {Heights} even
 * @returns {Heights}
 */
function equalRatios(courses, even) {
  const [least, highest] = limits(courses);
  const wide = GAPS.findLast((gap) => gap >= 1 - least - 1e-9) ?? GAPS[0];
  const near = GAPS.find((gap) => gap <= 1 - highest + 1e-9) ?? LEAST_GAP;
  if (near >= wide) return even;
  const span = Math.log(wide / near);
  const inside = GAPS.filter((gap) => gap <= wide && gap >= near);
  const shown = inside.length > MOST_TICKS ? inside.filter((gap) => isPower(gap) || gap === wide) : inside;
  return {
    low: 1 - wide,
    high: 1,
    at: (value) => Math.log(wide / Math.max(near, 1 - value)) / span,
    ticks: shown.map((gap) => 1 - gap),
    write: (tick) => String(Number(tick.toFixed(4))),
    fine: near < 0.005 ? 4 : 3,
    note: "scale stretched towards 1",
  };
}

/** @param {number} gap */
function isPower(gap) {
  return Math.abs(Math.log10(gap) - Math.round(Math.log10(gap))) < 1e-9;
}

/**
 * Return the lowest and the highest value that the axis must include.
 *
 * @param {number[][]} courses
 */
function limits(courses) {
  const all = courses.flat();
  return [Math.min(1, ...all), Math.max(...all, 0.5)];
}
