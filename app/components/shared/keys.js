// Whom a key is meant for: the component, one of its fields, or one of Streamlit's.

import { painted } from "./dom.js";

const FIELD_ROLES =
  "[role=combobox],[role=listbox],[role=textbox],[role=slider],[role=spinbutton],[role=radiogroup]";

/**
 * Whether a key press is meant for a field: letters for text, arrows for everything that is set by them.
 *
 * @param {Event} event
 */
export function isField(event) {
  const target = /** @type {Partial<HTMLElement> | undefined} */ (event.composedPath()[0]);
  if (!target?.closest) return false;
  if (target.isContentEditable || target.closest("textarea,select") || target.closest(FIELD_ROLES))
    return true;
  const input = target.closest("input");
  return input !== null && !["checkbox", "button", "submit", "file"].includes(input.type);
}

/**
 * Whether a key press is the browser's or an input method's, and nothing of ours.
 *
 * @param {KeyboardEvent} event
 */
export function isShortcut(event) {
  return event.ctrlKey || event.metaKey || event.altKey || event.isComposing;
}

const PICKERS = "[data-testid=stSelectbox],[data-testid=stButtonGroup]";

// Not a variable of this module: a page may have modules of two versions for a moment.
const page = /** @type {{ closecallKeyOwners?: object[] }} */ (globalThis.document ?? {});
page.closecallKeyOwners ??= [];
const owners = page.closecallKeyOwners;

/**
 * Give the keys to a component: the one before it stays in the page for a moment.
 *
 * @param {object} owner
 */
export function takeKeys(owner) {
  dropKeys(owner);
  owners.push(owner);
}

/**
 * Return the keys of a closed component to the one that had them before.
 *
 * @param {object} owner
 */
export function dropKeys(owner) {
  const place = owners.indexOf(owner);
  if (place >= 0) owners.splice(place, 1);
}

/** @param {object} owner */
export function hasKeys(owner) {
  return owners.at(-1) === owner;
}

/**
 * Whether an event may pick an option of one of Streamlit's pickers.
 *
 * @param {Event} event
 */
export function mayChoose(event) {
  const path = /** @type {Partial<Element>[]} */ (event.composedPath());
  const isEnter = "key" in event && event.key === "Enter";
  return isEnter || path.some(({ role }) => role === "option" || role === "radio");
}

/** Open the search by name, by the page's own button. */
export function openFind() {
  /** @type {HTMLElement | null} */ (document.querySelector(".st-key-find button"))?.click();
}

const CLOSING_MS = 3000;

/** Give the keys back to the page as soon as the picker that has the focus is closed. */
export async function releaseFocus() {
  for (const start = performance.now(); performance.now() - start < CLOSING_MS; ) {
    await painted();
    const active = /** @type {HTMLElement | null} */ (document.activeElement);
    if (!active?.closest(PICKERS)) return;
    if (active.getAttribute("aria-expanded") !== "true") {
      active.blur();
      return;
    }
  }
}

/**
 * Give the keys back after each choice in one of Streamlit's pickers.
 *
 * @param {AbortSignal} signal
 */
export function watchPickers(signal) {
  /** @type {(event: Event) => void} */
  const heard = (event) => {
    if (mayChoose(event)) releaseFocus();
  };
  for (const kind of ["keydown", "click"]) document.addEventListener(kind, heard, { signal, capture: true });
}
