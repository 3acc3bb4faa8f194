// The question, its guideline and the examples of yes above the items to label.

import { element, part, say } from "./dom.js";

/** @import { Concept } from "../types" */

/**
 * @param {HTMLElement} card
 * @param {Concept} concept
 */
export function showConcept(card, { question, guideline, examples }) {
  say(part(card, ".question"), question);
  const text = part(card, ".guideline");
  say(text, guideline);
  text.hidden = !guideline;
  const pictures = part(card, ".examples");
  const written = `${examples.length} ${examples.at(-1)?.length}`;
  if (pictures.dataset.written !== written) {
    pictures.dataset.written = written;
    pictures.replaceChildren(
      ...examples.slice(0, 6).map((src) => element("img", { src, alt: "An example of yes" })),
    );
  }
  part(card, ".lead").hidden = !guideline && !examples.length;
  card.dataset.lead = String(Boolean(guideline || examples.length));
}

/**
 * Toggle between the whole guideline and its beginning.
 *
 * @param {Element} button
 */
export function unfoldGuideline(button) {
  button.setAttribute("aria-expanded", String(button.getAttribute("aria-expanded") !== "true"));
}
