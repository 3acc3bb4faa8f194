// A page whose server was started again may be connected, and yet never be heard: the part of it that speaks is
// not known there. Loaded anew it is heard, and what waits to be saved is in the browser's store.

/** @import { Queue } from "./queue.js" */

// Milliseconds.
const PATIENCE = 25_000; // with a server that is there
const APART = 60_000; // never loaded again sooner

const LAST = "closecall revived";

export class Revival {
  /** @type {number | null} */
  #thereSince = null; // since when the server was found there at each try, and did not hear

  /** The server has said something. */
  heard() {
    this.#thereSince = null;
  }

  /**
   * Answers of `queue` went out in vain: reload the page if that goes on for long, where they survive it.
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
