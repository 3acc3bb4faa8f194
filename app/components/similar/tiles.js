// The items in view, in one list or in two side by side, each with its rank and nearness.

import { alikeMark } from "../shared/alike.js";
import { around, element, glyph, part, partsOf, present, say, treeOf } from "../shared/dom.js";
import { fixed, whole } from "../shared/figures.js";
import { absenceOf, openingOf } from "../shared/text.js";

/** @import { Metric, Opening, SimilarCell } from "../types" */

/** @import { Picks } from "./picks.js" */

/** @type {Record<Metric, string>} */
const LISTS = { original: "Original", learned: "Learned" };
/** @type {Record<string, string>} */
const STANDS = {
  yes: "answered yes",
  no: "answered no",
  skip: "skipped",
  unsure: "unsure",
  tied: "tied",
  held: "in another session's view",
};

export class Tiles {
  /** @type {HTMLElement} */
  #place;
  /** @type {Map<string, HTMLElement>} */
  #tiles = new Map(); // by list and item
  /** @type {SimilarCell[]} */
  #cells = [];

  /** @param {HTMLElement} place */
  constructor(place) {
    this.#place = place;
  }

  /**
   * Show the cells; tiles that exist already are reused.
   *
   * @param {SimilarCell[]} cells
   * @param {Metric[]} names
   */
  paint(cells, names) {
    this.#cells = cells;
    const before = this.#tiles;
    this.#tiles = new Map(cells.map((cell) => [nameOf(cell), before.get(nameOf(cell)) ?? makeTile(cell)]));
    const focused = /** @type {HTMLElement | null} */ (treeOf(this.#place).activeElement);
    const lists = names.map((name) => {
      const own = cells.filter((cell) => cell.list === name).map((cell) => placeOf(this.#tileOf(cell)));
      const cellsOf = element(
        "div",
        { className: "cells", role: "group", "aria-label": `${LISTS[name]} metric, nearest first` },
        ...own,
      );
      return element("div", { className: "list" }, element("h2", {}, LISTS[name]), cellsOf);
    });
    this.#place.dataset.lists = String(names.length);
    this.#place.dataset.kind = cells.some((cell) => cell.opening) ? "text" : "image";
    this.#place.replaceChildren(...lists);
    if (focused?.isConnected) focused.focus({ preventScroll: true });
  }

  /** @param {SimilarCell} cell */
  #tileOf(cell) {
    return present(this.#tiles.get(nameOf(cell)));
  }

  /**
   * Return the place of the tile that contains an element, -1 if there is none.
   *
   * @param {Element} target
   */
  placeOf(target) {
    return this.#placeOf(around(target, ".tile"));
  }

  /**
   * Return the place of the text that a button opens, -1 if it opens none.
   *
   * @param {Element} target
   */
  placeToRead(target) {
    return this.#placeOf(around(target, ".read")?.parentElement?.querySelector(".tile"));
  }

  /** @param {Element | null | undefined} tile */
  #placeOf(tile) {
    return tile ? this.#cells.findIndex((cell) => this.#tiles.get(nameOf(cell)) === tile) : -1;
  }

  /** @param {Picks} picks */
  show(picks) {
    this.#cells.forEach((cell, place) => {
      const tile = this.#tileOf(cell);
      const isPicked = picks.has(cell);
      const mark = cell.selection ? (isPicked ? "picked" : "") : cell.stands || "waiting";
      if (tile.dataset.mark !== mark) {
        tile.dataset.mark = mark;
        const symbol = mark && mark !== "waiting" ? [glyph(`g-${mark}`)] : [];
        part(tile, ".badge").replaceChildren(...symbol);
      }
      const near = nearnessOf(cell);
      say(part(tile, ".rank"), whole(cell.place + 1));
      say(part(tile, ".angle"), near);
      tile.dataset.selection = cell.selection ?? "";
      const stands = cell.selection
        ? isPicked
          ? "selected"
          : "open"
        : (STANDS[cell.stands ?? ""] ?? "open soon");
      const title = cell.opening?.title ? `, ${cell.opening.title}` : "";
      const said = [`${cell.alt}${title}`, cell.alike, whole(cell.place + 1), near, stands];
      tile.setAttribute("aria-label", said.filter(Boolean).join(", "));
      tile.setAttribute("aria-pressed", String(isPicked));
      tile.setAttribute("aria-disabled", String(!cell.selection));
      tile.classList.toggle("cursor", place === picks.cursor);
      tile.tabIndex = place === picks.cursor ? 0 : -1;
      for (const read of partsOf(present(tile.parentElement), ":scope > .read"))
        read.tabIndex = tile.tabIndex;
    });
  }

  /**
   * Scroll the tile under the cursor into view and focus it.
   *
   * @param {number} cursor
   */
  follow(cursor) {
    const cell = this.#cells[cursor];
    const tile = cell && this.#tiles.get(nameOf(cell));
    tile?.scrollIntoView({ block: "nearest" });
    tile?.focus({ preventScroll: true });
  }

  /**
   * Return the cursor's place after an arrow key: the nearest tile on the screen in that direction.
   *
   * @param {number} cursor
   * @param {string} key
   * @returns {number}
   */
  toward(cursor, key) {
    const last = this.#cells.length - 1;
    if (key === "ArrowLeft" || key === "ArrowRight") {
      return Math.max(0, Math.min(last, cursor + (key === "ArrowRight" ? 1 : -1)));
    }
    const boxes = this.#cells.map((cell) => this.#tileOf(cell).getBoundingClientRect());
    const own = boxes[cursor];
    const isBeyond = (/** @type {DOMRect} */ box) =>
      key === "ArrowDown" ? box.top >= own.bottom - 1 : box.bottom <= own.top + 1;
    const distance = (/** @type {DOMRect} */ box) =>
      Math.abs(box.top - own.top) * 4 + Math.abs(box.left - own.left);
    const beyond = boxes.map((box, place) => ({ box, place })).filter(({ box }) => isBeyond(box));
    return beyond.length
      ? beyond.reduce((a, b) => (distance(b.box) < distance(a.box) ? b : a)).place
      : cursor;
  }
}

/** @param {SimilarCell} cell */
export function standing(cell) {
  return STANDS[cell.stands ?? ""] ?? "being made ready";
}

/**
 * Format a cell's angle, overlap, distance or kernel value.
 *
 * @param {SimilarCell} cell
 */
function nearnessOf({ value, measure }) {
  if (measure === "angle") return `${fixed(1)(value)}°`;
  return measure === "overlap" ? `${fixed(1)(100 * value)}\u00a0%` : fixed(3)(value);
}

/** @param {{ list: string, id: number }} cell */
function nameOf({ list, id }) {
  return `${list}/${id}`;
}

/** @param {SimilarCell} cell */
function makeTile(cell) {
  const { id, alt, src, problem, opening } = cell;
  const shown = opening
    ? openingOf(opening)
    : src
      ? element("img", { src, alt: "", draggable: false })
      : null;
  const picture = shown ?? element("span", { className: "missing" }, absenceOf({ alt, problem }));
  const tile = element(
    "button",
    { type: "button", className: "tile", title: opening ? "" : alt },
    picture,
    element("span", { className: "badge" }),
    ...alikeMark(cell),
  );
  tile.append(element("span", { className: "rank" }), element("span", { className: "angle" }));
  tile.dataset.item = String(id);
  if (opening) {
    const read = element(
      "button",
      { type: "button", className: "read", "aria-label": `Read ${alt}`, "aria-keyshortcuts": "Z" },
      "Read",
    );
    element("div", { className: "place" }, tile, read);
  }
  return tile;
}

/**
 * Return the element in the list that holds a tile: the tile itself, or a text's tile with the button below it.
 *
 * @param {HTMLElement} tile
 * @returns {HTMLElement}
 */
function placeOf(tile) {
  return tile.closest(".place") ?? tile;
}
