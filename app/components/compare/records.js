// What a race told so far, lane by lane, and what follows from it.

/** The records of one lane: null where it is out. */
class Lane {
  aurocs = [];
  margins = [];
  milliseconds = [];
  scored = [];
}

export class Records {
  constructor({ lanes, first_auroc: firstAuroc }) {
    this.firstAuroc = firstAuroc;
    this.lanes = lanes.map(() => new Lane());
    this.firsts = [];
    this.picks = lanes.map(() => "");
    this.rounds = 0;
  }

  /** Take in what is new, unless it is known by now. */
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

  /** A lane's AUROC after each round, the first labels' before it; against labels given, or seconds spent. */
  course(lane, against, labelSeconds) {
    const { aurocs, milliseconds } = this.lanes[lane];
    const xs = [0];
    for (const ms of milliseconds)
      xs.push(xs.at(-1) + (against === "labels" ? 1 : labelSeconds + (ms ?? 0) / 1000));
    return { xs, ys: [this.firstAuroc, ...aurocs] };
  }
}

/** From which x on a course stays at `y` or above; null where it is below at last. */
export function reaches({ xs, ys }, y) {
  let since = null;
  for (let i = ys.length - 1; i >= 0 && ys[i] != null && ys[i] >= y; i -= 1) since = xs[i];
  return since;
}

/** As numpy has it, between two values in proportion; null of none. Nulls do not count. */
export function quantile(values, share) {
  return quantileOf(ascending(values), share);
}

/** The percentiles that a box plot is drawn from. */
export function spreadOf(values) {
  const sorted = ascending(values);
  if (!sorted.length) return null;
  const [low, q1, median, q3, high] = [0.1, 0.25, 0.5, 0.75, 0.9].map((share) => quantileOf(sorted, share));
  return { low, q1, median, q3, high, now: null };
}

function ascending(values) {
  return Float64Array.from(values.filter((value) => value != null)).sort();
}

function quantileOf(sorted, share) {
  if (!sorted.length) return null;
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  return sorted[below] + (place - below) * (sorted[Math.min(below + 1, sorted.length - 1)] - sorted[below]);
}

/**
 * What the race says, and the guide that shows it: chosen labels against random ones, whichever way it comes out.
 *
 * What the one behind has reached by now, the other one reached for good at an earlier place.
 */
export function verdict(records, lanes, { against, labelSeconds }) {
  const random = lanes.findIndex(({ strategy }) => strategy === "random");
  const chosen = heroOf(lanes);
  if (random < 0 || chosen < 0 || records.rounds < 5) return { said: null, guide: null };
  const course = (lane) => records.course(lane, against, labelSeconds);
  const [own, other] = [course(chosen), course(random)];
  const last = ({ ys }) => ys.at(-1);
  if (last(own) == null || last(other) == null) return { said: null, guide: null };
  const isAhead = last(own) >= last(other);
  const [leader, follower] = isAhead ? [own, other] : [other, own];
  const from = reaches(leader, last(follower));
  const to = follower.xs.at(-1);
  const write = against === "labels" ? (x) => String(x) : (x) => `${x < 10 ? x.toFixed(1) : Math.round(x)} s`;
  const guide = { from, to, y: last(follower), write };
  const names = isAhead ? ["chosen", "random"] : ["random", "chosen"];
  if (!from) return { said: `So far ${names[1]} labels have taught nothing.`, guide: null };
  if (from >= 0.95 * to) return { said: "So far random labels are as good as chosen ones.", guide: null };
  const said =
    against === "labels"
      ? `${from} ${names[0]} ${from === 1 ? "label equals" : "labels equal"} ${to} ${names[1]} ones.`
      : `${write(from)} of ${names[0]} labels equal ${write(to)} of ${names[1]} ones.`;
  return { said, guide };
}

/** Whom the headline is about: who is in use, if that is not chance; else the margin index, or the full scan. */
function heroOf(lanes) {
  const place = (wanted) => lanes.findIndex(wanted);
  const used = place((lane) => lane.in_use && lane.strategy !== "random");
  if (used >= 0) return used;
  const index = place((lane) => lane.strategy === "margin-index");
  return index >= 0 ? index : place((lane) => lane.strategy === "exhaustive");
}
