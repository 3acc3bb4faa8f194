// The size of texts and figures: usual, or large enough to be read from afar, as in a lecture hall. It is kept in the browser,
// and `?size=large` or `?size=usual` in the page's address sets it.

const KEY = "closecall-size";
const SIZES = ["large", "usual"];

export function isLarge() {
  const asked = new URLSearchParams(globalThis.location?.search ?? "").get("size") ?? "";
  if (SIZES.includes(asked)) setLarge(asked === "large");
  try {
    return localStorage.getItem(KEY) === "large";
  } catch {
    return asked === "large"; // without localStorage, only the address counts
  }
}

/** @param {boolean} isOn */
export function setLarge(isOn) {
  try {
    localStorage.setItem(KEY, isOn ? "large" : "usual");
  } catch {
    // Without localStorage, only the address counts.
  }
}

/**
 * Give a component's element, and the document's root, the attribute that their style sheets read.
 *
 * @param {Element | null | undefined} host
 */
export function applySize(host) {
  for (const one of [host, globalThis.document?.documentElement])
    one?.toggleAttribute?.("data-large", isLarge());
}
