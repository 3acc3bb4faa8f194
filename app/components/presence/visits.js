// The browser's Back and Forward. A page's address with a session also names the view, such as the grid. The page's
// script first writes addresses without the session. In a later run, it keeps the view that the tab shows, even if the
// address names another. A press of a key or button can change the address several times: before a page is left, and
// when the next page adds parameters of its own.

const LACKS_SESSION = (/** @type {URL} */ address) => !address.searchParams.has("session");

/**
 * Make Back and Forward lead from view to view: keep addresses without a session out of the history, keep only the last
 * address after each press, and load the page again at an address of another view. Call this once in each document;
 * later calls do nothing.
 */
export function followVisits() {
  if (Object.hasOwn(history, "pushState")) return;
  const push = history.pushState.bind(history);
  let path = location.pathname;
  let isPressed = false; // since the address last changed
  const pressed = () => {
    isPressed = true;
  };
  for (const press of ["keydown", "pointerdown", "click"]) addEventListener(press, pressed, true);
  history.pushState = (data, title, to) => {
    const now = new URL(location.href);
    const next = new URL(to ?? "", now);
    const isSamePage = next.pathname === now.pathname;
    if (isSamePage && LACKS_SESSION(next) && !LACKS_SESSION(now)) return;
    if (isPressed && !(isSamePage && LACKS_SESSION(now))) push(data, title, to);
    else history.replaceState(data, title, to);
    isPressed = false;
    path = location.pathname;
  };
  addEventListener("popstate", () => {
    isPressed = false;
    const isSamePage = location.pathname === path;
    path = location.pathname;
    if (!isSamePage || LACKS_SESSION(new URL(location.href))) return;
    history.pushState = history.replaceState = () => {}; // the page's script may run once more, for the former view
    location.reload();
  });
}
