// Tells the server that a tab is closed. Its items are then free for other sessions, and the next tab resumes its session.
// Tabs also tell each other: if a person signs out in one tab, the others are loaded again, and ask to sign in, too.

import { mounting } from "../shared/mount.js";
import { followVisits } from "./visits.js";

/** @import { Component, PresenceData } from "../types" */

const TABS = "closecall tabs"; // the channel between the browser's tabs; see also `app.pages.presence`
const SIGNED_OUT = "signed out"; // what the page for signing in says there
const AFTER = 1000; // milliseconds within which the request of the closed tab arrives

class Presence {
  #abort = new AbortController();
  #tabs = new BroadcastChannel(TABS);
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
    if (component.data.left) this.#tabs.postMessage(component.data.left);
  }

  close() {
    this.#abort.abort();
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
    setTimeout(() => this.#component?.setStateValue("again", Date.now()), AFTER);
  }
}

export default mounting(Presence);
