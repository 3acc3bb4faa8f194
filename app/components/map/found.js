// The list of items in a lasso, nearest the hyperplane first, which covers a part of the map.

import { alikeAddress } from "../shared/alike.js";
import { element, glyph, part, say } from "../shared/dom.js";
import { fixed, whole } from "../shared/figures.js";
import { absenceOf, openingOf } from "../shared/text.js";

/** @import { LassoData, MapItem } from "../types" */

/** @type {Record<string, string>} */
const STANDS = { yes: "answered yes", no: "answered no", skip: "skipped", unsure: "unsure", tied: "tied" };

export class Found {
  /**
   * @param {HTMLElement} card
   * @param {() => void} closed
   * @param {(lasso: unknown) => void} opened called with the lasso whose items are to be labeled
   */
  constructor(card, closed, opened) {
    this.place = part(card, ".found");
    this.count = part(card, ".count");
    this.which = part(card, ".which");
    this.cells = part(card, ".found .cells");
    this.labelButton = part(card, ".label");
    this.closed = closed;
    this.opened = opened;
    this.offersGrid = false;
    /** @type {unknown} */
    this.lasso = null; // of the items in view
    this.labelButton.addEventListener("click", () => this.label());
    part(card, ".shut").addEventListener("click", () => this.close());
  }

  get isOpen() {
    return !this.place.hidden;
  }

  close() {
    this.place.hidden = true;
    this.cells.replaceChildren();
    this.closed();
  }

  /** Open the list before its items have arrived. */
  open() {
    say(this.count, "Looking…");
    say(this.which, "");
    this.cells.replaceChildren();
    this.labelButton.hidden = true;
    this.place.hidden = false;
    this.place.focus({ preventScroll: true });
  }

  /** @param {string} problem */
  fail(problem) {
    say(this.count, "Nothing to show");
    say(this.which, problem);
  }

  /**
   * Say why the items can't be opened as a grid.
   *
   * @param {string} problem
   */
  refuse(problem) {
    say(this.which, problem);
    this.labelButton.hidden = true;
  }

  /** Open the items as a grid, unless none of them is left to answer. */
  label() {
    const { labelButton } = this;
    if (labelButton.hidden || labelButton.getAttribute("aria-disabled") === "true") return;
    labelButton.setAttribute("aria-disabled", "true"); // until the page changes, or says why it doesn't
    this.opened(this.lasso);
  }

  /**
   * @param {LassoData} data
   * @param {string} word the display name of an item
   */
  show(data, word) {
    say(this.count, counted(data.found, word));
    say(this.which, sentence(data));
    this.lasso = data.lasso;
    this.labelButton.hidden = !(this.offersGrid && data.open);
    this.labelButton.setAttribute("aria-disabled", "false");
    this.place.dataset.kind = data.items.some(({ opening }) => opening) ? "text" : "image";
    this.cells.replaceChildren(...data.items.map(cellOf));
    this.place.scrollTop = 0;
  }
}

/**
 * Return a number of items in words: "1 image", "2,300 images".
 *
 * @param {number} n
 * @param {string} word
 */
export function counted(n, word) {
  return `${whole(n)} ${word}${n === 1 ? "" : "s"}`;
}

/**
 * Return a score with its sign: "+0.1200", "−0.1200".
 *
 * @param {number} score
 */
export function signed(score) {
  return `${score < 0 ? "−" : "+"}${fixed(4)(Math.abs(score))}`;
}

/** @param {MapItem} item */
export function standsOf({ stands }) {
  return STANDS[stands] ?? "";
}

/**
 * Return what the list says of the items in the lasso.
 *
 * @param {LassoData} data
 */
export function sentence({ found, positive, open, items }) {
  if (!found) return "Draw the lasso around some of the coloured area.";
  const shown = items.length < found ? `The ${items.length} ` : "";
  const done = open === 0 ? "All have an answer." : "";
  if (positive === null)
    return [shown && `${shown}that come first are shown.`, done].filter(Boolean).join(" ");
  const side = `${whole(positive)} on the side of yes, ${whole(found - positive)} on the side of no.`;
  const order = shown ? `${shown}nearest the hyperplane are shown.` : "Nearest the hyperplane first.";
  return [side, order, done].filter(Boolean).join(" ");
}

/** @param {MapItem} item */
function cellOf(item) {
  const { id, alt, score, src, opening, stands } = item;
  const picture = opening
    ? openingOf(opening)
    : src
      ? element("img", { src, alt: "", draggable: false })
      : element("span", { className: "missing" }, absenceOf(item));
  const value = score === null ? "" : signed(score);
  const name = [alt, value, standsOf(item), "find similar"].filter(Boolean).join(", ");
  const link = element("a", { href: alikeAddress(id), title: alt, "aria-label": name }, picture);
  if (standsOf(item)) link.append(element("span", { className: "badge" }, glyph(`g-${stands}`)));
  link.append(element("span", { className: "value" }, value));
  link.dataset.item = String(id);
  link.dataset.stands = stands;
  return element("li", {}, link);
}
