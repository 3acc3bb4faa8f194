// The margin of the progress page: what the audit says, how large it is, and how many answers there are.

import { element, say } from "../shared/dom.js";
import { ABSENT, Tally, whole } from "../shared/figures.js";
import { isShortcut } from "../shared/keys.js";

const MEASURES = [
  { name: "precision", label: "Precision", about: "of the predicted yes, those that are" },
  { name: "recall", label: "Recall", about: "of the unlabeled yes, those predicted" },
  { name: "found", label: "Found", about: "of all yes, labeled or predicted" },
  { name: "prevalence", label: "Prevalence", about: "of all items, those that are a yes" },
];

const FAR_APART = 0.4; // an interval this wide says more than the estimate in it

export class Audit {
  #rows;
  #said;
  #shares;
  #tally;
  #choose;

  /** `choose(share)` is told how many of the items are to be for the audit from now on, 0 … 1. */
  constructor(card, choose) {
    const list = card.querySelector(".rows");
    this.#rows = MEASURES.map((measure) => new Measure(list, measure));
    this.#said = card.querySelector(".audited");
    this.#shares = card.querySelector(".shares");
    this.#tally = new Tally(card);
    this.#choose = choose;
  }

  show({ audit, counts, items }) {
    for (const [i, row] of this.#rows.entries())
      row.show(audit.judged?.[MEASURES[i].name] ?? null, audit.level);
    say(this.#said, sentence(audit, items));
    this.#showShares(audit);
    this.#tally.show(counts);
  }

  #showShares({ share, shares }) {
    if (this.#shares.dataset.written !== String(shares)) {
      this.#shares.dataset.written = String(shares);
      this.#shares.replaceChildren(...shares.map((value) => this.#makeShare(value)));
    }
    for (const button of this.#shares.children) {
      const isChosen = Number(button.dataset.share) === share;
      button.setAttribute("aria-checked", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1;
    }
  }

  #makeShare(share) {
    const button = element("button", { type: "button", className: "tab", role: "radio" }, whole(100 * share));
    button.dataset.share = share;
    button.addEventListener("click", () => this.#choose(share));
    button.addEventListener("keydown", (event) => this.#moved(event, button));
    return button;
  }

  #moved(event, button) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || isShortcut(event)) return;
    event.preventDefault();
    const all = [...this.#shares.children];
    const next = all[(all.indexOf(button) + step + all.length) % all.length];
    next.focus();
    next.click();
  }
}

function sentence({ judged, drawn: asked, share }, items) {
  if (judged) {
    const answers = `${whole(judged.answers)} ${judged.answers === 1 ? "answer" : "answers"}, ${whole(judged.yes)} yes`;
    return `From ${answers}, drawn with known probability and kept out of training.`;
  }
  if (asked) return "Too few answers of the audit to say anything yet.";
  if (share) return "The audit begins with the next items.";
  return `Labels at the margin are the hardest items there are. What holds for all ${whole(items)} is told by an audit: a share of the items, drawn with known probability and kept out of training.`;
}

/** A share with its interval, in figures and as a bar from 0 to 100 %. */
class Measure {
  #value = element("span", { className: "value" });
  #aside = element("span", { className: "aside" });
  #bar;
  #range = element("i", { className: "range" });
  #dot = element("i", { className: "estimate" });

  constructor(list, { label, about }) {
    this.#bar = element("div", { className: "interval", "aria-hidden": "true" }, this.#range, this.#dot);
    const name = element("dt", { title: about }, element("span", {}, label), this.#aside);
    const small = element("small", {}, about);
    list.append(
      element("div", { className: "measure" }, name, element("dd", {}, this.#value, small), this.#bar),
    );
  }

  show(interval, level) {
    this.#bar.hidden = !interval;
    say(
      this.#aside,
      interval ? `${whole(100 * level)} %: ${percent(interval.low)} to ${percent(interval.high)}` : "",
    );
    if (!interval) {
      say(this.#value, ABSENT);
      return;
    }
    const { estimate, low, high } = interval;
    const isTold = estimate !== null && high - low <= FAR_APART;
    say(this.#value, isTold ? percent(estimate) : `${percent(low)} … ${percent(high)}`);
    this.#range.style.left = `${100 * low}%`;
    this.#range.style.width = `${100 * (high - low)}%`;
    this.#dot.hidden = !isTold;
    this.#dot.style.left = `${100 * (estimate ?? 0)}%`;
  }
}

/** Small shares need more digits. */
function percent(share) {
  const digits = share > 0 && share < 0.1 ? (share < 0.01 ? 2 : 1) : 0;
  return `${(100 * share).toFixed(digits)} %`;
}
