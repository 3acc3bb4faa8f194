// Texts as formatted by the server, and their previews for small spaces.

import { element } from "./dom.js";

/** @import { Opening, TextPart } from "../types" */

/**
 * Return a text with its parts, as a sheet that scrolls within its place.
 *
 * @param {string} alt
 * @param {TextPart[]} text
 */
export function sheet(alt, text) {
  const parts = text.map(({ kind, text: letters }) => element("p", { className: kind }, letters));
  return element("article", { className: "text", tabIndex: 0, "aria-label": alt }, ...parts);
}

/**
 * Return the sentences that are shown in place of a picture that can't be shown.
 *
 * @param {{ alt: string, problem?: string }} item
 */
export function absenceOf({ alt, problem }) {
  return [`${alt} can't be shown.`, problem].filter(Boolean).join(" ");
}

/**
 * Return a text's title and as much of its beginning as fits.
 *
 * @param {Opening} opening
 */
export function openingOf({ title, text }) {
  const lines = title ? [element("b", {}, title), element("br"), text] : [text];
  return element("span", { className: "opening" }, element("span", { className: "lines" }, ...lines));
}
