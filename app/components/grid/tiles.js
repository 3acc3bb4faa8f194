// The images of a grid, as large as the window allows.

import { alikeMark } from "../shared/alike.js";
import { around, element, glyph, part, treeOf } from "../shared/dom.js";
import { inShort, inWords } from "../shared/prediction.js";
import { absenceOf } from "../shared/text.js";

/** @import { Cell, Standing } from "../types" */

/** @import { Marks } from "./marks.js" */

const SMALLEST = 64; // pixels; if images would be smaller, the page scrolls
const CLOSE_TO = 96; // smaller images are closer to each other
/** @type {Record<string, string>} */
const WORDS = { yes: "yes", no: "no", skip: "skipped", unsure: "unsure", tied: "tied" };
/** @type {Record<string, string>} */
const SETTLED = { held: "in another session's view" };

export class Tiles {
  /** @type {HTMLElement} */
  #place;
  /** @type {HTMLElement[]} */
  #tiles = [];
  /** @type {Cell[]} */
  #cells = [];
  columns = 1;

  /** @param {HTMLElement} place */
  constructor(place) {
    this.#place = place;
  }

  /**
   * Show the images once all of them are decoded or have failed; return false if newer cells arrived meanwhile.
   *
   * @param {Cell[]} cells
   */
  async paint(cells) {
    this.#cells = cells;
    const tiles = cells.map(makeTile);
    await Promise.allSettled(tiles.map((tile) => tile.querySelector("img")?.decode()));
    if (this.#cells !== cells) return false;
    const hadFocus = this.#place.contains(treeOf(this.#place).activeElement);
    for (const tile of tiles) showAbsence(tile);
    this.#tiles = tiles;
    this.#place.replaceChildren(...tiles);
    this.fit();
    if (hadFocus) tiles[0]?.focus({ preventScroll: true });
    return true;
  }

  /** Return the places of images that can't be shown. */
  get missing() {
    return this.#tiles.flatMap((tile, place) => (tile.querySelector("img") ? [] : [place]));
  }

  /** @param {Element} target */
  placeOf(target) {
    return this.#tiles.indexOf(/** @type {HTMLElement} */ (around(target, ".tile")));
  }

  /** @param {Marks} marks */
  show({ words, cursor, settled }) {
    this.#tiles.forEach((tile, place) => {
      const [word, stands] = [words[place], settled[place]];
      tile.toggleAttribute("data-settled", Boolean(stands));
      if (tile.dataset.mark !== (word ?? "")) {
        tile.dataset.mark = word ?? "";
        part(tile, ".badge").replaceChildren(...(word ? [glyph(`g-${word}`)] : []));
      }
      const { alt, alike, predicted } = this.#cells[place];
      const state = stands ? standing(stands) : (WORDS[word ?? ""] ?? "open");
      tile.setAttribute("aria-label", [alt, alike, state, inWords(predicted)].filter(Boolean).join(", "));
      tile.classList.toggle("cursor", place === cursor);
      tile.tabIndex = place === cursor ? 0 : -1;
    });
  }

  /**
   * Keep the image under the cursor in view, and focus it if another image had the focus.
   *
   * @param {number} cursor
   */
  follow(cursor) {
    const tile = this.#tiles[cursor];
    tile?.scrollIntoView({ block: "nearest" });
    if (this.#place.contains(treeOf(this.#place).activeElement)) tile?.focus({ preventScroll: true });
  }

  /** Choose the number of columns that makes the images largest; on phones the style sheet sets it. */
  fit() {
    const style = getComputedStyle(this.#place);
    const room = { width: this.#place.clientWidth, height: parseFloat(style.minHeight) || 0 };
    const fixed = parseInt(style.getPropertyValue("--fixed-columns"), 10);
    this.#place.style.removeProperty("--gap");
    const gap = parseFloat(style.columnGap);
    if (fixed) {
      this.#set(fixed, (room.width - (fixed - 1) * gap) / fixed);
      return;
    }
    const n = Math.max(this.#tiles.length, 1);
    const wide = largest(n, room, gap);
    const best = wide.side < CLOSE_TO ? largest(n, room, gap / 2) : wide;
    if (best !== wide) this.#place.style.setProperty("--gap", `${gap / 2}px`);
    if (best.side >= SMALLEST) this.#set(best.columns, best.side);
    else this.#set(Math.max(1, Math.floor((room.width + gap / 2) / (SMALLEST + gap / 2))), SMALLEST);
  }

  /**
   * @param {number} columns
   * @param {number} side
   */
  #set(columns, side) {
    this.columns = columns;
    this.#place.style.setProperty("--columns", String(columns));
    this.#place.style.setProperty("--tile", `${Math.floor(side)}px`);
  }
}

/**
 * Return the number of columns with which `n` squares in a room are largest, and their side.
 *
 * @param {number} n
 * @param {{ width: number, height: number }} room
 * @param {number} gap
 */
export function largest(n, { width, height }, gap) {
  const sides = Array.from({ length: n }, (_, i) => {
    const columns = i + 1;
    const rows = Math.ceil(n / columns);
    return Math.min((width - (columns - 1) * gap) / columns, (height - (rows - 1) * gap) / rows);
  });
  const side = Math.max(...sides);
  return { columns: sides.indexOf(side) + 1, side };
}

/**
 * Return why an image can't be answered here.
 *
 * @param {Standing} word
 */
export function standing(word) {
  return SETTLED[word] ?? `answered ${WORDS[word]}`;
}

/** @param {Cell} cell */
function makeTile(cell) {
  const { id, selection, alt, src, problem, predicted } = cell;
  const tile = element("button", { type: "button", className: "tile" });
  if (src) tile.append(element("img", { src, alt: "", draggable: false }));
  tile.append(element("span", { className: "badge" }), ...alikeMark(cell));
  if (predicted) tile.append(element("span", { className: "predicted" }, inShort(predicted)));
  tile.append(element("span", { className: "name", title: alt }, element("bdi", {}, alt)));
  Object.assign(tile.dataset, { item: id, selection, alt, absence: absenceOf({ alt, problem }) });
  return tile;
}

/**
 * Replace an image that could not be decoded by a note.
 *
 * @param {HTMLElement} tile
 */
function showAbsence(tile) {
  const image = tile.querySelector("img");
  if (image?.naturalWidth) return;
  image?.remove();
  tile.prepend(element("span", { className: "missing" }, tile.dataset.absence ?? ""));
}
