// The margin: the search's time, the share of the pool that it compared, its recall, and positives by metric.

import { element, part, say } from "../shared/dom.js";
import { Figure, fixed, Tally, whole } from "../shared/figures.js";

/** @import { About, Among, Counts, Found, Learning, Metric } from "../types" */

/** @type {Record<Metric, string>} */
const METRICS = { original: "Original", learned: "Learned" };

export class Margin {
  /** @type {Figure} */
  #time;
  /** @type {Figure} */
  #share;
  /** @type {Figure} */
  #recall;
  /** @type {Figure} */
  #metric;
  /** @type {Tally} */
  #tally;
  /** @type {HTMLElement} */
  #among;
  /** @type {Map<Metric, ReturnType<typeof makeBar>>} */
  #bars;

  /** @param {HTMLElement} card */
  constructor(card) {
    const list = part(card, ".rows");
    this.#time = new Figure(list, ["Search time"], "ms");
    this.#share = new Figure(list, ["Share searched"], "%");
    this.#recall = new Figure(list, ["Recall of the nearest 10"]);
    this.#metric = new Figure(list, ["Metric"], "labels");
    this.#tally = new Tally(card);
    this.#among = part(card, ".among");
    const names = /** @type {Metric[]} */ (Object.keys(METRICS));
    this.#bars = new Map(names.map((name) => [name, makeBar(name, part(card, ".metrics"))]));
  }

  /**
   * @param {About} about
   * @param {Counts} counts
   */
  show({ search, metric, among }, counts) {
    this.#time.show({
      value: search && fixed(2)(search.ms),
      aside:
        search?.exact_ms == null
          ? ""
          : `exact scan ${fixed(search.exact_ms < 10 ? 1 : 0)(search.exact_ms)} ms`,
      history: search?.course.ms ?? [],
      scale: Math.log,
    });
    this.#share.show({
      value: search && fixed(1)((100 * search.compared) / search.items),
      aside: search ? `${whole(search.compared)} of ${whole(search.items)}` : "",
      history: search?.course.share ?? [],
    });
    this.#recall.show({
      value: search?.recall == null ? null : fixed(2)(search.recall),
      aside: search ? (search.recall == null ? "being compared…" : "against the exact scan") : "",
      history: search?.course.recall ?? [],
    });
    this.#metric.show({
      value: metric.labels == null ? null : whole(metric.labels),
      aside: learnedWhen(metric),
    });
    this.#showAmong(among, metric);
    this.#tally.show(counts);
  }

  /**
   * @param {Among | null} among
   * @param {Learning} metric
   */
  #showAmong(among, metric) {
    const note = part(this.#among, ".aside-note");
    say(
      part(this.#among, ".heading"),
      among?.by_truth
        ? `“${among.named}” among the nearest ${among.nearest}`
        : `Yes answers among the nearest${among ? ` ${among.nearest}` : ""}`,
    );
    for (const [name, { place, bar, value }] of this.#bars) {
      const row = among?.rows[name];
      place.hidden = !row;
      if (!among || !row) continue;
      bar.style.width = `${(100 * row.yes) / among.nearest}%`;
      say(value, row.of ? `${row.yes} of ${row.of}` : "none answered");
    }
    const { original, learned } = among?.rows ?? {};
    const unseen =
      original && learned && among?.by_truth
        ? `Without an answer: ${share(original)} by the original metric, ${share(learned)} by the learned one.`
        : "";
    const basis = learned && !among?.by_truth ? "Only answered items are counted." : "";
    say(
      note,
      metric.missing ? `${metric.missing}.` : metric.problem ? `${metric.problem}.` : unseen || basis,
    );
  }
}

/** @param {Found} found */
function share({ new_yes: yes, new: of }) {
  return `${yes} of ${of}`;
}

/** @param {Learning} metric */
function learnedWhen({ labels, age, is_coming: isComing, missing, newer }) {
  if (labels == null) return isComing ? "being learned…" : missing ? "not learned yet" : "";
  const next = isComing ? ", learning…" : newer ? ", a newer one is next" : "";
  return `learned ${ago(age ?? 0)}${next}`;
}

/** @param {number} seconds */
function ago(seconds) {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s ago`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  return `${Math.round(seconds / 3600)} h ago`;
}

/**
 * @param {Metric} name
 * @param {Element} list
 */
function makeBar(name, list) {
  const bar = element("i", { className: name });
  const value = element("b");
  const place = element(
    "li",
    {},
    element("span", {}, METRICS[name]),
    element("span", { className: "track" }, bar),
    value,
  );
  list.append(place);
  return { place, bar, value };
}
