// Recovery after a restart of the server. The page may then be connected while its component is unknown to the
// server, so that no answer arrives. Reloading the page helps; unsaved answers are in localStorage.

/** @import { Queue } from "./queue.js" */

// Milliseconds.
const PATIENCE = 25_000; // wait before reloading while the server is reachable
const APART = 60_000; // least time between two reloads

const LAST = "closecall revived";

export class Revival {
  /** @type {number | null} */
  #thereSince = null; // since when the server has been reachable at each try without taking the answers

  /** Restart the wait, because the server has responded. */
  reset() {
    this.#thereSince = null;
  }

  /**
   * Reload the page if the answers of `queue` have failed to arrive for long, provided that they survive the reload.
   *
   * @param {Queue} queue
   */
  async consider(queue) {
    if (!queue.own.length || !queue.durable) return;
    const asked = performance.now();
    if (!(await isThere())) {
      this.#thereSince = null;
      return;
    }
    this.#thereSince ??= asked;
    if (performance.now() - this.#thereSince < PATIENCE || !queue.own.length) return;
    if (Date.now() - Number(sessionStorage.getItem(LAST)) < APART) return;
    sessionStorage.setItem(LAST, String(Date.now()));
    location.reload();
  }
}

async function isThere() {
  try {
    return (await fetch("healthz", { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}
