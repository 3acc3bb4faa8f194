// What a race told so far, lane by lane, and what follows from it.

/** @import { Course, Guide, Lane as Rival, LaneTurn, RaceData, RaceNews, Spread } from "../types" */

/** The records of one lane: null where it is out. */
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
   * Take in what is new, unless it is known by now.
   *
   * @param {Pick<RaceNews, "known" | "turns" | "firsts" | "picks">} news
   */
  take({ known, turns, firsts, picks }) {
    if (known !== this.rounds) return;
    for (const turn of turns) {
      turn.forEach((told, i) => {
        const [auroc, margin, milliseconds, scored] = told ?? [null, null, null, null];
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
   * A lane's AUROC after each round, the first labels' before it; against labels given, or seconds spent.
   *
   * @param {number} lane
   * @param {string} against
   * @param {number} labelSeconds
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
 * From which x on a course stays at `y` or above; null where it is below at last.
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
 * As numpy has it, between two values in proportion; null of none. Nulls do not count.
 *
 * @param {(number | null)[]} values
 * @param {number} share
 */
export function quantile(values, share) {
  const sorted = ascending(values);
  return sorted.length ? quantileOf(sorted, share) : null;
}

/**
 * The percentiles that a box plot is drawn from.
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
 * @param {Float64Array} sorted
 * @param {number} share
 */
function quantileOf(sorted, share) {
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  return sorted[below] + (place - below) * (sorted[Math.min(below + 1, sorted.length - 1)] - sorted[below]);
}

/**
 * What the race says, and the guide that shows it: chosen labels against random ones, whichever way it comes out.
 *
 * What the one behind has reached by now, the other one reached for good at an earlier place.
 *
 * @param {Records} records
 * @param {Rival[]} lanes
 * @param {{ against: string, labelSeconds: number }} how
 * @returns {{ said: string | null, guide: Guide | null }}
 */
export function verdict(records, lanes, { against, labelSeconds }) {
  const random = lanes.findIndex(({ strategy }) => strategy === "random");
  const chosen = heroOf(lanes);
  if (random < 0 || chosen < 0 || records.rounds < 5) return { said: null, guide: null };
  const course = (/** @type {number} */ lane) => records.course(lane, against, labelSeconds);
  const [own, other] = [course(chosen), course(random)];
  const [ownLast, otherLast] = [own.ys.at(-1), other.ys.at(-1)];
  if (ownLast == null || otherLast == null) return { said: null, guide: null };
  const isAhead = ownLast >= otherLast;
  const [leader, follower] = isAhead ? [own, other] : [other, own];
  const y = Math.min(ownLast, otherLast);
  const from = reaches(leader, y);
  const to = follower.xs[follower.xs.length - 1];
  const seconds = (/** @type {number} */ x) => `${x < 10 ? x.toFixed(1) : Math.round(x)} s`;
  const write = against === "labels" ? String : seconds;
  const names = isAhead ? ["chosen", "random"] : ["random", "chosen"];
  if (!from) return { said: `So far ${names[1]} labels have taught nothing.`, guide: null };
  if (from >= 0.95 * to) return { said: "So far random labels are as good as chosen ones.", guide: null };
  const said =
    against === "labels"
      ? `${from} ${names[0]} ${from === 1 ? "label equals" : "labels equal"} ${to} ${names[1]} ones.`
      : `${write(from)} of ${names[0]} labels equal ${write(to)} of ${names[1]} ones.`;
  return { said, guide: { from, to, y, write } };
}

/**
 * Whom the headline is about: who is in use, if that is not chance; else the margin index, or the full scan.
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
