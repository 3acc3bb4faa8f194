// The full resolution of a zoomed image: tiles over the image in its frame, loaded where they are in view. The server
// cuts them (app/display/originals.py): at level 0 from the image itself, at each further level from one of half the
// size.

import { element } from "./dom.js";

/** @import { Original } from "../types" */

/** @typedef {{ scale: number, x: number, y: number }} View the zoom, and the shift of the image's centre in pixels */
/** @typedef {{ level: number, column: number, row: number }} Place */

const REST = 80; // milliseconds without movement after which tiles of another view are loaded
const MOST = 80; // tiles kept in the page

/**
 * Return the coarsest level that has at least as many pixels as the screen shows.
 *
 * @param {Original} original
 * @param {number} shown the width of the whole image in pixels of the screen
 */
export function levelFor({ width }, shown) {
  return Math.max(0, Math.floor(Math.log2(width / Math.max(1, shown))));
}

/**
 * Return the size in pixels that an image has at a level.
 *
 * @param {Original} original
 * @param {number} level
 */
export function sizeAt({ width, height }, level) {
  return { width: Math.ceil(width / 2 ** level), height: Math.ceil(height / 2 ** level) };
}

/**
 * Return the tiles in a part of an image, those nearest its middle first.
 *
 * @param {Original} original
 * @param {number} level
 * @param {{ left: number, top: number, right: number, bottom: number }} part its edges, as shares of the image
 * @returns {Place[]}
 */
export function tilesIn(original, level, { left, top, right, bottom }) {
  const { width, height } = sizeAt(original, level);
  const [across, down] = [width / original.tile, height / original.tile];
  const within = (/** @type {number} */ first, /** @type {number} */ last, /** @type {number} */ n) => {
    const from = Math.max(0, Math.floor(first * n));
    const to = Math.min(Math.ceil(n) - 1, Math.ceil(last * n) - 1);
    return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i);
  };
  const [x, y] = [((left + right) / 2) * across - 0.5, ((top + bottom) / 2) * down - 0.5];
  const apart = (/** @type {Place} */ { column, row }) => Math.hypot(column - x, row - y);
  const columns = within(left, right, across);
  const places = within(top, bottom, down).flatMap((row) =>
    columns.map((column) => ({ level, column, row })),
  );
  return places.sort((one, other) => apart(one) - apart(other));
}

export class Detail {
  /** @type {HTMLElement} */
  #frame;
  #layer = element("div", { className: "detail", "aria-hidden": "true" });
  /** @type {Original | null} */
  #original = null;
  /** @type {Map<string, HTMLImageElement>} */
  #tiles = new Map();
  /** @type {number | undefined} */
  #timer;
  #isPrepared = false;
  #isShown = false; // whether a view has been loaded

  /** @param {HTMLElement} frame */
  constructor(frame) {
    this.#frame = frame;
  }

  /**
   * Take another image, of which nothing is loaded yet.
   *
   * @param {Original | null} original null for an image without a full resolution
   */
  take(original) {
    this.clear();
    this.#original = original?.src && original.width ? original : null;
  }

  /** Remove the tiles, and load no more. */
  clear() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isPrepared = this.#isShown = false;
    for (const tile of this.#tiles.values()) tile.src = ""; // ends loading
    this.#tiles.clear();
    this.#layer.replaceChildren();
    this.#layer.remove();
    this.#frame.dataset.detail = "none";
  }

  /**
   * Load the tiles in view: at once if none are loaded, otherwise when the view rests.
   *
   * @param {View} view
   */
  show(view) {
    if (!this.#original) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#load(view), this.#isShown ? REST : 0);
  }

  /**
   * Load the middle tile of a view that is likely to come, once per image, so that the server decodes the image.
   *
   * @param {View} view
   */
  prepare(view) {
    if (this.#isPrepared) return;
    this.#isPrepared = true;
    const found = this.#find(view);
    if (found) this.#tile(found.original, found.places[0]);
  }

  /** @param {View} view */
  #load(view) {
    const found = this.#find(view);
    if (!found) return;
    this.#isShown = true;
    this.#place(found.across, found.down);
    this.#settle(
      found.places.map((place) => this.#tile(found.original, place)),
      found.places[0].level,
    );
  }

  /**
   * Return the tiles in a view, and the image's sides as shares of the frame's; null if the image has enough pixels.
   *
   * @param {View} view
   */
  #find({ scale, x, y }) {
    const image = this.#frame.querySelector("img.item");
    const original = this.#original;
    if (!original || !(image instanceof HTMLImageElement)) return null;
    const { clientWidth: width, clientHeight: height } = this.#frame;
    const [across, down] = sidesIn(width / height, original);
    const pixels = (this.#frame.getBoundingClientRect().width / width) * devicePixelRatio;
    const shown = width * across * scale * pixels;
    if (shown <= image.naturalWidth) return null;
    const middle = { x: 0.5 - x / (width * across * scale), y: 0.5 - y / (height * down * scale) };
    const half = { x: 0.5 / (across * scale), y: 0.5 / (down * scale) };
    const part = {
      left: middle.x - half.x,
      right: middle.x + half.x,
      top: middle.y - half.y,
      bottom: middle.y + half.y,
    };
    return { original, across, down, places: tilesIn(original, levelFor(original, shown), part) };
  }

  /**
   * Put the layer over the image, which may be narrower or lower than its frame.
   *
   * @param {number} across
   * @param {number} down
   */
  #place(across, down) {
    if (this.#layer.parentElement) return;
    Object.assign(this.#layer.style, {
      left: `${50 - 50 * across}%`,
      top: `${50 - 50 * down}%`,
      width: `${100 * across}%`,
      height: `${100 * down}%`,
    });
    this.#frame.querySelector(".item")?.after(this.#layer);
  }

  /**
   * @param {Original} original
   * @param {Place} place
   */
  #tile(original, { level, column, row }) {
    const name = `${level} ${column} ${row}`;
    const known = this.#tiles.get(name);
    if (known) return known;
    const { width, height } = sizeAt(original, level);
    const { tile: side } = original;
    const tile = element("img", { alt: "", draggable: false });
    Object.assign(tile.style, {
      left: `${(100 * column * side) / width}%`,
      top: `${(100 * row * side) / height}%`,
      width: `${(100 * Math.min(side, width - column * side)) / width}%`,
      height: `${(100 * Math.min(side, height - row * side)) / height}%`,
    });
    tile.dataset.level = String(level);
    tile.src = `${original.src}&level=${level}&column=${column}&row=${row}`;
    this.#tiles.set(name, tile);
    return tile;
  }

  /**
   * Show each tile once it is decoded; when all are, remove those of other levels.
   *
   * @param {HTMLImageElement[]} wanted
   * @param {number} level
   */
  async #settle(wanted, level) {
    this.#frame.dataset.detail = "coming";
    const shown = await Promise.allSettled(
      wanted.map(async (tile) => {
        await tile.decode();
        if (this.#has(tile)) this.#layer.append(tile);
      }),
    );
    if (!wanted.every((tile) => this.#has(tile))) return;
    for (const [name, tile] of [...this.#tiles]) {
      const isOld = Number(tile.dataset.level) !== level;
      const isFailed = wanted.some((one, i) => one === tile && shown[i].status === "rejected");
      const isMuch = this.#tiles.size > MOST && !wanted.includes(tile);
      if (!(isOld || isFailed || isMuch)) continue;
      tile.remove();
      this.#tiles.delete(name);
    }
    this.#frame.dataset.detail = shown.some(({ status }) => status === "rejected") ? "failed" : "shown";
  }

  /** @param {HTMLImageElement} tile */
  #has(tile) {
    return [...this.#tiles.values()].includes(tile);
  }
}

/**
 * Return the width and height of an image in a frame, as shares of the frame's.
 *
 * @param {number} ratio width to height of the frame
 * @param {Original} original
 */
function sidesIn(ratio, { width, height }) {
  const own = width / height / ratio;
  return own > 1 ? [1, 1 / own] : [own, 1];
}
