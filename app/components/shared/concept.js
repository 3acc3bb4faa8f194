// The question, its guideline and the examples of yes, above what is to be labeled.

import { element, say } from "./dom.js";

export function showConcept(card, { question, guideline, examples }) {
  say(card.querySelector(".question"), question);
  const text = card.querySelector(".guideline");
  say(text, guideline);
  text.hidden = !guideline;
  const pictures = card.querySelector(".examples");
  const written = `${examples.length} ${examples.at(-1)?.length}`;
  if (pictures.dataset.written !== written) {
    pictures.dataset.written = written;
    pictures.replaceChildren(
      ...examples.slice(0, 6).map((src) => element("img", { src, alt: "An example of yes" })),
    );
  }
  card.querySelector(".lead").hidden = !guideline && !examples.length;
  card.dataset.lead = String(Boolean(guideline || examples.length));
}

/** Show the whole guideline, or its beginning. */
export function unfoldGuideline(button) {
  button.setAttribute("aria-expanded", String(button.getAttribute("aria-expanded") !== "true"));
}
