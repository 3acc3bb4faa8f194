// Whom a key is meant for: the component, one of its fields, or one of Streamlit's.

import { painted } from "./dom.js";

const FIELD_ROLES =
  "[role=combobox],[role=listbox],[role=textbox],[role=slider],[role=spinbutton],[role=radiogroup]";

/** Whether a key press is meant for a field: letters for text, arrows for everything that is set by them. */
export function isField(event) {
  const target = event.composedPath()[0];
  if (!target?.closest) return false;
  if (target.isContentEditable || target.closest("textarea,select") || target.closest(FIELD_ROLES))
    return true;
  const input = target.closest("input");
  return Boolean(input) && !["checkbox", "button", "submit", "file"].includes(input.type);
}

/** Whether a key press is the browser's or an input method's, and nothing of ours. */
export function isShortcut(event) {
  return event.ctrlKey || event.metaKey || event.altKey || event.isComposing;
}

const PICKERS = "[data-testid=stSelectbox],[data-testid=stButtonGroup]";

/** Let the component that came last have the keys: the one before it stays in the page for a moment. */
export function takeKeys(owner) {
  document.closecallKeys = owner;
}

export function hasKeys(owner) {
  return document.closecallKeys === owner;
}

/** Whether an event may pick an option of one of Streamlit's pickers. */
export function mayChoose(event) {
  return (
    event.key === "Enter" || event.composedPath().some((part) => ["option", "radio"].includes(part.role))
  );
}

/** Open the search by name, by the page's own button. */
export function openFind() {
  document.querySelector(".st-key-find button")?.click();
}

const CLOSING_MS = 3000;

/** Give the keys back to the page as soon as the picker that has the focus is closed. */
export async function releaseFocus() {
  for (const start = performance.now(); performance.now() - start < CLOSING_MS; ) {
    await painted();
    const active = document.activeElement;
    if (!active?.closest(PICKERS)) return;
    if (active.getAttribute("aria-expanded") !== "true") {
      active.blur();
      return;
    }
  }
}
