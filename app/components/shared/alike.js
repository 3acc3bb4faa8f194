// The link from an item to similar items, and the mark of an item that has near-duplicates.

import { element } from "./dom.js";
import { whole } from "./figures.js";

/** @import { Cell } from "../types" */

/**
 * Return the mark on the tile of an item that is one of several near-duplicates, in an array; otherwise, an empty one.
 *
 * @param {Pick<Cell, "alike" | "n_alike">} cell
 */
export function alikeMark({ alike, n_alike: n }) {
  return alike && n ? [element("span", { className: "n-alike", title: alike }, `≈ ${whole(n)}`)] : [];
}

/**
 * Return the address of the Find similar page for an item, in the session of the current address.
 *
 * @param {number} item
 */
export function alikeAddress(item) {
  const here = new URLSearchParams(location.search);
  const wanted = new URLSearchParams();
  for (const name of ["project", "session"]) {
    const value = here.get(name);
    if (value) wanted.set(name, value);
  }
  wanted.set("like", String(item));
  return new URL(`similar?${wanted}`, location.href).href;
}
