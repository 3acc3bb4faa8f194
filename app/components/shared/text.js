// Texts, as the server set them, and what stands for one in little room.

import { element } from "./dom.js";

/** @import { Opening, TextPart } from "../types" */

/**
 * A text in its parts, on a sheet that scrolls within its place.
 *
 * @param {string} alt
 * @param {TextPart[]} text
 */
export function sheet(alt, text) {
  const parts = text.map(({ kind, text: letters }) => element("p", { className: kind }, letters));
  return element("article", { className: "text", tabIndex: 0, "aria-label": alt }, ...parts);
}

/**
 * The title of a text, and how it begins: as much as there is room for.
 *
 * @param {Opening} opening
 */
export function openingOf({ title, text }) {
  const lines = title ? [element("b", {}, title), element("br"), text] : [text];
  return element("span", { className: "opening" }, element("span", { className: "lines" }, ...lines));
}
