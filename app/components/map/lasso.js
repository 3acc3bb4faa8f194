// The lasso: a path drawn by hand, which becomes a polygon with few enough corners for a request.

/** @import { Place } from "../types" */

const MOST = 200; // corners
const APART = 3; // least CSS pixels between two corners

export class Lasso {
  /** @type {Place[]} */
  corners = []; // on the screen

  /** @param {Place} point */
  add(point) {
    const last = this.corners.at(-1);
    if (!last || Math.hypot(point.x - last.x, point.y - last.y) >= APART) this.corners.push(point);
  }

  /** Return the polygon, or null if the path encloses nothing. */
  polygon() {
    const step = Math.max(1, this.corners.length / MOST);
    const n = Math.min(MOST, this.corners.length);
    return n < 3 ? null : Array.from({ length: n }, (_, i) => this.corners[Math.floor(i * step)]);
  }
}

/**
 * Return the corners as the server reads them.
 *
 * @param {Place[]} places
 */
export function written(places) {
  return places.map(({ x, y }) => `${x.toFixed(6)},${y.toFixed(6)}`).join(",");
}
