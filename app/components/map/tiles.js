// The tiles of the map: each is requested once per version and painted into one picture of all tiles in view, so that a
// frame draws this picture only. Until a tile arrives, its previous version or a part of a coarser tile is drawn.

/** @import { View } from "./view.js" */

/**
 * @typedef {object} Tile
 * @property {string} stamp the version it was painted for
 * @property {ImageBitmap | null} picture null without items
 */

/** @typedef {{ zoom: number, column: number, row: number }} Spot */

const AT_ONCE = 6; // requests
const KEPT = 160; // tiles, of at most 256 kB
const PATIENCE = 2000; // milliseconds before requests after a failed one
const CRISP_FROM = 4; // CSS pixels per cell from which cells are drawn as sharp squares
// In the presenter's size, small cells are painted again below themselves, so that they are seen from afar.
const THICKER = 1.5; // CSS pixels on each side
const AROUND = 8; // directions

/** @param {Spot} spot */
const nameOf = ({ zoom, column, row }) => `${zoom}/${column}/${row}`;

export class Tiles {
  /** @type {Map<string, Tile>} */
  #tiles = new Map(); // least recently drawn first
  /** @type {Set<string>} */
  #coming = new Set();
  #stamp = "";
  #mosaic = document.createElement("canvas");
  #composed = "";
  #arrived = 0;
  #restUntil = 0;
  #isClosed = false;
  /** @type {Spot[]} */
  #wanted = [];

  /**
   * @param {(spot: Spot) => Promise<ImageBitmap | null>} load returns a tile of the newest version
   * @param {() => void} changed is called when a tile has arrived
   */
  constructor(load, changed) {
    this.load = load;
    this.changed = changed;
  }

  /**
   * Request the tiles again if the stamp differs; those in view stay until they are replaced.
   *
   * @param {string} stamp
   */
  renew(stamp) {
    if (stamp === this.#stamp) return;
    this.#stamp = stamp;
    this.changed();
  }

  /** Forget all tiles, because the places of the items have changed. */
  clear() {
    for (const { picture } of this.#tiles.values()) picture?.close();
    this.#tiles.clear();
    this.#composed = "";
  }

  close() {
    this.#isClosed = true;
    this.clear();
  }

  /** Return whether all tiles in view are of the newest version. */
  get isSettled() {
    return !this.#wanted.length;
  }

  /**
   * Draw the tiles in view, and request those that are missing or outdated.
   *
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   */
  draw(context, view) {
    const { zoom, side, range, cells } = view;
    const across = range.right - range.left + 1;
    const down = range.bottom - range.top + 1;
    if (across <= 0 || down <= 0) return;
    this.#want(zoom, range);
    const composed = `${zoom} ${Object.values(range)} ${this.#arrived}`;
    if (composed !== this.#composed) {
      this.#composed = composed;
      this.#compose(zoom, range, cells);
    }
    const corner = view.toScreen({ x: range.left / 2 ** zoom, y: range.top / 2 ** zoom });
    context.imageSmoothingEnabled = side / cells < CRISP_FROM;
    const paint = (dx = 0, dy = 0) =>
      context.drawImage(this.#mosaic, corner.x + dx, corner.y + dy, across * side, down * side);
    paint();
    if (!view.isLarge || side / cells >= CRISP_FROM) return;
    context.globalCompositeOperation = "destination-over";
    for (let i = 0; i < AROUND; i += 1) {
      const angle = (2 * Math.PI * i) / AROUND;
      paint(THICKER * Math.cos(angle), THICKER * Math.sin(angle));
    }
    context.globalCompositeOperation = "source-over";
  }

  /**
   * @param {number} zoom
   * @param {View["range"]} range
   */
  #want(zoom, { left, top, right, bottom }) {
    this.#wanted = [];
    for (let row = top; row <= bottom; row += 1) {
      for (let column = left; column <= right; column += 1) {
        const spot = { zoom, column, row };
        const name = nameOf(spot);
        const tile = this.#tiles.get(name);
        if (tile) {
          this.#tiles.delete(name);
          this.#tiles.set(name, tile);
        }
        if (tile?.stamp !== this.#stamp) this.#wanted.push(spot);
      }
    }
    this.#pump();
  }

  #pump() {
    for (const spot of this.#wanted) {
      if (this.#coming.size >= AT_ONCE || performance.now() < this.#restUntil || this.#isClosed) return;
      if (!this.#coming.has(nameOf(spot))) this.#fetch(spot);
    }
  }

  /** @param {Spot} spot */
  async #fetch(spot) {
    const name = nameOf(spot);
    const stamp = this.#stamp;
    this.#coming.add(name);
    try {
      const picture = await this.load(spot);
      if (this.#isClosed) picture?.close();
      else this.#keep(name, { stamp, picture });
    } catch {
      this.#restUntil = performance.now() + PATIENCE;
    }
    this.#coming.delete(name);
    if (!this.#isClosed) this.changed();
  }

  /**
   * @param {string} name
   * @param {Tile} tile
   */
  #keep(name, tile) {
    this.#tiles.get(name)?.picture?.close();
    this.#tiles.set(name, tile);
    this.#arrived += 1;
    for (const [oldest, { picture }] of this.#tiles) {
      if (this.#tiles.size <= KEPT) break;
      picture?.close();
      this.#tiles.delete(oldest);
    }
  }

  /**
   * @param {number} zoom
   * @param {View["range"]} range
   * @param {number} cells
   */
  #compose(zoom, { left, top, right, bottom }, cells) {
    this.#mosaic.width = (right - left + 1) * cells; // which also clears it
    this.#mosaic.height = (bottom - top + 1) * cells;
    const context = /** @type {CanvasRenderingContext2D} */ (this.#mosaic.getContext("2d"));
    context.imageSmoothingEnabled = false;
    for (let row = top; row <= bottom; row += 1) {
      for (let column = left; column <= right; column += 1) {
        const [x, y] = [(column - left) * cells, (row - top) * cells];
        for (let up = 0; up <= zoom; up += 1) {
          const spot = { zoom: zoom - up, column: column >> up, row: row >> up };
          const tile = this.#tiles.get(nameOf(spot));
          if (!tile) continue;
          const part = cells / 2 ** up;
          const [fromX, fromY] = [(column - (spot.column << up)) * part, (row - (spot.row << up)) * part];
          if (tile.picture) context.drawImage(tile.picture, fromX, fromY, part, part, x, y, cells, cells);
          break;
        }
      }
    }
  }
}
