// The result of a blind comparison. It doesn't change, so it is drawn once per payload.

import { element, glyph, part, say } from "../shared/dom.js";
import { Help } from "../shared/help.js";
import { takeKeys, watchPickers } from "../shared/keys.js";
import { mounting } from "../shared/mount.js";
import { Curves } from "./curves.js";

/** @import { Component, Side, VerdictData } from "../types" */

const ABOUT =
  "Both strategies chose as many items for labeling; the curves show how well their classifiers do.";

class Verdict {
  /**
   * @param {ShadowRoot} root
   * @param {Component<VerdictData>} component
   */
  constructor(root, component) {
    this.root = root;
    this.data = component.data;
    this.card = part(root, ".card");
    this.title = part(root, ".title");
    this.about = part(root, ".about");
    /** @type {SVGElement} */
    this.curves = part(root, ".curves");
    this.lines = part(root, ".lines");
    /** @type {Curves | null} */
    this.chart = null;
    this.abort = new AbortController();
    watchPickers(this.abort.signal);
    takeKeys(this);
    new Help(this.card, () => ({ about: ABOUT })).listen(this, this.abort.signal);
    this.observer = new ResizeObserver(() => this.draw());
    // The labels at the curves have the size of the texts, which the card has to hold.
    for (const one of [this.card, this.curves]) this.observer.observe(one);
  }

  close() {
    this.abort.abort();
    this.observer.disconnect();
  }

  /** @param {Component<VerdictData>} component */
  update({ data }) {
    this.data = data;
    say(this.title, data.headline);
    say(this.about, data.about);
    const sides = data.sides.map((side) => ({ ...side, symbol: this.symbol(side.strategy) }));
    this.lines.replaceChildren(...sides.map(row));
    this.chart = new Curves(this.curves, sides);
    this.curves.toggleAttribute(
      "hidden",
      sides.every(({ curve }) => curve.length < 2),
    );
    this.curves.setAttribute("aria-label", `AUROC against labels. ${data.headline}.`);
    this.draw();
  }

  draw() {
    this.chart?.show({
      courses: this.data.sides.map(({ curve }) => ({
        xs: curve.map(([n]) => n),
        ys: curve.map(([, value]) => value),
      })),
      most: Math.max(1, this.data.most),
      guide: null,
      name: "labels of each",
      write: String,
    });
  }

  /** @param {string} strategy */
  symbol(strategy) {
    return this.root.getElementById(`s-${strategy}`) ? strategy : "other";
  }
}

/** @param {Side & { symbol: string }} side */
function row({ symbol, label, firsts, yes, labels, auroc }) {
  const name = element("span", { className: "name" }, element("b", {}, label));
  const who = element(
    "span",
    { className: "who", role: "rowheader" },
    glyph(`s-${symbol}`, `strategy ${symbol}`),
    name,
  );
  const pictures = firsts.map((first) => {
    const answer = first.yes ? "yes" : "no";
    return element(
      "figure",
      {},
      element("img", { src: first.src, alt: answer }),
      glyph(`g-${answer}`, `glyph ${answer}`),
    );
  });
  const chosen = element("span", { className: "chosen", role: "cell" }, ...pictures);
  const found = number(String(yes), `of ${labels}`);
  return element(
    "div",
    { className: `line ${symbol}`, role: "row" },
    who,
    chosen,
    found,
    number(auroc === null ? "–" : auroc.toFixed(4), ""),
  );
}

/**
 * @param {string} value
 * @param {string} aside
 */
function number(value, aside) {
  return element(
    "span",
    { className: "number", role: "cell" },
    element("b", {}, value),
    element("small", {}, aside),
  );
}

export default mounting(Verdict);
