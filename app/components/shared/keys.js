// The receiver of a key press: the component, one of its fields, or one of Streamlit's.

import { around, painted, treeOf } from "./dom.js";

const FIELD_ROLES =
  "[role=combobox],[role=listbox],[role=textbox],[role=slider],[role=spinbutton],[role=radiogroup]";

/**
 * Return whether a key press is for a field: letters for text, arrows for controls that arrows change.
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
 * Return whether Enter is for the target of a key press: a button, a link or another control.
 *
 * @param {Event} event
 */
export function takesEnter(event) {
  return around(/** @type {Element} */ (event.composedPath()[0]), "a,button,input,summary") !== null;
}

/**
 * Return whether a key press belongs to the browser or to an input method, not to the component.
 *
 * @param {KeyboardEvent} event
 */
export function isShortcut(event) {
  return event.ctrlKey || event.metaKey || event.altKey || event.isComposing;
}

const NAVIGATION = "[data-testid=stTopNav],[data-testid=stSidebarNav]";
const PICKERS = "[data-testid=stSelectbox],[data-testid=stButtonGroup]";

/** @typedef {{ text: string, end: AbortController }} Typed */

// Kept on the document, not in this module, because a page may briefly load two versions of the module.
const page = /** @type {{ closecallKeyOwners?: object[], closecallTyped?: Typed }} */ (
  globalThis.document ?? {}
);
page.closecallKeyOwners ??= [];
const owners = page.closecallKeyOwners;

/**
 * Give the keys to a component, since the previous one stays in the page for a moment.
 *
 * @param {object} owner
 */
export function takeKeys(owner) {
  dropKeys(owner);
  owners.push(owner);
}

/**
 * Give the keys of a closed component back to its predecessor.
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
 * Return whether an event may close one of Streamlit's pickers, as the choice of an option does.
 *
 * @param {Event} event
 */
export function mayClose(event) {
  const path = /** @type {Partial<Element>[]} */ (event.composedPath());
  const isKey = "key" in event && ["Enter", "Escape"].includes(String(event.key));
  return isKey || path.some(({ role }) => role === "option" || role === "radio");
}

const FIND = ".st-key-find button";
const OPENING_MS = 3000;

/** Open the search with the page's own button. */
export function openFind() {
  /** @type {HTMLElement | null} */ (document.querySelector(FIND))?.click();
}

/**
 * When the page's button opens the search, keep what is typed until the field of the search takes it.
 *
 * The field is there only after a round trip to the server. Until then, no letter may answer the item in view.
 *
 * @param {AbortSignal} signal
 */
export function watchFind(signal) {
  /** @type {(event: Event) => void} */
  const clicked = (event) => {
    const path = /** @type {Partial<Element>[]} */ (event.composedPath());
    if (path.some((one) => one.closest?.(FIND))) keepTyped();
  };
  document.addEventListener("click", clicked, { signal, capture: true });
}

function keepTyped() {
  takeTyped();
  const typed = { text: "", end: new AbortController() };
  page.closecallTyped = typed;
  /** @type {(event: KeyboardEvent) => void} */
  const pressed = (event) => {
    if (isShortcut(event) || isField(event)) return;
    event.stopImmediatePropagation();
    const isLetter = event.key.length === 1;
    if (!isLetter && event.key !== "Backspace") return;
    event.preventDefault();
    typed.text = isLetter ? typed.text + event.key : typed.text.slice(0, -1);
  };
  document.addEventListener("keydown", pressed, { signal: typed.end.signal, capture: true });
  setTimeout(() => typed.end.abort(), OPENING_MS);
}

/** Return what was typed since the search was opened, and give the keys back. */
export function takeTyped() {
  const typed = page.closecallTyped;
  delete page.closecallTyped;
  typed?.end.abort();
  return typed?.text ?? "";
}

const PANEL = "[data-testid=stPopoverBody] [data-testid=stRadio] label";
const OPEN_PANEL = ".st-key-strategy-picker button[aria-expanded=true]";

/**
 * Return whether a click chooses an option of a list in a panel. The arrow keys choose by a click without a button.
 *
 * @param {Event} event
 */
export function choosesInPanel(event) {
  const path = /** @type {Partial<Element>[]} */ (event.composedPath());
  const isByMouse = event.type === "click" && /** @type {MouseEvent} */ (event).detail > 0;
  return isByMouse && path.some((one) => one.matches?.(PANEL));
}

/** Close the panel with the list of strategies, which would cover the notes, once the choice has been taken. */
async function closePanel() {
  await painted();
  const opener = /** @type {HTMLElement | null} */ (document.querySelector(OPEN_PANEL));
  opener?.click();
  await painted();
  /** @type {HTMLElement | null} */ (document.activeElement)?.blur();
}

const CLOSING_MS = 3000;

/** Give the keys back to the page once the focused picker is closed. */
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
 * Give the keys to the page: now, if the link that led to it still has them, and after one of Streamlit's pickers
 * is closed by a choice or by Escape.
 *
 * @param {AbortSignal} signal
 */
export function watchPickers(signal) {
  const active = /** @type {HTMLElement | null} */ (document.activeElement);
  if (active?.closest?.(NAVIGATION)) active.blur();
  /** @type {(event: Event) => void} */
  const picked = (event) => {
    if (mayClose(event)) releaseFocus();
    if (choosesInPanel(event)) closePanel();
  };
  for (const kind of ["keydown", "click"]) document.addEventListener(kind, picked, { signal, capture: true });
}

/**
 * Take the focus from a button of the card that was clicked with the mouse. Otherwise the page's own keys, such as Enter
 * and Space, would press the button again.
 *
 * @param {HTMLElement} card
 * @param {AbortSignal} signal
 */
export function watchButtons(card, signal) {
  /** @type {(event: MouseEvent) => void} */
  const clicked = ({ detail }) => {
    const active = /** @type {HTMLElement | null} */ (treeOf(card).activeElement);
    if (detail && active?.matches("button") && !active.closest("dialog")) active.blur();
  };
  card.addEventListener("click", clicked, { signal });
}

/**
 * Return whether a letter was typed with Shift. Shift is also part of other characters, such as a question mark.
 *
 * @param {KeyboardEvent} event
 */
export function isShifted({ key, shiftKey }) {
  return shiftKey && key.toLowerCase() !== key.toUpperCase() && key.length === 1;
}
