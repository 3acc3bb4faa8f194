// The size of texts and figures: usual, or large enough to be read from afar, as in a lecture hall. It is kept in the browser,
// and `?size=large` or `?size=usual` in the address of a page sets it when the page is opened.

const KEY = "closecall-size";
const SIZES = ["large", "usual"];

/** @typedef {{ closecallAsked?: string, closecallSize?: string }} Page the address's size, and the size now */

// Kept on the document, because each component loads a copy of this module.
const page = () => /** @type {Page} */ (globalThis.document ?? {});

export function isLarge() {
  const asked = new URLSearchParams(globalThis.location?.search ?? "").get("size") ?? "";
  // Streamlit keeps it in the address, so it is taken once. Afterwards the user can change it.
  if (SIZES.includes(asked) && page().closecallAsked !== asked && isOpened()) {
    page().closecallAsked = asked;
    setLarge(asked === "large");
  }
  try {
    return localStorage.getItem(KEY) === "large";
  } catch {
    return (page().closecallSize ?? asked) === "large"; // without localStorage, a size holds until a reload
  }
}

/** Return whether the document was opened by its address or by a link, not loaded again. */
function isOpened() {
  const [visit] = globalThis.performance?.getEntriesByType?.("navigation") ?? [];
  return !["reload", "back_forward"].includes(/** @type {PerformanceNavigationTiming} */ (visit)?.type);
}

/** @param {boolean} isOn */
export function setLarge(isOn) {
  const size = isOn ? "large" : "usual";
  page().closecallSize = size;
  try {
    localStorage.setItem(KEY, size);
  } catch {
    // Kept on the document.
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
