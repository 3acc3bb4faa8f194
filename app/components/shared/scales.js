// Scales of charts, which map numbers to 0 … 1, and their ticks at round numbers.

/** @import { Scale } from "../types" */

/** @param {number} span */
const nothing = (span) => (span > 0 ? span : 1);

/**
 * Return a linear scale from `low` to `high`.
 *
 * @param {number} low
 * @param {number} high
 * @param {number[]} ticks
 * @param {(value: number) => string} write
 * @returns {Scale}
 */
export function linear(low, high, ticks, write) {
  return { at: (value) => (value - low) / nothing(high - low), ticks, write };
}

/**
 * Return a logarithmic scale from `low` to `high`, for numbers from 1.
 *
 * @param {number} low
 * @param {number} high
 * @param {number[]} ticks
 * @param {(value: number) => string} write
 * @returns {Scale}
 */
export function logarithmic(low, high, ticks, write) {
  const span = nothing(Math.log(high / low));
  return { at: (value) => Math.log(Math.max(value, low) / low) / span, ticks, write };
}

/**
 * Return about `n` round numbers from `low` to `high`.
 *
 * @param {number} low
 * @param {number} high
 * @param {number} n
 * @returns {number[]}
 */
export function roundTicks(low, high, n) {
  const rough = nothing(high - low) / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => (first + i) * step);
}

/**
 * Return ticks of a logarithmic scale from `low` to `high`: 1, 2 and 5 times powers of ten. If there are more than six,
 * return only powers of ten, and if there are fewer than three, return round whole numbers at even steps.
 *
 * @param {number} low
 * @param {number} high
 * @returns {number[]}
 */
export function ratioTicks(low, high) {
  const powers = Array.from({ length: 13 }, (_, i) => 10 ** i);
  const within = (/** @type {number[]} */ ticks) =>
    ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  const fine = within(powers.flatMap((power) => [power, 2 * power, 5 * power]));
  if (fine.length < 3) return roundTicks(low, high, Math.max(1, Math.min(4, Math.floor(high - low))));
  return fine.length > 6 ? within(powers) : fine;
}
