// Listens to server-sent events about changes elsewhere: the pool has grown, an index is ready, a question was reset. A
// browser opens few connections to a server, so only the tab in view listens. When it connects, it says how many changes of
// questions the page knows of, and the server tells it if there were others meanwhile.

/** @import { Http } from "../types" */

/**
 * @typedef {Pick<Http, "address" | "key" | "changes">} Place a session's address, the key with which the page uses it, and
 *   the number of changes that the page knows of
 */

const PAUSES = [1000, 5000, 30_000]; // milliseconds before the next try

export class Tidings {
  /** @type {(kind: string) => void} */
  #hear;
  /** @type {Place | null} */
  #http = null;
  #changes = 0;
  /** @type {AbortController | null} */
  #listening = null;
  #failures = 0;
  /** @type {number | undefined} */
  #timer;
  #abort = new AbortController();

  /**
   * @param {(kind: string) => void} hear called with the kind of each event
   */
  constructor(hear) {
    this.#hear = hear;
    const { signal } = this.#abort;
    document.addEventListener("visibilitychange", () => this.#follow(), { signal });
  }

  /**
   * Listen at the address of a payload; without one, stop listening.
   *
   * @param {Place | null | undefined} http
   */
  listen(http) {
    const isNew = http?.address !== this.#http?.address;
    if (http && http.changes !== this.#http?.changes) this.#changes = http.changes;
    this.#http = http ?? null;
    if (isNew) this.#stop();
    this.#follow();
  }

  close() {
    this.#abort.abort();
    this.#stop();
  }

  #stop() {
    clearTimeout(this.#timer);
    this.#listening?.abort();
    this.#listening = null;
  }

  #follow() {
    const isWanted = this.#http !== null && document.visibilityState === "visible";
    if (!isWanted) this.#stop();
    else if (!this.#listening) this.#open();
  }

  async #open() {
    const listening = new AbortController();
    this.#listening = listening;
    const { address, key } = /** @type {Place} */ (this.#http);
    try {
      const place = new URL(address.replace(/\/sessions\/.*/, "/events"), document.baseURI);
      place.searchParams.set("changes", String(this.#changes));
      const headers = { "X-Closecall-Page": key };
      const response = await fetch(place, { headers, signal: listening.signal, cache: "no-store" });
      if (!response.ok || !response.body) throw new TypeError("There are no events");
      this.#failures = 0;
      await this.#read(response.body);
    } catch {
      this.#failures += 1;
    }
    if (listening.signal.aborted) return;
    const pause = PAUSES[Math.min(this.#failures, PAUSES.length - 1)];
    this.#timer = setTimeout(() => {
      this.#listening = null;
      this.#follow();
    }, pause);
  }

  /**
   * Tell of an event; one that was missed may have been a change of a question.
   *
   * @param {string} kind
   * @param {{ changes?: number }} data with the number of changes after the event, if it may be a change of a question
   */
  #tell(kind, { changes }) {
    if (changes !== undefined) this.#changes = changes;
    this.#hear(changes === undefined ? kind : "concept");
  }

  /** @param {ReadableStream<Uint8Array>} body */
  async #read(body) {
    const decoder = new TextDecoder();
    const reader = body.getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = (text + decoder.decode(value, { stream: true })).split("\n\n");
      text = events.pop() ?? "";
      for (const event of events) {
        const kind = /^event: (.*)$/m.exec(event)?.[1];
        if (kind) this.#tell(kind, JSON.parse(/^data: (.*)$/m.exec(event)?.[1] ?? "{}"));
      }
    }
  }
}
