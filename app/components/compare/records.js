// The rounds of a race so far, by lane, and the statistics and the verdict derived from them.

/** @import { Course, Guide, Lane as Rival, LaneTurn, RaceData, RaceNews, Spread } from "../types" */

const ENOUGH = 20; // rounds before the first verdict, as on the Progress page
const LATELY = 10; // rounds in which a lane must lead

/** The records of one lane by round, null after it has dropped out. */
class Lane {
  /** @type {(number | null)[]} */
  aurocs = [];
  /** @type {(number | null)[]} */
  margins = [];
  /** @type {(number | null)[]} */
  milliseconds = [];
  /** @type {(number | null)[]} */
  scored = [];
}

export class Records {
  /** @param {Pick<RaceData, "lanes" | "first_auroc">} race */
  constructor({ lanes, first_auroc: firstAuroc }) {
    this.firstAuroc = firstAuroc;
    this.lanes = lanes.map(() => new Lane());
    /** @type {string[][]} */
    this.firsts = [];
    this.picks = lanes.map(() => "");
    this.rounds = 0;
  }

  /**
   * Append new rounds, unless `known` shows that they are already here.
   *
   * @param {Pick<RaceNews, "known" | "turns" | "firsts" | "picks">} news
   */
  take({ known, turns, firsts, picks }) {
    if (known !== this.rounds) return;
    for (const turn of turns) {
      turn.forEach((outcome, i) => {
        const [auroc, margin, milliseconds, scored] = outcome ?? [null, null, null, null];
        const lane = this.lanes[i];
        lane.aurocs.push(auroc);
        lane.margins.push(margin);
        lane.milliseconds.push(milliseconds);
        lane.scored.push(scored);
      });
    }
    this.rounds += turns.length;
    this.firsts.push(...firsts);
    if (picks) this.picks = picks;
  }

  /**
   * Return a lane's AUROC after each round, preceded by that of the first labels.
   *
   * @param {number} lane
   * @param {string} against "labels" for the number of labels on the x axis, otherwise seconds spent
   * @param {number} labelSeconds seconds per label
   * @returns {Course}
   */
  course(lane, against, labelSeconds) {
    const { aurocs, milliseconds } = this.lanes[lane];
    let x = 0;
    const xs = [x];
    for (const ms of milliseconds) {
      x += against === "labels" ? 1 : labelSeconds + (ms ?? 0) / 1000;
      xs.push(x);
    }
    return { xs, ys: [this.firstAuroc, ...aurocs] };
  }
}

/**
 * Return the x from which a course stays at `y` or above, or null if it ends below.
 *
 * @param {Course} course
 * @param {number} y
 * @returns {number | null}
 */
export function reaches({ xs, ys }, y) {
  let since = null;
  for (let i = ys.length - 1; i >= 0; i -= 1) {
    const reached = ys[i];
    if (reached == null || reached < y) break;
    since = xs[i];
  }
  return since;
}

/**
 * Return the percentiles for a box plot, ignoring nulls; null if there are no values.
 *
 * @param {(number | null)[]} values
 * @returns {Spread | null}
 */
export function spreadOf(values) {
  const sorted = ascending(values);
  if (!sorted.length) return null;
  const [low, q1, median, q3, high] = [0.1, 0.25, 0.5, 0.75, 0.9].map((share) => quantileOf(sorted, share));
  return { low, q1, median, q3, high, now: null };
}

/** @param {(number | null)[]} values */
function ascending(values) {
  return Float64Array.from(values.filter((value) => value != null)).sort();
}

/**
 * Return a quantile as numpy does, interpolated linearly.
 *
 * @param {Float64Array} sorted
 * @param {number} share from 0 to 1
 */
function quantileOf(sorted, share) {
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  return sorted[below] + (place - below) * (sorted[Math.min(below + 1, sorted.length - 1)] - sorted[below]);
}

/**
 * Compare selected labels with random ones; return a headline and the guide that shows it in the chart.
 *
 * The headline names the strategy that is compared with random selection, and the x from which the leader stays at or
 * above the AUROC that the follower has now. A single label moves an AUROC by chance, so there is no verdict before
 * `ENOUGH` rounds, and a lane leads only if all its AUROCs of the last `LATELY` rounds are above all those of the other.
 * The headline is null before the first round, or without both lanes.
 *
 * @param {Records} records
 * @param {Rival[]} lanes
 * @param {{ against: string, labelSeconds: number }} how
 * @returns {{ headline: string | null, guide: Guide | null }}
 */
export function verdict(records, lanes, { against, labelSeconds }) {
  const random = lanes.findIndex(({ strategy }) => strategy === "random");
  const chosen = heroOf(lanes);
  if (random < 0 || chosen < 0 || !records.rounds) return { headline: null, guide: null };
  const course = (/** @type {number} */ lane) => records.course(lane, against, labelSeconds);
  const [own, other] = [course(chosen), course(random)];
  const [ownLast, otherLast] = [own.ys.at(-1), other.ys.at(-1)];
  if (ownLast == null || otherLast == null) return { headline: null, guide: null };
  const without = (/** @type {string} */ headline) => ({ headline, guide: null });
  if (records.rounds < ENOUGH) return without(`Too early to say: fewer than ${ENOUGH} labels per strategy.`);
  const by = `by ${lanes[chosen].label}`;
  const [ownRange, otherRange] = [lately(own), lately(other)];
  if (Math.min(records.firstAuroc, ownRange.low, otherRange.low) >= 1)
    return without("The first labels are enough: AUROC is 1 already.");
  const isAhead = ownRange.low > otherRange.high;
  if (!isAhead && otherRange.low <= ownRange.high) {
    return ownRange.high <= records.firstAuroc && otherRange.high <= records.firstAuroc
      ? without(`So far neither labels chosen ${by} nor at random have taught anything.`)
      : without(`Undecided so far: labels chosen ${by} or at random.`);
  }
  const [leader, follower] = isAhead ? [own, other] : [other, own];
  const [leading, following] = isAhead ? [by, "at random"] : ["at random", by];
  const range = isAhead ? otherRange : ownRange;
  if (range.high <= records.firstAuroc)
    return without(`So far labels chosen ${following} have taught nothing.`);
  const y = Math.min(ownLast, otherLast);
  const from = reaches(leader, y);
  const to = follower.xs[follower.xs.length - 1];
  if (!from || range.low <= records.firstAuroc)
    return without(`So far labels chosen ${leading} teach more than those chosen ${following}.`);
  if (from >= 0.95 * to) return without(`Undecided so far: labels chosen ${by} or at random.`);
  const seconds = (/** @type {number} */ x) => `${x < 10 ? x.toFixed(1) : Math.round(x)} s`;
  const write = against === "labels" ? String : seconds;
  const headline =
    against === "labels"
      ? `${from} ${from === 1 ? "label" : "labels"} chosen ${leading} ${from === 1 ? "equals" : "equal"} ${to} chosen ${following}.`
      : `${write(from)} of labels chosen ${leading} equal ${write(to)} of labels chosen ${following}.`;
  return { headline, guide: { from, to, y, write } };
}

/**
 * Return the lowest and the highest AUROC of a course's last `LATELY` rounds.
 *
 * @param {Course} course
 */
function lately({ ys }) {
  const last = ys.slice(-LATELY).filter((y) => y != null);
  return { low: Math.min(...last), high: Math.max(...last) };
}

/**
 * Return the lane that the headline compares with random selection, -1 if there is none: the strategy in use unless
 * it is random, else the margin index, else the full scan.
 *
 * @param {Rival[]} lanes
 */
function heroOf(lanes) {
  const place = (/** @type {(lane: Rival) => boolean} */ wanted) => lanes.findIndex(wanted);
  const used = place((lane) => lane.in_use && lane.strategy !== "random");
  if (used >= 0) return used;
  const index = place((lane) => lane.strategy === "margin-index");
  return index >= 0 ? index : place((lane) => lane.strategy === "exhaustive");
}
