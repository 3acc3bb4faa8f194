// What a blind comparison found. Nothing changes here: it is drawn once for each payload.

import { element, glyph, say } from "../shared/dom.js";
import { mayChoose, releaseFocus } from "../shared/keys.js";
import { Curves } from "./curves.js";

class Verdict {
  constructor(root) {
    this.root = root;
    for (const part of ["title", "about", "curves", "lines"]) this[part] = root.querySelector(`.${part}`);
    this.abort = new AbortController();
    for (const kind of ["keydown", "click"]) {
      const options = { signal: this.abort.signal, capture: true };
      document.addEventListener(kind, (event) => mayChoose(event) && releaseFocus(), options);
    }
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.curves);
  }

  close() {
    this.abort.abort();
    this.observer.disconnect();
  }

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
    if (!this.data) return;
    this.chart.show({
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

  symbol(strategy) {
    return this.root.getElementById(`s-${strategy}`) ? strategy : "other";
  }
}

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

function number(value, aside) {
  return element(
    "span",
    { className: "number", role: "cell" },
    element("b", {}, value),
    element("small", {}, aside),
  );
}

export default function (component) {
  const root = component.parentElement;
  root.closecallVerdict ??= new Verdict(root);
  root.closecallVerdict.update(component);
  return () => {
    root.closecallVerdict?.close();
    root.closecallVerdict = null;
  };
}
