// The margin of the progress page: the audit's estimates, its size, and the counts of answers.

import { element, part, partsOf, say } from "../shared/dom.js";
import { ABSENT, Tally, whole } from "../shared/figures.js";
import { isShortcut } from "../shared/keys.js";

/** @import { AuditData, Interval, MeasureName, ProgressData } from "../types" */

/** @type {{ name: MeasureName, label: string, about: string }[]} */
const MEASURES = [
  { name: "precision", label: "Precision", about: "share of predicted yes that are right" },
  { name: "recall", label: "Recall", about: "share of unlabeled yes that are predicted" },
  { name: "found", label: "Found", about: "share of all yes that are labeled or predicted" },
  { name: "prevalence", label: "Prevalence", about: "share of all items that are yes" },
];

const FAR_APART = 0.4; // beyond this width of the interval the estimate is not shown

export class Audit {
  /** @type {Measure[]} */
  #rows;
  /** @type {HTMLElement} */
  #summary;
  /** @type {HTMLElement} */
  #shares;
  /** @type {Tally} */
  #tally;
  /** @type {(share: number) => void} */
  #choose;

  /**
   * Create the margin; `choose(share)` sets the share of items, 0 … 1, that are drawn for the audit from now on.
   *
   * @param {HTMLElement} card
   * @param {(share: number) => void} choose
   */
  constructor(card, choose) {
    const list = part(card, ".rows");
    this.#rows = MEASURES.map((measure) => new Measure(list, measure));
    this.#summary = part(card, ".audited");
    this.#shares = part(card, ".shares");
    this.#tally = new Tally(card);
    this.#choose = choose;
  }

  /** @param {ProgressData} data */
  show({ audit, counts, items, is_owner }) {
    for (const [i, row] of this.#rows.entries())
      row.show(audit.judged?.[MEASURES[i].name] ?? null, audit.level);
    say(this.#summary, sentence(audit, items));
    this.#showShares(audit, is_owner);
    this.#tally.show(counts);
  }

  /**
   * @param {AuditData} audit
   * @param {boolean} mayChange
   */
  #showShares({ share, shares }, mayChange) {
    if (this.#shares.dataset.written !== String(shares)) {
      this.#shares.dataset.written = String(shares);
      this.#shares.replaceChildren(...shares.map((value) => this.#makeShare(value)));
    }
    for (const button of partsOf(this.#shares, "button")) {
      const isChosen = Number(button.dataset.share) === share;
      button.setAttribute("aria-checked", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1;
      button.toggleAttribute("disabled", !mayChange);
      button.title = mayChange ? "" : "Owners choose this";
    }
  }

  /** @param {number} share */
  #makeShare(share) {
    const button = element("button", { type: "button", className: "tab", role: "radio" }, whole(100 * share));
    button.dataset.share = String(share);
    button.addEventListener("click", () => this.#choose(share));
    button.addEventListener("keydown", (event) => this.#moved(event, button));
    return button;
  }

  /**
   * @param {KeyboardEvent} event
   * @param {HTMLElement} button
   */
  #moved(event, button) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || isShortcut(event)) return;
    event.preventDefault();
    const all = partsOf(this.#shares, "button");
    const next = all[(all.indexOf(button) + step + all.length) % all.length];
    next.focus();
    next.click();
  }
}

/**
 * @param {AuditData} audit
 * @param {number} items
 */
function sentence({ judged, drawn: asked, share }, items) {
  if (judged) {
    const answers = `${whole(judged.answers)} ${judged.answers === 1 ? "answer" : "answers"}, ${whole(judged.yes)} yes`;
    const others = asked - judged.answers;
    const without =
      others > 0
        ? ` ${whole(others)} more don’t count: the strategy selected them, too, or they have no label yet.`
        : "";
    return `From ${answers}, drawn with known probability and kept out of training.${without}`;
  }
  if (asked) return "Too few answers of the audit to say anything yet.";
  if (share) return "The audit begins with the next items.";
  return `Labels at the margin are the hardest items there are. An audit estimates the figures for all ${whole(items)}: a share of the items, drawn with known probability and kept out of training.`;
}

/** A share and its interval, in figures and as a bar from 0 to 100 %. */
class Measure {
  #value = element("span", { className: "value" });
  #aside = element("span", { className: "aside" });
  /** @type {HTMLElement} */
  #bar;
  #range = element("i", { className: "range" });
  #dot = element("i", { className: "estimate" });

  /**
   * @param {Element} list
   * @param {{ label: string, about: string }} measure
   */
  constructor(list, { label, about }) {
    this.#bar = element("div", { className: "interval", "aria-hidden": "true" }, this.#range, this.#dot);
    const name = element("dt", { title: about }, element("span", {}, label), this.#aside);
    const small = element("small", {}, about);
    list.append(
      element("div", { className: "measure" }, name, element("dd", {}, this.#value, small), this.#bar),
    );
  }

  /**
   * @param {Interval | null} interval
   * @param {number} level
   */
  show(interval, level) {
    const { value, aside, isKnown, isPrecise } = inWords(interval, level);
    say(this.#value, value);
    say(this.#aside, aside);
    this.#bar.hidden = !isKnown;
    if (!interval) return;
    const { estimate, low, high } = interval;
    this.#range.style.left = `${100 * low}%`;
    this.#range.style.width = `${100 * (high - low)}%`;
    this.#dot.hidden = !isPrecise;
    this.#dot.style.left = `${100 * (estimate ?? 0)}%`;
  }
}

/**
 * Write an estimated share: its value, or the interval if this is wide; beside it, the interval at its level.
 *
 * An interval from 0 to 1 without an estimate says that nothing is known.
 *
 * @param {Interval | null} interval
 * @param {number} level
 */
export function inWords(interval, level) {
  const isKnown = interval !== null && (interval.estimate !== null || interval.high - interval.low < 1);
  if (!isKnown)
    return { value: ABSENT, aside: interval ? "can’t be estimated yet" : "", isKnown, isPrecise: false };
  const { estimate, low, high } = interval;
  const isPrecise = estimate !== null && high - low <= FAR_APART;
  return {
    value: isPrecise ? percent(estimate) : `${percent(low)} … ${percent(high)}`,
    aside: `${whole(100 * level)} %: ${percent(low)} to ${percent(high)}`,
    isKnown,
    isPrecise,
  };
}

/**
 * Format a share as a percentage, with more digits for small ones.
 *
 * @param {number} share
 */
function percent(share) {
  const digits = share > 0 && share < 0.1 ? (share < 0.01 ? 2 : 1) : 0;
  return `${(100 * share).toFixed(digits)} %`;
}
