// Tells the server that a tab is closed. Its items are then free for other sessions, and the next tab resumes its session.
// Tabs also tell each other: if a person signs out in one tab, the others are loaded again, and ask to sign in, too. On a
// page whose card does not listen to events, the page runs again when a question has changed, such as by a reset.
// A cookie with the browser's id tells the server that tabs without a name belong to one person.

import { mounting } from "../shared/mount.js";
import { Tidings } from "../shared/tidings.js";
import { followVisits } from "./visits.js";

/** @import { Component, PresenceData } from "../types" */

const TABS = "closecall tabs"; // the channel between the browser's tabs; see also `app.pages.presence`
const SIGNED_OUT = "signed out"; // what the page for signing in says there
const COOKIE = "closecall_browser"; // see `app.pages.browser`
const KEPT_SECONDS = 365 * 24 * 3600;
const AFTER = 1000; // milliseconds within which the request of the closed tab arrives

class Presence {
  #abort = new AbortController();
  #tabs = new BroadcastChannel(TABS);
  #tidings = new Tidings((kind) => {
    if (kind === "concept") this.#runAgain();
  });
  /** @type {Component<PresenceData> | null} */
  #component = null;

  constructor() {
    const { signal } = this.#abort;
    followVisits();
    addEventListener("pagehide", () => this.#leave(), { signal });
    this.#tabs.addEventListener("message", ({ data }) => this.#heard(data), { signal });
  }

  /** @param {Component<PresenceData>} component */
  update(component) {
    this.#component = component;
    const { address, key, changes, follows, left, browser } = component.data;
    keep(browser);
    this.#tidings.listen(address && follows ? { address, key, changes } : null);
    if (left) this.#tabs.postMessage(left);
  }

  close() {
    this.#abort.abort();
    this.#tidings.close();
    this.#tabs.close();
  }

  #leave() {
    const data = this.#component?.data;
    if (!data?.address) return;
    const place = new URL(`${data.address}/leave`, document.baseURI);
    const headers = { "X-Closecall-Page": data.key };
    // If the request fails, the session's items are free after some minutes.
    fetch(place, { method: "POST", headers, keepalive: true }).catch(console.debug);
    this.#tabs.postMessage(data.address);
  }

  /**
   * Run the page again if another tab has left this tab's session, because the session is still in use here.
   *
   * @param {string} said the address of the session that was left, or `SIGNED_OUT`
   */
  #heard(said) {
    if (said === SIGNED_OUT) location.reload();
    if (said !== this.#component?.data.address) return;
    setTimeout(() => this.#runAgain(), AFTER);
  }

  #runAgain() {
    this.#component?.setStateValue("again", Date.now());
  }
}

/**
 * Keep the browser's id in its cookie, unless another tab has just stored one.
 *
 * @param {string} browser
 */
function keep(browser) {
  if (document.cookie.split("; ").some((part) => part.startsWith(`${COOKIE}=`))) return;
  const secure = location.protocol === "https:" ? "; secure" : "";
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is missing in some browsers, and without HTTPS
  document.cookie = `${COOKIE}=${browser}; path=/; max-age=${KEPT_SECONDS}; samesite=lax${secure}`;
}

export default mounting(Presence);
