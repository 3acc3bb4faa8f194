// The part of the map that is in view. Places on the map are fractions of its side; places on the screen are CSS pixels
// from the corner of the canvas.

/** @import { Place } from "../types" */

const ROOM = 0.94; // share of the free part of the canvas that the whole map takes
const CELL = 2; // CSS pixels per cell for which tiles are painted
const LARGE = 2.5; // times as large cells in the presenter's size
const LARGEST_CELL = 14; // CSS pixels per cell of the finest tiles in the closest view

export class View {
  width = 1;
  height = 1;
  top = 0; // CSS pixels at the upper edge of the canvas that buttons cover
  scale = 1; // CSS pixels per side of the map
  x = 0.5; // the place in the middle of the canvas
  y = 0.5;
  isLarge = false; // whether points must be seen from afar
  #isWhole = true;

  /** @param {{ cells: number, finest: number }} tiles */
  constructor({ cells, finest }) {
    this.cells = cells;
    this.finest = finest;
  }

  /** The scale at which the canvas shows the whole map. */
  get whole() {
    return ROOM * Math.min(this.width, Math.max(this.height - this.top, this.height / 2));
  }

  get closest() {
    return Math.max(this.whole, this.cells * 2 ** this.finest * LARGEST_CELL);
  }

  /**
   * @param {number} width
   * @param {number} height
   * @param {number} top
   */
  resize(width, height, top = 0) {
    this.width = width;
    this.height = height;
    this.top = top;
    if (this.#isWhole) this.showWhole();
    else this.zoomBy(1);
  }

  showWhole() {
    this.scale = this.whole;
    this.x = 0.5;
    this.y = 0.5 - this.top / 2 / this.scale; // in the middle of the part below the buttons
    this.#isWhole = true;
  }

  /**
   * Scale by a factor, keeping the place under a point of the screen.
   *
   * @param {number} factor
   * @param {Place} point
   */
  zoomBy(factor, point = { x: this.width / 2, y: this.height / 2 }) {
    const place = this.toMap(point);
    this.scale = Math.min(this.closest, Math.max(this.whole, this.scale * factor));
    this.#isWhole = this.scale === this.whole;
    const now = this.toMap(point);
    this.#moveTo(this.x + place.x - now.x, this.y + place.y - now.y);
  }

  /**
   * Move the map by CSS pixels.
   *
   * @param {number} dx
   * @param {number} dy
   */
  panBy(dx, dy) {
    this.#isWhole = false;
    this.#moveTo(this.x - dx / this.scale, this.y - dy / this.scale);
  }

  /**
   * Keep a part of the map in view.
   *
   * @param {number} x
   * @param {number} y
   */
  #moveTo(x, y) {
    this.x = Math.min(1, Math.max(0, x));
    this.y = Math.min(1, Math.max(0, y));
  }

  /**
   * @param {Place} point
   * @returns {Place}
   */
  toMap({ x, y }) {
    return { x: this.x + (x - this.width / 2) / this.scale, y: this.y + (y - this.height / 2) / this.scale };
  }

  /**
   * @param {Place} place
   * @returns {Place}
   */
  toScreen({ x, y }) {
    return {
      x: (x - this.x) * this.scale + this.width / 2,
      y: (y - this.y) * this.scale + this.height / 2,
    };
  }

  /** Return the zoom, at most `finest`, at which a cell's size on the screen is nearest to `CELL`, or larger for an audience. */
  get zoom() {
    const cell = this.isLarge ? LARGE * CELL : CELL;
    const zoom = Math.round(Math.log2(this.scale / (this.cells * cell)));
    return Math.min(this.finest, Math.max(0, zoom));
  }

  /** Return the side of a tile of the current zoom in CSS pixels. */
  get side() {
    return this.scale / 2 ** this.zoom;
  }

  /** Return the first and the last column and row of the tiles in view; there may be none. */
  get range() {
    const [low, high] = [this.toMap({ x: 0, y: 0 }), this.toMap({ x: this.width, y: this.height })];
    const n = 2 ** this.zoom;
    const first = (/** @type {number} */ value) => Math.max(0, Math.floor(value * n));
    const last = (/** @type {number} */ value) => Math.min(n - 1, Math.floor(value * n));
    return { left: first(low.x), top: first(low.y), right: last(high.x), bottom: last(high.y) };
  }
}
